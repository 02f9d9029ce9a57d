"""The tools of a task through both loops: direct in process, over MCP from a program."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from support.scripts import asks, call, results, turns
from support.toolbox import desk
from vfnb_harnesses.bash import BashConfig, BashHarness
from vfnb_harnesses.null import NullConfig, NullHarness

import vfnb as vf

KINDS = ["null inprocess", "null program", "bash inprocess", "bash program"]
ALL = pytest.mark.parametrize("kind", KINDS)


def solve(kind: str, model: vf.Scripted, **settings: Any) -> vf.Trace:
    name, where = kind.split()
    harness: Any
    if name == "null":
        harness, runtime = NullHarness(NullConfig(**settings)), "inprocess"
        runtime = "inprocess" if where == "inprocess" else "subprocess"
    else:
        harness = BashHarness(BashConfig(as_program=where == "program", **settings))
        runtime = "subprocess"
    trace = asyncio.run(vf.make_agent(harness, model=model, runtime=runtime).run(desk()))
    assert not trace.errors, trace.errors
    return trace


@ALL
def test_tools_of_the_task_are_offered_and_called(kind: str) -> None:
    model, asked = turns(
        asks(
            call("desk_add", a=1, b=2), call("meet", name="a", other="b"), call("meet", name="b", other="a")
        ),
        asks(call("desk_add", a=3, b=4)),
        "7",
    )
    trace = solve(kind, model)
    assert results(asked[1]) == ["3", "a", "b"]
    assert results(asked[2]) == ["7"]
    assert trace.reward == 2.0
    assert len(trace.branches) == 1
    (offered,) = {made.tools for made in trace.calls}
    assert offered is not None
    names = [tool["name"] for tool in json.loads(trace.dag.tools[offered])]
    own = ["bash", "read", "write", "edit"] if kind.startswith("bash") else []
    assert names == [*own, "desk_add", "desk_fail", "desk_recite", "desk_draw", "wait", "meet"]


def test_the_offer_is_the_same_in_process_and_as_a_program() -> None:
    for name in ("null", "bash"):
        traces = [solve(f"{name} {where}", vf.Scripted(["x"])) for where in ("inprocess", "program")]
        assert traces[0].calls[0].tools == traces[1].calls[0].tools
        assert traces[0].messages == traces[1].messages


@ALL
def test_tools_that_fail_are_told_and_the_loop_goes_on(kind: str) -> None:
    model, asked = turns(
        asks(
            call("desk_fail"),
            call("desk_add", '{"a": 1'),
            call("desk_add", a="x", b=[]),
            call("desk_sub", a=1),
            call("wait"),
            call("desk_recite", length=20_000),
        ),
        "I give up.",
    )
    trace = solve(kind, model, max_output=1000)
    fire, broken, typed, unknown, late, long = results(asked[1])
    assert "the desk is on fire" in fire
    assert "not valid JSON" in broken
    assert "a" in typed
    assert "no tool 'desk_sub'" in unknown
    for text in (fire, broken, typed, unknown, late):
        assert text.startswith("Error")
    assert "19000 of 20000 characters left out" in long
    assert trace.reward == 0.0
    assert trace.last_reply == "I give up."


@ALL
def test_a_picture_reaches_the_model(kind: str) -> None:
    model, asked = turns(asks(call("desk_draw")), "A dot.")
    solve(kind, model)
    (part,) = asked[1][-1].content or [None]
    assert isinstance(part, vf.ImageUrlContentPart)
    assert part.image_url.url.startswith("data:image/png;base64,iVBOR")


@pytest.mark.parametrize("kind", ["null inprocess", "null program"])
def test_turns_are_limited(kind: str) -> None:
    trace = solve(kind, vf.Scripted(lambda messages: asks(call("desk_add", a=1, b=1))), max_turns=3)
    assert trace.stop_condition == "max_turns"
    assert len(trace.calls) == 3


@pytest.mark.parametrize("kind", ["null inprocess", "bash inprocess"])
def test_a_tool_that_takes_too_long_for_the_harness(kind: str) -> None:
    model, asked = turns(asks(call("meet", name="a", other="nobody")), "x")
    solve(kind, model, tool_timeout=0.2)
    assert results(asked[1]) == ["Error: meet gave no result within 0.2 s"]


@ALL
def test_segments_go_on_with_tools(kind: str) -> None:
    model, asked = turns(asks(call("desk_add", a=1, b=2)), "3", asks(call("desk_add", a=3, b=3)), "6")
    name, where = kind.split()
    harness: Any = NullHarness() if name == "null" else BashHarness(BashConfig(as_program=where == "program"))

    @vf.harness
    async def talk(session: vf.HarnessSession, task: Any) -> None:
        await harness.run(session, task)
        await harness.resume(session, task, [vf.UserMessage(content="And 3 + 3?")])

    runtime = "inprocess" if kind == "null inprocess" else "subprocess"
    trace = asyncio.run(vf.make_agent(talk, model=model, runtime=runtime).run(desk()))
    assert not trace.errors, trace.errors
    assert len(trace.branches) == 1
    assert results(asked[3]) == ["6"]
    assert trace.reward == 2.0
