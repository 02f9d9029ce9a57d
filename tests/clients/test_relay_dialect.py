"""`vf.Relay(dialect=)`: where its server and key are found, and what is saved of it."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

import vfnb as vf
from vfnb.errors import ConfigError
from vfnb.runs.config import plain


@pytest.mark.parametrize(
    ("dialect", "base", "key"),
    [
        (None, "OPENAI_BASE_URL", "OPENAI_API_KEY"),
        ("chat", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
        ("responses", "OPENAI_BASE_URL", "OPENAI_API_KEY"),
        ("messages", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY"),
        ("gemini", "GOOGLE_GEMINI_BASE_URL", "GEMINI_API_KEY"),
    ],
)
def test_server_and_key_are_those_of_the_dialect(
    dialect: str | None, base: str, key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("OPENAI", "ANTHROPIC", "GOOGLE_GEMINI"):
        monkeypatch.delenv(f"{name}_BASE_URL", raising=False)
    relay = vf.Relay("m", dialect=dialect)
    with pytest.raises(ConfigError, match=base):
        relay.check()
    monkeypatch.setenv(base, "https://models.invalid")
    monkeypatch.delenv(key, raising=False)
    with pytest.raises(ConfigError, match=key):
        relay.check()
    monkeypatch.setenv(key, "secret")
    relay.check()
    assert relay.base_url == "https://models.invalid"
    assert relay.settings()["api_key_var"] == key
    assert "secret" not in repr(relay) + str(relay.identity()) + str(relay.settings())


def test_the_dialect_is_saved_and_part_of_the_identity() -> None:
    here: dict[str, Any] = {"base_url": "http://127.0.0.1:1"}
    relay = vf.Relay("m", dialect="messages", **here)
    assert relay.identity()["dialect"] == relay.settings()["dialect"] == "messages"
    assert "dialect" not in vf.Relay("m", **here).identity()
    config = vf.EvalConfig.load(taskset="addition", model={"name": "m", "dialect": "messages", **here})
    saved = plain(config)
    assert saved["model"]["dialect"] == "messages"
    assert config.model is not None
    assert repr(config.model.client()) == repr(relay)
    again = vf.EvalConfig.load(**saved)
    assert again.model == config.model


def test_what_cannot_work_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match=r"no dialect 'claude'; known are .*messages"):
        vf.Relay("m", dialect="claude")

    class ReadOnly(vf.Dialect):
        name: ClassVar[str] = "read_only"

        def parse_request(self, body: Any) -> Any:
            return [], None

        def parse_response(self, resp: Any) -> vf.Response:
            return vf.Response(message=vf.AssistantMessage(content=""))

        routes: ClassVar[tuple[str, ...]] = ("/v1/read_only",)

    with pytest.raises(ConfigError, match="define request"):
        vf.Relay("m", dialect="read_only")
