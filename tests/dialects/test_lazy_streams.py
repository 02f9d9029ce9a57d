"""Streams whose events are read together later say the same as streams whose events are read one by one."""

from __future__ import annotations

import random
from typing import Any

import pytest

from vfnb.dialects import StreamReader, get
from vfnb.types import AssistantMessage, Response, TextContentPart, ToolCall, Usage

NAMES = ("chat", "responses", "messages")
ODD = (
    b": keepalive\n\n",
    b'event: ping\ndata: {"type": "ping"}\n\n',
    b'data: {"choices": [{"index": 0, "delta": {"content": "x", "refusal": null}}]}\n\n',
    b'data: {"choices": [{"index": 0, "delta": {"content": "\\"finish_reason\\": \\"stop\\""}}]}\n\n',
    b'data: {"error": null, "choices": []}\n\n',
    b"data: not json\n\n",
    b"data: \n\n",
    b"data:{}\n\n",
    b'data: {"type": "content_block_delta", "index": 0,\ndata:  "delta": {"type": "text_delta", "text": "2"}}\n\n',
    b'event: response.output_text.delta\ndata: {"type": "response.output_text.delta", "delta": "no place"}\n\n',
    b'data: {"choices": [{"index": 0, "delta": {"reasoning_details": [{"type": "a", "text": "t"}]}}]}\n\n',
)
LAST = (
    b'data: {"error": {"message": "it broke", "code": 500}}\n\n',
    b'event: error\ndata: {"type": "error", "error": {"type": "overloaded_error", "message": "later"}}\n\n',
    b'data: {"choices": [{"index": 0, "delta": {"content": "cut"',
)


def response(pick: random.Random) -> Response:
    calls = [ToolCall(id=f"call_{n}", name="add", arguments='{"a": 1}') for n in range(pick.randrange(3))]
    text = "".join(pick.choice('abc é\U0001f600\n"\\') for _ in range(pick.randrange(200)))
    content: Any = text if pick.random() < 0.7 else [TextContentPart(text=text), TextContentPart(text="more")]
    message = AssistantMessage(
        content=content, reasoning_content=pick.choice([None, "hm " * 20]), tool_calls=calls
    )
    return Response(
        message=message,
        finish_reason="tool_calls" if calls else pick.choice(["stop", "length"]),
        usage=Usage(prompt_tokens=7, completion_tokens=5),
        id="r1",
        model="m",
    )


def stream(name: str, pick: random.Random) -> bytes:
    events = list(get(name).frame_stream(response(pick), "m", 1, size=pick.choice([1, 4, 30])))
    for _ in range(pick.randrange(4)):
        events.insert(pick.randrange(len(events)), pick.choice(ODD))
    if pick.random() < 0.3:
        events = [*events[: pick.randrange(1, len(events))], pick.choice((*LAST, b""))]
    raw = b"".join(events)
    return raw.replace(b"\n", b"\r\n") if pick.random() < 0.1 else raw


def told(reader: StreamReader, raw: bytes, size: int) -> tuple[Any, ...]:
    passed = b"".join(reader.feed(raw[start : start + size]) for start in range(0, len(raw), size))
    reader.close()
    try:
        answer: Any = reader.response()
    except ValueError as error:
        answer = str(error)
    return passed, reader.held, reader.started, reader.complete, reader.error, reader.partial_text, answer


@pytest.mark.parametrize("name", NAMES)
def test_read_together_or_one_by_one(name: str) -> None:
    kind: Any = type(get(name).reader())
    one_by_one = type("OneByOne", (kind,), {"urgent": ()})
    assert kind.urgent
    for seed in range(100):
        pick = random.Random(f"{name} {seed}")
        raw = stream(name, pick)
        wanted = told(one_by_one(), raw, len(raw))
        assert wanted[0] + wanted[1] == raw
        for size in (1, 50, 700, len(raw)):
            assert told(kind(), raw, size) == wanted, (seed, size)


@pytest.mark.parametrize("name", NAMES)
def test_a_long_stream_is_read_before_its_end(name: str) -> None:
    dialect = get(name)
    text = "lorem ipsum " * 30_000
    events = dialect.frame_stream(Response(message=AssistantMessage(content=text)), "m", 1)
    reader: Any = dialect.reader()
    most = 0
    for event in events:
        reader.feed(event)
        most = max(most, reader._unread_size)
    reader.close()
    assert reader.response().text == text
    assert 0 < most < 400_000
