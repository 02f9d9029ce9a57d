"""Variables in settings are saved with the run: what looks like a secret is refused, the rest is not."""

from __future__ import annotations

import pytest

from vfnb.errors import ConfigError
from vfnb.runtimes import SubprocessConfig


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("SERVICE_API_KEY", "0123456789abcdef"),
        ("DB_PASSWORD", "correct-horse-battery"),
        ("GITHUB_TOKEN", "ghp_0123456789abcdef"),
        ("DATABASE", "postgres://user:word@host/db"),
    ],
)
def test_what_looks_like_a_secret_is_refused_and_the_value_is_not_repeated(name: str, value: str) -> None:
    with pytest.raises(ConfigError, match=f"env: .*{name} looks like a secret.*runtime.pass_env") as caught:
        SubprocessConfig(env={name: value})
    assert value not in str(caught.value)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("CLAUDE_CODE_MAX_OUTPUT_TOKENS", "100000000000"),
        ("OPENAI_API_KEY", "{api_key}"),
        ("SOME_API_KEY", "dummy"),
        ("PWD", "/a/long/working/folder"),
        ("GREETING", "a-long-word-that-is-no-secret"),
        ("PROXY", "http://host:3128/"),
    ],
)
def test_other_variables_pass(name: str, value: str) -> None:
    assert SubprocessConfig(env={name: value}).env == {name: value}
