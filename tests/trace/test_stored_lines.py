"""A stored trace without branches: its messages come at once, its graph when somebody looks into it."""

from __future__ import annotations

import copy
import pickle

import pytest

from vfnb.errors import ScoringError
from vfnb.trace import ModelCall, Reward, Trace, identity, pack, unpack
from vfnb.trace.mending import held
from vfnb.trace.stored import stored_trace
from vfnb.types import AssistantMessage, Message, ToolCall, ToolMessage, Usage, UserMessage


def talk(extra: str = "") -> Trace:
    trace = Trace(
        rewards={"exact": Reward(value=1.0)}, metrics={"length": 3.0}, end_state="completed", ok=True
    )
    parent = -1
    for turn in range(3):
        asked: list[Message] = [UserMessage(content=f"question {turn}{extra}")]
        if turn:
            asked.insert(0, ToolMessage(tool_call_id="c", content="same"))
        call = ModelCall(model="mock", usage=Usage(prompt_tokens=turn), end=1.0, tools=None)
        reply = AssistantMessage(content="so" if turn else None, tool_calls=[ToolCall(id="c", name="look")])
        trace.dag.commit(call, parent=parent, new=[(one, identity(one)) for one in asked], reply=reply)
        parent = len(trace.dag.nodes) - 1
    return trace


def test_messages_come_without_a_graph_and_are_those_of_its_nodes() -> None:
    trace = talk()
    back = stored_trace(trace.header(), unpack(pack(trace.dag)))
    assert back.dag.folded
    assert back.messages == trace.messages
    assert back.dag.folded
    assert back.messages[0] is back.dag.nodes[0].message
    assert not back.dag.folded
    assert back.model_dump() == trace.model_dump()
    assert back.dag.recount() == trace.dag.counters
    assert [vars_of(node) for node in back.dag.nodes] == [vars_of(node) for node in trace.dag.nodes]


def vars_of(node: object) -> dict[str, object]:
    return {
        name: getattr(node, name)
        for name in type(node).__slots__  # type: ignore[attr-defined]
        if not name.startswith("_")
    }


def test_it_can_be_copied_grow_and_get_a_tokenizer() -> None:
    packed = pack(talk().dag)
    for twin in (copy.deepcopy(unpack(packed)), pickle.loads(pickle.dumps(unpack(packed)))):
        assert len(twin) == 8
    graph = unpack(packed)
    graph.tokenizer = lambda: "known"
    asked = UserMessage(content="and now?")
    graph.commit(ModelCall(), parent=7, new=[(asked, identity(asked))], reply=AssistantMessage(content="yes"))
    assert graph.tokenizer is not None and graph.tokenizer() == "known"
    assert [message.text for message in graph.line() or ()][-2:] == ["and now?", "yes"]
    graph.commit(ModelCall(), parent=0, new=[], reply=AssistantMessage(content="another"))
    assert graph.line() is None
    assert not hasattr(graph, "nothing")


def test_what_user_code_does_to_its_lists_is_undone() -> None:
    trace = talk()
    back = stored_trace(trace.header(), unpack(pack(trace.dag)))
    with pytest.raises(ScoringError, match=r"dag\.nodes"), held(back, "reward bad", ScoringError):
        back.dag.nodes.pop(0)
    assert len(back.nodes) == 8
    back = stored_trace(trace.header(), unpack(pack(trace.dag)))
    with held(back, "reward bad", ScoringError):  # a folded graph is made over it
        back.dag.calls = []
    assert len(back.calls) == 3


def test_headers_of_others_are_checked() -> None:
    graph = unpack(pack(talk().dag))
    odd = talk().header() | {"timing": {"agent": {"start": "1", "end": None, "new": 1}}}
    assert stored_trace(odd, graph).timing["agent"].start == 1.0
    assert stored_trace({"id": "only"}, graph).id == "only"
