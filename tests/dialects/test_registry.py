"""Routes, and dialects written in a cell."""

from __future__ import annotations

from typing import Any, ClassVar

import pytest

from vfnb.dialects import Dialect, RequestError, Splitter, get, match
from vfnb.errors import ConfigError
from vfnb.types import AssistantMessage, Messages, Response, Tool, UserMessage


@pytest.mark.parametrize(
    "path",
    [
        "/v1/chat/completions",
        "/chat/completions",
        "/v1/v1/chat/completions",
        "/v1/chat/completions/",
        "/v1/chat/completions?beta=true",
        "/chat/completions/?a=b&c",
        "/openai/deployments/gpt-x/chat/completions?api-version=1",
        "/openai/v1/chat/completions",
    ],
)
def test_chat_routes(path: str) -> None:
    assert match(path) is get("chat")


@pytest.mark.parametrize(
    "path", ["/", "/v1", "/v1/models", "/chat", "/v1/chat/completions/x", "/completions", ""]
)
def test_unknown_routes(path: str) -> None:
    assert match(path) is None


def make(reply_prefix: str) -> type[Dialect[Any, Any]]:
    class Lines(Dialect[dict[str, Any], dict[str, Any]]):
        routes: ClassVar[tuple[str, ...]] = ("/v1/lines", "/v1/lines/{model}:run")

        def parse_request(self, body: dict[str, Any]) -> tuple[Messages, list[Tool] | None]:
            return [UserMessage(content=line) for line in body["lines"]], None

        def parse_response(self, resp: dict[str, Any]) -> Response:
            return Response(message=AssistantMessage(content=reply_prefix + resp["line"]))

    return Lines


def test_a_dialect_of_a_cell_registers_and_reads() -> None:
    make("")
    dialect = match("/lines/")
    assert dialect is not None
    assert dialect.name == "lines"
    assert match("/v1/lines/some-model:run") is dialect
    assert match("/v1/lines/a/b:run") is None
    splitter = Splitter(dialect)
    split = splitter.split(b'{"lines": ["a", "b"], "model": "m"}')
    dialect.check(split)
    assert [message.text for message in dialect.read(split)] == ["a", "b"]
    assert dialect.read_tools(split) == []
    assert dialect.model(split.fields) == "m"
    assert not dialect.streams(split.fields)
    splitter.remember(split, "mark")
    assert splitter.split(split.body).known is None
    assert splitter.digest(split) == splitter.digest(splitter.split(b'{"model": "m", "lines": ["a","b"]}'))
    changes = dialect.override(split.fields, {"temperature": 1, "extra_body": {"k": 2}}, "z")
    assert split.assemble(changes) == b'{"lines": ["a", "b"], "model": "z", "temperature": 1, "k": 2}'
    assert dialect.read_response(b'{"line": "hi"}').text == "hi"


def test_defining_it_again_replaces_it() -> None:
    make("old ")
    old = get("lines")
    make("new ")
    assert match("/v1/lines") is get("lines") is not old
    assert get("lines").read_response(b'{"line": "x"}').text == "new x"


def test_its_errors_are_clear() -> None:
    make("")
    dialect = get("lines")
    with pytest.raises(RequestError, match="'lines' could not read the request: KeyError"):
        dialect.read(Splitter(dialect).split(b"{}"))
    with pytest.raises(ValueError, match="not a lines reply"):
        dialect.read_response(b"{}")
    with pytest.raises(ConfigError, match=r"define frame\("):
        dialect.frame(Response(message=AssistantMessage(content="x")), "m")
    with pytest.raises(ConfigError, match="known are"):
        get("nothing")


def test_its_streams_are_relayed() -> None:
    make("")
    reader = get("lines").reader()
    raw = b'data: {"part": "h"}\n\ndata: {"line": "hi"}\n\n'
    assert reader.feed(raw) == raw
    reader.close()
    assert reader.complete
    assert reader.response().text == "hi"
    reader = get("lines").reader()
    reader.feed(b'data: {"part": "h"}\n\n')
    reader.close()
    with pytest.raises(ValueError, match=r"define reader\(\)"):
        reader.response()


def test_a_class_that_cannot_work_is_refused_at_once() -> None:
    with pytest.raises(ConfigError, match="tuple of paths"):

        class Wrong(Dialect[Any, Any]):
            routes = "/v1/x"  # type: ignore[assignment]

    with pytest.raises(ConfigError, match="no parse_response"):

        class Half(Dialect[Any, Any]):
            routes = ("/v1/x",)

            def parse_request(self, body: Any) -> tuple[Messages, list[Tool] | None]:
                return [], None

    assert match("/v1/x") is None
