"""The pydantic face of a trace: scores, ends, dumps, schema."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import msgspec
import pytest
from pydantic import BaseModel, TypeAdapter, ValidationError
from support.graphs import Recorder, assistant, system, tool, user
from support.renderer import turn

from vfnb.errors import ScoringError
from vfnb.trace import (
    ErrorInfo,
    ModelCall,
    Reward,
    Span,
    TaskInfo,
    Trace,
    decode_call,
    encode_call,
    error_info,
)
from vfnb.types import Usage

S, U = system(), user("do it")
A = assistant("on it", ("c1", "bash", '{"cmd":  "ls"}'), reasoning="hm ")


def full() -> Recorder:
    """A trace with something in every field."""
    recorder = Recorder()
    recorder.trace.task = TaskInfo(idx=3, name="sum", key="k", data={"a": [1, None, "x"]})
    recorder.call(
        [S, U],
        A,
        tokens=turn([S, U], "on it", experts=True),
        tools=[{"name": "bash", "parameters": {"type": "object"}}],
        sampling_sent={"temperature": 0.5, "stop": ["x"]},
        sampling_asked={"max_tokens": 3},
        first_token=1000.5,
        finish_reason="tool_calls",
        markers={"agent": "main"},
    )
    history = [S, U, A, tool("c1", "é漢")]
    recorder.call(history, None, status=500, error=ErrorInfo(type="UpstreamServerError", status=500, at=1.5))
    recorder.call(history, assistant("done"), retry_of=1)
    trace = recorder.trace
    trace.episode_id, trace.group_id, trace.agent, trace.rollout = "e", "g", "solver", 2
    trace.rewards = {"right": Reward(value=1.0), "short": Reward(value=0.25, weight=2.0)}
    trace.metrics = {"length": 4.0, "unknown": None}
    trace.info = {"answer": "42", "nested": {"list": [1.5, True]}}
    trace.errors = [ErrorInfo(type="X", boundary="model", message="m", traceback="t", stage="agent")]
    trace.ok, trace.end_state, trace.stop_condition = True, "stopped", "max_turns"
    trace.timing = {"agent": Span(start=1.0, end=2.5)}
    trace.attempts = [{"id": "old", "errors": ["x"]}]
    trace.tag("good")
    trace.tag("good")
    trace.note("look at turn 2")
    return recorder


def test_dumps_are_exact() -> None:
    recorder = full()
    trace = recorder.trace
    dump = trace.model_dump()
    assert json.loads(trace.model_dump_json()) == trace.model_dump(mode="json") == dump
    for copy in (
        Trace.model_validate(dump),
        Trace.model_validate_json(trace.model_dump_json()),
        TypeAdapter(list[Trace]).validate_python([dump])[0],
        recorder.reload(),
        trace.model_copy(deep=True),
    ):
        assert copy.model_dump() == dump
        assert copy.model_dump_json() == trace.model_dump_json()
        assert copy.reward == 1.5
        assert copy.calls[1].error == ErrorInfo(type="UpstreamServerError", status=500, at=1.5)
        assert copy.calls == trace.calls


def test_a_dump_has_the_graph_once_and_selects_fields() -> None:
    dump = full().trace.model_dump()
    assert [node["parent"] for node in dump["nodes"]] == [-1, 0, 1, 2, 3]
    assert dump["nodes"][2]["message"]["tool_calls"][0]["arguments"] == '{"cmd":  "ls"}'
    assert set(full().trace.model_dump(include={"id", "nodes"})) == {"id", "nodes"}
    assert "tokens" not in full().trace.model_dump(exclude={"tokens"})
    assert "nodes" not in full().trace.header()


def test_traces_nest_in_other_models() -> None:
    class Episode(BaseModel):
        traces: list[Trace]

    episode = Episode(traces=[full().trace])
    assert Episode.model_validate_json(episode.model_dump_json()).model_dump() == episode.model_dump()
    assert "Trace" in json.dumps(Episode.model_json_schema())


@pytest.mark.parametrize("mode", ["validation", "serialization"])
def test_the_schema_names_every_key_of_a_dump(mode: Any) -> None:
    schema = Trace.model_json_schema(mode=mode)
    dump = full().trace.model_dump()
    assert set(schema["properties"]) == set(dump)
    call = schema["properties"]["calls"]["items"]["properties"]
    assert set(dump["calls"][0]) <= set(call)
    references = {part.split('"')[0] for part in json.dumps(schema).split('"$ref": "#/$defs/')[1:]}
    assert references <= set(schema["$defs"])


def test_unknown_keys_and_values_of_a_newer_writer_are_read() -> None:
    recorder = full()
    dump = recorder.trace.model_dump()
    dump["from_the_future"] = 1
    dump["end_state"] = "paused"
    dump["nodes"][0]["colour"] = "red"
    dump["calls"][0]["flavour"] = "sweet"
    dump["calls"][0]["finish_reason"] = "boredom"
    trace = Trace.model_validate(dump)
    assert trace.end_state == "paused"
    assert trace.calls[0].finish_reason == "boredom"
    header = recorder.trace.header() | {"from_the_future": 1}
    assert Trace.from_header(header, recorder.graph).model_dump() == recorder.trace.model_dump()
    call = decode_call(b'{"index": 3, "flavour": "sweet", "usage": {"prompt_tokens": 2}}')
    assert call == ModelCall(index=3, usage=Usage(prompt_tokens=2))


def test_values_of_the_wrong_type_are_refused() -> None:
    dump = full().trace.model_dump()
    with pytest.raises(ValidationError, match="calls or tokens cannot be read"):
        Trace.model_validate(dump | {"calls": [{"index": "x"}]})
    with pytest.raises(ValidationError, match="node 0 of the trace"):
        Trace.model_validate(dump | {"nodes": [{"message": {"role": "user", "content": "x"}}]})
    with pytest.raises(ValidationError):
        Trace.model_validate(dump | {"rollout": "many"})
    with pytest.raises(ValidationError, match="out of order"):
        Trace.model_validate(dump | {"nodes": [dump["nodes"][1]], "calls": [], "tokens": None})
    with pytest.raises(msgspec.ValidationError):
        decode_call(b'{"index": "x"}')


def test_calls_are_records() -> None:
    for call in full().trace.calls:
        assert decode_call(encode_call(call)) == call
    first, second, third = full().trace.calls
    assert (first.ok, second.ok, third.ok) == (True, False, True)
    assert first.seconds == 1.0


@pytest.mark.parametrize(
    ("fields", "reward"),
    [
        ({"end_state": "completed"}, None),
        ({"end_state": "completed", "rewards": {"a": {"value": 0.0}}}, 0.0),
        (
            {
                "end_state": "stopped",
                "rewards": {"a": {"value": 2.0, "weight": 0.5}, "b": {"value": 3, "weight": 0}},
            },
            1.0,
        ),
        ({"end_state": "error", "rewards": {"a": {"value": 1.0}}}, None),
        ({"end_state": "cancelled"}, None),
        ({"end_state": "completed", "dropped": "duplicate", "rewards": {"a": {"value": 1.0}}}, None),
        ({"end_state": "stopped", "info": {"scoring_skipped": True}}, 0.0),
        ({"end_state": "error", "info": {"scoring_skipped": True}}, None),
    ],
)
def test_reward(fields: dict[str, Any], reward: float | None) -> None:
    assert Trace.model_validate(fields).reward == reward


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_reward_is_a_finite_number(value: float) -> None:
    with pytest.raises(ValidationError, match="finite number"):
        Reward(value=value)


def test_ends() -> None:
    assert Trace(end_state="completed").is_completed
    assert Trace(end_state="stopped", stop_condition="done").is_completed
    assert not Trace().is_completed
    assert Trace(end_state="error").has_error
    assert not Trace(errors=[ErrorInfo(type="X")], end_state="completed").has_error
    assert Trace(end_state="stopped", stop_condition="max_turns").is_truncated
    recorder = Recorder()
    recorder.call([S, U], assistant("half of"), finish_reason="length")
    assert recorder.trace.is_truncated


def test_an_empty_trace_answers_everything() -> None:
    trace = Trace()
    assert (trace.last_reply, trace.messages, trace.branches, trace.calls) == ("", [], [], [])
    assert (trace.reward, trace.num_turns, trace.samples(), len(trace.nodes)) == (None, 0, [], 0)
    assert trace.usage == Usage()
    assert Trace.model_validate(trace.model_dump()).id == trace.id


def test_last_reply_is_the_last_that_was_delivered() -> None:
    recorder = Recorder()
    recorder.call([S, U], assistant("one"))
    recorder.call([S, U], assistant("two"))
    recorder.call([S, user("title")], assistant("a title"), markers={"kind": "side_call"})
    assert recorder.trace.last_reply == "two"
    recorder.graph.update_call(1, delivered=False)
    assert recorder.trace.last_reply == "one"
    assert recorder.trace.messages[-1].text == "one"


def test_only_side_calls_still_give_a_reply() -> None:
    recorder = Recorder()
    recorder.call([S, U], None, status=500)
    recorder.call([S, user("title")], assistant("a title"), markers={"kind": "side_call"})
    assert recorder.trace.last_reply == "a title"


def test_messages_without_a_reply_are_the_prompt() -> None:
    recorder = Recorder()
    recorder.call([S, U], None, status=500)
    assert recorder.trace.messages == [S, U]


def test_state_is_held_and_not_dumped() -> None:
    class State(BaseModel):
        calls: int = 0

    trace = Trace()
    trace.state = State()
    trace.state.calls += 1
    assert trace.state.calls == 1
    assert "state" not in trace.model_dump()


def test_texts_are_one_short_line() -> None:
    trace = full().trace
    assert (
        repr(trace) == f"Trace({trace.id[:8]}, task sum: 5 messages, 2 turns, reward 1.5, stopped(max_turns))"
    )
    for shown in (repr(trace), repr(trace.nodes), *map(repr, trace.nodes), *map(repr, trace.branches)):
        assert "\n" not in shown
        assert len(shown) < 160


def test_nodes_are_a_sequence() -> None:
    nodes = full().trace.nodes
    assert [node.index for node in nodes] == [0, 1, 2, 3, 4]
    assert nodes[-1].text == "done"
    assert nodes[1:3][0].role == "user"
    assert nodes[2].sampled
    with pytest.raises(IndexError):
        nodes[9]


def test_errors_become_records() -> None:
    try:
        raise ScoringError("the reward returned nan; return a number")
    except ScoringError as error:
        info = error_info(error, stage="scoring")
    assert (info.type, info.boundary, info.stage) == ("ScoringError", "scoring", "scoring")
    assert "ScoringError" in (info.traceback or "")
    assert info.at > 1e9

    def deep(n: int) -> None:
        if n:
            deep(n - 1)
        raise ValueError("x" * 9000)

    with pytest.raises(ValueError, match="xxx") as caught:
        deep(50)
    assert len(error_info(caught.value).traceback or "") <= 4096


def test_importing_the_room_loads_no_array_library() -> None:
    code = (
        "import sys, vfnb.trace; from vfnb.trace import *; t = Trace(); t.samples(); "
        "heavy = {'pandas', 'networkx', 'plotly', 'aiohttp', 'zstandard', 'sqlite3'}; "
        "print(sorted(heavy & set(sys.modules)))"
    )
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "[]"
    code = "import sys, vfnb.trace.trace, vfnb.trace.pack; print('numpy' in sys.modules)"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert out.stdout.strip() == "False"
