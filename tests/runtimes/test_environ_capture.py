"""Scrubbing of the environment and bounded capture of output."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vfnb.runtimes.capture import Capture
from vfnb.runtimes.environ import scrubbed

SECRET = [
    *("OPENAI_API_KEY", "OPENAI_BASE_URL", "ANTHROPIC_AUTH_TOKEN", "AWS_PROFILE", "HF_TOKEN", "GITHUB_ACTOR"),
    *("DB_PASSWORD", "MY_SECRET", "APIKEY", "GOOGLE_APPLICATION_CREDENTIALS", "SSH_AUTH_SOCK", "NETRC"),
    *("WANDB_MODE", "JUPYTER_TOKEN", "XDG_CONFIG_HOME", "SENTRY_DSN", "my_token", "SIGNING_KEY"),
]
PLAIN = [
    *("PATH", "LANG", "LC_ALL", "TZ", "TERM", "USER", "PYTHONPATH", "VIRTUAL_ENV", "CUDA_VISIBLE_DEVICES"),
    *("PWD", "KEYBOARD_LAYOUT", "TOKENIZERS_PARALLELISM", "MONKEY_ISLAND", "HF_HOME", "COMPASS"),
]


@pytest.mark.parametrize("name", SECRET)
def test_credentials_and_providers_are_dropped(name: str) -> None:
    assert scrubbed({name: "value"}) == {}
    assert scrubbed({name: "value"}, keep=[name]) == {name: "value"}


@pytest.mark.parametrize("name", PLAIN)
def test_ordinary_variables_stay(name: str) -> None:
    assert scrubbed({name: "value"}) == {name: "value"}


def test_password_inside_a_url_is_dropped() -> None:
    assert scrubbed({"HTTP_PROXY": "http://me:pw@proxy:80", "INDEX": "https://index/simple"}) == {
        "INDEX": "https://index/simple"
    }


@given(st.lists(st.binary(max_size=60), max_size=20), st.integers(1, 20))
def test_capture_keeps_both_ends_and_counts_the_rest(pieces: list[bytes], half: int) -> None:
    pieces = [piece.replace(b"\xff", b"?") for piece in pieces]
    capture = Capture(2 * half)
    for piece in pieces:
        capture.feed(piece)
    whole = b"".join(pieces)
    assert capture.dropped == max(0, len(whole) - 2 * half)
    if capture.dropped:
        head, tail = (part.decode("utf-8", "replace") for part in (whole[:half], whole[-half:]))
        assert capture.text() == f"{head}\n[... {capture.dropped} bytes left out ...]\n{tail}"
    else:
        assert capture.text() == whole.decode("utf-8", "replace")
    assert capture.text() == capture.text()
