"""Odd streams of calls, as some servers send them, come out whole in every dialect."""

from __future__ import annotations

import json
from typing import Any

import pytest

from vfnb.dialects import get
from vfnb.dialects.translation import Translated, Translation
from vfnb.types import Tool


def delta(**keys: Any) -> bytes:
    return b"data: " + json.dumps({"choices": [{"index": 0, "delta": keys}]}).encode() + b"\n\n"


def call(index: int | None, text: str, name: str = "", key: str = "") -> bytes:
    function: dict[str, Any] = {"arguments": text} | ({"name": name} if name else {})
    found: dict[str, Any] = {"function": function} | ({"id": key} if key else {})
    return delta(tool_calls=[found if index is None else found | {"index": index}])


STREAMS = {
    "mixed": [
        delta(content="hi"),
        call(0, '{"x"', "f", "a"),
        call(1, '{"y"', "g", "b"),
        call(0, ":1}"),
        call(1, ":2}"),
    ],
    "repeated names": [call(0, '{"x"', "f", "a"), call(0, ":1}", "f", "a")],
    "no index": [call(None, "{}", "f", "a"), call(None, "{}", "g", "b")],
    "name after arguments": [call(0, '{"x"', "", "a"), call(0, ":1}", "f"), delta(content="after")],
    "text between calls": [call(0, "{}", "f", "a"), delta(content="and"), call(1, "{}", "g", "b")],
    "split surrogates": [delta(content="\ud83d"), delta(content="\ude00!")],
}
END = b'data: {"choices":[{"index":0,"delta":{},"finish_reason":"stop"}]}\n\ndata: [DONE]\n\n'


@pytest.mark.parametrize("program", ["chat", "responses", "messages", "gemini"])
@pytest.mark.parametrize("stream", STREAMS)
def test_an_odd_stream_comes_out_whole(stream: str, program: str) -> None:
    chat, dialect = get("chat"), get(program)
    translation = Translation(dialect, chat, [Tool(name="f"), Tool(name="g")])
    writer = dialect.writer("m", 1, usage=True, identity=translation.identity)
    reader = Translated(chat.reader(), writer, translation)
    out = b"".join(reader.feed(event) for event in STREAMS[stream])
    out += reader.feed(END)
    reader.close()
    assert reader.complete
    heard = dialect.reader()
    heard.feed(out + reader.held)
    heard.close()
    got, said = heard.response().message, reader.response().message
    assert got.text == said.text
    assert [(c.id, c.name, c.parsed) for c in got.tool_calls] == [
        (c.id, c.name, c.parsed) for c in said.tool_calls
    ]
