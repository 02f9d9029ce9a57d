"""Event streams cut anywhere give the same events."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from vfnb.dialects.sse import EventSplitter, event_data, event_name

EVENTS = ["data: {}", ": comment", "event: a\ndata: é☃", "data:x\ndata: y", "id: 1", "data: [DONE]", "data"]


@given(
    events=st.lists(st.sampled_from(EVENTS), max_size=6),
    line=st.sampled_from(["\n", "\r\n", "\r"]),
    cuts=st.lists(st.integers(1, 12), max_size=40),
    end=st.sampled_from(["", "data: unfinished"]),
)
def test_any_cut_gives_the_same_events(events: list[str], line: str, cuts: list[int], end: str) -> None:
    text = "".join(event.replace("\n", line) + line + line for event in events) + end
    raw = text.encode()
    splitter = EventSplitter()
    found: list[bytes] = []
    position = 0
    for size in [*cuts, len(raw)]:
        found += splitter.feed(raw[position : position + size])
        position += size
    rest = splitter.flush()
    assert b"".join(found) + rest == raw
    wanted = [event_data(event.encode()) for event in events]
    got = [event_data(event) for event in found] + ([event_data(rest)] if rest else [])
    assert [data for data in got if data] == [data for data in [*wanted, event_data(end.encode())] if data]


def test_fields_of_an_event() -> None:
    assert event_data(b"data: a\r\ndata:b\r\n\r\n") == b"a\nb"
    assert event_data(b": keepalive\n\n") == b""
    assert event_data(b"event: x\n\n") == b""
    assert event_name(b"event: message_stop\ndata: {}\n\n") == "message_stop"
    assert event_name(b"data: {}\n\n") == ""
