"""A secret in a setting is refused, and the message does not show it: cells and logs are kept."""

from __future__ import annotations

from typing import Any

import pytest

import vfnb as vf
from vfnb.errors import ConfigError
from vfnb.tasks.judges.config import JudgeConfig

SECRET = "sk-verysecretvalue1234"


@pytest.mark.parametrize(
    "settings",
    [
        {"headers": {"Authorization": f"Bearer {SECRET}"}},
        {"base_url": f"http://user:{SECRET}@host/v1"},
        {"base_url": f"http://host/v1?api_key={SECRET}"},
    ],
)
def test_a_judge_does_not_repeat_a_secret(settings: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"put .* into the environment") as alone:
        JudgeConfig(**settings)
    with pytest.raises(ConfigError, match=r"put .* into the environment") as listed:
        vf.TaskConfig(judges=[{"id": "decision", **settings}])
    for caught in (alone, listed):
        assert SECRET not in str(caught.value)


def test_an_mcp_server_does_not_repeat_a_secret() -> None:
    with pytest.raises(ConfigError, match="headers belong to a URL") as caught:
        vf.McpServer(command=["server"], headers={"Authorization": SECRET})
    assert SECRET not in str(caught.value)
