"""The null harness without tools: one call, several segments, stops; in process and as a program."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from support.scripts import asks, call, turns
from vfnb_harnesses.null import NullConfig, NullHarness

import vfnb as vf
from vfnb.errors import ContextLengthError

BOTH = pytest.mark.parametrize("runtime", ["inprocess", "subprocess"])


def solve(harness: Any, model: vf.Scripted, runtime: str, **agent: Any) -> vf.Trace:
    task: vf.Task[Any, Any, Any] = vf.Task(vf.TaskData(idx=0, prompt="2 + 2?", system_prompt="Add."))
    return asyncio.run(vf.make_agent(harness, model=model, runtime=runtime, **agent).run(task))


@BOTH
def test_one_call_with_the_system_prompts(runtime: str) -> None:
    model, asked = turns("4")
    trace = solve(NullHarness(NullConfig(system_prompt="Be short.")), model, runtime)
    assert not trace.errors, trace.errors
    assert trace.last_reply == "4"
    assert [(m.role, m.text) for m in asked[0]] == [("system", "Be short.\n\nAdd."), ("user", "2 + 2?")]
    assert len(trace.calls) == 1
    assert trace.calls[0].tools is None


@BOTH
def test_a_tool_call_that_nobody_offered_ends_it(runtime: str) -> None:
    model, _ = turns(asks(call("calc_add", a=1, b=2), text="Let me see"))
    trace = solve("null", model, runtime)
    assert trace.end_state == "completed"
    assert len(trace.calls) == 1


@BOTH
def test_two_segments_make_one_branch(runtime: str) -> None:
    model, asked = turns("4", "5", "6")
    null = NullHarness()

    @vf.harness
    async def talk(session: vf.HarnessSession, task: Any) -> None:
        await null.run(session, task)
        for number in (3, 4):
            said = vf.UserMessage(content=f"And 2 + {number}?")
            await null.resume(session, task, [said])

    trace = solve(talk, model, runtime)
    assert not trace.errors, trace.errors
    assert len(trace.branches) == 1
    assert [m.text for m in trace.messages] == ["Add.", "2 + 2?", "4", "And 2 + 3?", "5", "And 2 + 4?", "6"]
    assert asked[2] == trace.messages[:-1]
    assert trace.last_reply == "6"


@BOTH
def test_a_limit_in_the_middle_of_a_talk_is_a_stop(runtime: str) -> None:
    model, _ = turns("4", "5")
    null = NullHarness()

    @vf.harness
    async def talk(session: vf.HarnessSession, task: Any) -> None:
        await null.run(session, task)
        await null.resume(session, task, [vf.UserMessage(content="Again.")])

    trace = solve(talk, model, runtime, limits={"max_turns": 1})
    assert trace.end_state == "stopped"
    assert trace.stop_condition == "max_turns"
    assert not trace.errors


@BOTH
def test_an_exceeded_context_is_a_stop(runtime: str) -> None:
    model, _ = turns(ContextLengthError("maximum context length", status=400))
    trace = solve("null", model, runtime)
    assert trace.stop_condition == "context_length"
    assert not trace.errors


def test_a_harness_that_cannot_go_on_says_so() -> None:
    @vf.harness
    async def plain(session: vf.HarnessSession, task: Any) -> str:
        return "x"

    @vf.harness
    async def talk(session: vf.HarnessSession, task: Any) -> None:
        await plain.resume(session, task, [vf.UserMessage(content="Again.")])

    assert not plain.SUPPORTS_RESUME
    trace = solve(talk, vf.Scripted(["x"]), "inprocess")
    assert "harness 'plain' cannot go on with a conversation" in trace.errors[0].message


def test_a_run_with_a_log_notes_compactions(tmp_path: Path) -> None:
    from vfnb_harnesses.bash import BashConfig, BashHarness

    model, _ = turns(asks(call("bash", command="true"), prompt_tokens=99), "All is well so far.", "done")
    run = vf.evaluate(
        [vf.Task(vf.TaskData(prompt="go"))],
        model=model,
        harness=BashHarness(BashConfig(compact_at=50)),
        dir=tmp_path / "run",
    )
    run.wait()
    (log,) = (tmp_path / "run" / "logs").glob("*.log")
    assert "compaction after 2 calls: a summary of 19 characters" in log.read_text()
