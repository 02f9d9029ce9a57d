"""Histories that are known in part: markers that move, turns that were edited, histories cut short."""

from __future__ import annotations

import json
from typing import Any

import msgspec
from hypothesis import given, settings
from hypothesis import strategies as st

from vfnb.dialects import Splitter, get
from vfnb.interception.turns import TurnReader
from vfnb.trace import Trace
from vfnb.trace.calls import ModelCall

MESSAGES = get("messages")
MARK = {"type": "ephemeral"}

steps = st.one_of(
    st.tuples(st.just("add"), st.integers(0, 9), st.integers(0, 2)),
    st.tuples(st.just("cut"), st.integers(0, 9), st.integers(0, 9)),
    st.tuples(st.just("edit"), st.integers(0, 9), st.integers(0, 9)),
    st.tuples(st.just("mark"), st.integers(0, 9), st.integers(0, 9)),
)


def entry(text: str, results: int = 0) -> dict[str, Any]:
    content: list[Any] = [
        {"type": "tool_result", "tool_use_id": f"t{number}", "content": f"{number} {text}"}
        for number in range(results)
    ]
    return {"role": "user", "content": [*content, {"type": "text", "text": text * 20}]}


def changed(history: list[Any], step: tuple[str, int, int], number: int) -> list[Any]:
    kind, place, more = step
    if kind == "add" or not history:
        return [*history, *(entry(f"{number}-{index}", more) for index in range(place % 4))]
    place %= len(history)
    if kind == "cut":
        return history[:place]
    history = json.loads(json.dumps(history))
    if kind == "edit":
        history[place] = entry(f"edit{number}", more % 3)
        return history
    for item in history:
        for block in item["content"]:
            block.pop("cache_control", None)
    for item in {place, more % len(history)}:
        history[item]["content"][-1]["cache_control"] = MARK
    return history


def body(history: list[Any], **keys: Any) -> bytes:
    return json.dumps({"model": "m", "messages": history, **keys}).encode()


@settings(max_examples=80, deadline=None)
@given(st.lists(steps, min_size=2, max_size=12))
def test_a_part_that_is_known_is_the_same_items(changes: list[tuple[str, int, int]]) -> None:
    splitter = Splitter(MESSAGES)
    history: list[Any] = [entry("first")]
    told: dict[int, list[Any]] = {}
    for number, step in enumerate(changes):
        history = changed(history, step, number)
        raw = body(history, stream=bool(number % 2))
        split, full = splitter.split(raw), Splitter(MESSAGES).split(raw)
        assert [msgspec.json.decode(item) for item in split.items] == history[split.n_known :]
        assert (split.start, split.end) == (full.start, full.end)
        assert splitter.digest(split) == Splitter(MESSAGES).digest(full)
        if split.known is not None:
            assert isinstance(split.known, int)
            said = told[split.known]
            messages = [message for item in said for message in MESSAGES.decode(json.dumps(item).encode())]
            known = [
                m for item in history[: split.n_known] for m in MESSAGES.decode(json.dumps(item).encode())
            ]
            assert messages[: len(messages) - split.back] == known
        told[number] = history
        splitter.remember(split, number, [len(MESSAGES.decode(item)) for item in split.items])


@settings(max_examples=60, deadline=None)
@given(st.lists(steps, min_size=2, max_size=12))
def test_the_graph_is_that_of_a_reader_without_memory(changes: list[tuple[str, int, int]]) -> None:
    traces = Trace(), Trace()
    reader = TurnReader(traces[0].dag)
    history: list[Any] = [entry("first")]
    for number, step in enumerate(changes):
        history = changed(history, step, number) or [entry("first")]
        raw = body(history)
        for trace in traces:
            read = reader if trace is traces[0] else TurnReader(trace.dag)
            turn = read.read(MESSAGES, raw)
            call = ModelCall(dialect="messages", model="m")
            trace.dag.commit(call, parent=turn.parent, new=turn.new, reply=None)
            turn.splitter.remember(turn.split, call.prompt_node, turn.sizes)
    shapes = [[(node.parent, node.identity) for node in trace.dag.nodes] for trace in traces]
    assert shapes[0] == shapes[1]
    assert [call.prompt_node for call in traces[0].dag.calls] == [
        call.prompt_node for call in traces[1].dag.calls
    ]


def test_a_marker_that_moves_leaves_a_tail_of_a_few_items() -> None:
    splitter = Splitter(MESSAGES)
    history: list[Any] = []
    for number in range(60):
        history = [*history, entry(f"a{number}"), entry(f"b{number}")]
        marked = json.loads(json.dumps(history))
        for item in (marked[0], marked[-3] if number else marked[-1], marked[-1]):
            item["content"][-1]["cache_control"] = MARK
        split = splitter.split(body(marked))
        assert len(split.items) <= 5 or number < 2
        splitter.remember(split, number, [1] * len(split.items))
    assert len({id(tip.body) for tip in splitter._tips}) <= 2


def test_a_body_that_ends_inside_a_known_history_is_known() -> None:
    splitter = Splitter(MESSAGES)
    history = [entry(str(number), 1) for number in range(6)]
    splitter.remember(splitter.split(body(history)), "mark", [2] * 6)
    split = splitter.split(body(history[:4]))
    assert (split.known, split.n_known, split.back, split.items) == ("mark", 4, 4, [])
    assert splitter.digest(split) == Splitter(MESSAGES).digest(Splitter(MESSAGES).split(body(history[:4])))


def test_no_part_ends_where_a_later_item_may_be_joined() -> None:
    splitter = Splitter(MESSAGES)
    history = [entry(str(number)) for number in range(4)]
    splitter.remember(splitter.split(body(history)), "mark", [1, -1, 1, 1])
    split = splitter.split(body([*history[:2], entry("other")]))
    assert (split.n_known, split.back) == (1, 2)
