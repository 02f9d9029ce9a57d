"""User code that raises what is no `Exception`: one rollout fails, the run and its threads go on."""

from __future__ import annotations

import asyncio
import concurrent.futures
import logging
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import vfnb as vf
from vfnb import loops

SAID = {
    "exit": SystemExit(3),
    "interrupt": KeyboardInterrupt("x"),
    "base": BaseException("b"),
    "cancel": asyncio.CancelledError("c"),
    "close": GeneratorExit(),
    "stop": StopIteration(1),
}
kinds = pytest.mark.parametrize("kind", SAID)


def good(idx: int) -> vf.Task:
    return vf.Task(vf.TaskData(idx=idx, prompt="p"))


def ends(tmp_path: Path, tasks: list[Any], **options: Any) -> list[vf.Trace]:
    options.setdefault("model", vf.Scripted(lambda messages: "a"))
    run = vf.evaluate(tasks, dir=tmp_path / "run", **options).wait(30, quiet=True)
    assert run.complete
    return list(run.traces)


class Sync(vf.Task[vf.TaskData]):
    @vf.reward
    def hostile(self, trace: vf.Trace) -> float:
        raise SAID[self.data.name or ""]


class Plain(vf.Task[vf.TaskData]):
    @vf.reward
    async def hostile(self, trace: vf.Trace) -> float:
        raise SAID[self.data.name or ""]


class Awaits(vf.Task[vf.TaskData]):
    @vf.reward
    async def hostile(self, trace: vf.Trace) -> float:
        await asyncio.sleep(0)
        raise SAID[self.data.name or ""]


@kinds
def test_a_reward(tmp_path: Path, kind: str) -> None:
    data = [vf.TaskData(idx=idx, prompt="p", name=kind) for idx in range(3)]
    tasks = [Sync(data[0]), Plain(data[1]), Awaits(data[2]), good(3)]
    *failed, fine = ends(tmp_path, tasks)
    assert fine.end_state == "completed"
    for trace in failed:
        assert trace.errors[-1].type == "ScoringError"
        assert type(SAID[kind]).__name__ in trace.errors[-1].message or kind == "stop"


class Lifecycle(vf.Task[vf.TaskData]):
    def setup(self, trace: vf.Trace) -> None:
        if self.data.idx == 0:
            raise SAID[self.data.name or ""]

    async def finalize(self, trace: vf.Trace) -> None:
        await asyncio.sleep(0)
        if self.data.idx == 1:
            raise SAID[self.data.name or ""]

    @vf.stop
    async def hostile(self, trace: vf.Trace) -> bool:
        if self.data.idx == 2:
            raise SAID[self.data.name or ""]
        return False


@kinds
def test_setup_finalize_and_a_stop(tmp_path: Path, kind: str) -> None:
    tasks = [Lifecycle(vf.TaskData(idx=idx, prompt="p", name=kind)) for idx in range(4)]
    traces = ends(tmp_path, tasks)
    assert [trace.end_state for trace in traces] == ["error", "error", "error", "completed"]
    assert [trace.errors[-1].stage for trace in traces[:2]] == ["setup", "finalize"]
    assert traces[2].errors[-1].type == "HookFailed"


@kinds
@pytest.mark.parametrize("way", ["sync", "async", "awaits"])
def test_a_harness(tmp_path: Path, kind: str, way: str) -> None:
    def sync(session: vf.HarnessSession, task: vf.Task) -> str:
        raise SAID[kind]

    async def awaits(session: vf.HarnessSession, task: vf.Task) -> str:
        await session.complete("q")
        raise SAID[kind]

    async def at_once(session: vf.HarnessSession, task: vf.Task) -> str:
        raise SAID[kind]

    function = {"sync": sync, "async": at_once, "awaits": awaits}[way]
    (trace,) = ends(tmp_path, [good(0)], harness=vf.harness(function))
    assert trace.end_state == "error"
    assert trace.errors[-1].type == "HarnessError"


@kinds
def test_a_scripted_model(tmp_path: Path, kind: str) -> None:
    def script(messages: vf.Messages) -> str:
        raise SAID[kind]

    (trace,) = ends(tmp_path, [good(0)], model=vf.Scripted(script))
    assert (trace.end_state, trace.errors[-1].type) == ("error", "UpstreamRejected")


def test_a_forgotten_task_that_exits_leaves_the_loop_alive(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    async def leave() -> None:
        sys.exit(3)

    @vf.harness
    async def starts(session: vf.HarnessSession, task: vf.Task) -> str:
        work = asyncio.ensure_future(leave())
        await asyncio.wait([work])
        assert isinstance(work.exception(), SystemExit)
        return "a"

    with caplog.at_level(logging.WARNING, "vfnb.loops"):
        traces = ends(tmp_path, [good(0), good(1)], harness=starts)
    assert [trace.answer for trace in traces] == ["a", "a"]
    assert "the loop goes on" in caplog.text


def test_a_blocking_wait_on_a_loop_of_ours_is_refused(tmp_path: Path) -> None:
    def inner() -> vf.Run:
        return vf.evaluate([good(0)], model=vf.Scripted(lambda messages: "a"), dir=tmp_path / "inner")

    @vf.harness
    async def blocks(session: vf.HarnessSession, task: vf.Task) -> str:
        run = inner()
        try:
            run.wait(quiet=True)
        finally:
            await run
        return "a"

    (trace,) = ends(tmp_path, [good(0)], harness=blocks)
    assert "await run" in trace.errors[-1].message
    assert vf.load(tmp_path / "inner").complete


def test_a_run_inside_a_harness_may_be_awaited(tmp_path: Path) -> None:
    @vf.harness
    async def nests(session: vf.HarnessSession, task: vf.Task) -> str:
        model = vf.Scripted(lambda messages: "a")
        run = await vf.evaluate([good(0), good(1)], model=model, dir=tmp_path / f"inner{task.data.idx}")
        run.cancel()
        return str(len(run.traces))

    assert [trace.answer for trace in ends(tmp_path, [good(0), good(1)], harness=nests)] == ["2", "2"]


def test_a_call_whose_caller_was_cancelled_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    begun, free = threading.Event(), threading.Event()

    async def late() -> None:
        begun.set()
        while not free.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                raise ValueError("too late") from None

    future = loops.engine().submit(late())
    assert begun.wait(5)
    future.cancel()
    with pytest.raises(concurrent.futures.CancelledError):
        future.result(5)
    loops.engine().run(asyncio.sleep(0.05))
    assert "never retrieved" not in caplog.text
    free.set()


def check(call: Callable[[], Any]) -> str:
    with pytest.raises(RuntimeError) as caught:
        loops.user().run(call())
    return str(caught.value)


def test_a_closed_coroutine_stays_closed() -> None:
    async def closes() -> None:
        raise GeneratorExit

    async def closed() -> bool:
        work = loops._contained(asyncio.sleep(60))
        work.send(None)
        work.close()
        return work.cr_frame is None

    assert "GeneratorExit" in check(closes)
    assert loops.engine().run(closed())
