"""User code that takes its time delays nobody else's model calls, and an interrupt ends a run quickly."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from support.addition import AdditionTask, AdditionTaskset, add, taskset
from support.paths import ROOT

import vfnb as vf


class SleepsSync(AdditionTask):
    @vf.reward
    def slow(self, trace: vf.Trace) -> float:
        time.sleep(5)
        return 1.0


class SleepsInAsync(AdditionTask):
    @vf.reward
    async def slow(self, trace: vf.Trace) -> float:
        await asyncio.sleep(0)
        time.sleep(5)  # noqa: ASYNC251 (the mistake under test)
        return 1.0


LATENCY = 0.02
delays: list[float] = []


def outside(session: vf.HarnessSession, task: vf.Task) -> None:
    """A sync harness in a thread of its own, over HTTP, as an outside program would be."""
    with httpx.Client(timeout=30) as client:
        for _ in range(1 if task.data.idx == 0 else 30):
            start = time.perf_counter()
            client.post(
                f"{session.base_url}/chat/completions",
                json={"messages": [{"role": "user", "content": task.data.prompt}]},
                headers={"Authorization": f"Bearer {session.api_key}"},
            ).raise_for_status()
            delays.append(time.perf_counter() - start - LATENCY)
            time.sleep(0.05)


async def inside(session: vf.HarnessSession, task: vf.Task) -> None:
    """An async harness function, in process."""
    for _ in range(1 if task.data.idx == 0 else 30):
        start = time.perf_counter()
        await session.complete(task.data.prompt)
        delays.append(time.perf_counter() - start - LATENCY)
        await asyncio.sleep(0.05)


@pytest.mark.parametrize("harness", [outside, inside])
@pytest.mark.parametrize("kind", [SleepsSync, SleepsInAsync])
def test_a_sleeping_reward_delays_no_model_call(
    tmp_path: Path, kind: type[AdditionTask], harness: object
) -> None:
    """One rollout is in its reward for 5 s while others go on."""

    class Mixed(AdditionTaskset):
        def load(self) -> list[Any]:
            tasks: list[Any] = super().load()
            return [kind(tasks[0].data, tasks[0].config), *tasks[1:]]

    delays.clear()
    start = time.monotonic()
    run = vf.evaluate(
        Mixed(taskset(4).config), model=Echo(LATENCY), harness=harness, dir=tmp_path / "run"
    ).wait(quiet=True)
    assert time.monotonic() - start >= 5
    assert run.summary.failed == 0
    assert len(delays) == 91
    delays.sort()
    assert delays[80] < 0.3  # a busy machine is given much; a blocked loop would delay dozens by seconds
    assert delays[-1] < 3


class Echo(vf.ModelClient):
    """A model on the engine loop itself, so that only our own delays are seen."""

    name = "echo"

    def __init__(self, latency: float) -> None:
        self.latency = latency

    def identity(self) -> dict[str, Any]:
        return {"kind": "echo"}

    async def call(self, request: Any) -> Any:
        from vfnb.clients import Reply
        from vfnb.types import AssistantMessage, Response

        await asyncio.sleep(self.latency)
        response = Response(message=AssistantMessage(content="2"))
        return Reply(response=response, body=request.dialect.frame(response, "echo", 0))


def test_a_cancelled_run_keeps_what_was_finished(tmp_path: Path) -> None:
    run = vf.evaluate(taskset(50), model=vf.Scripted(add, latency=0.1), concurrency=5, dir=tmp_path / "run")
    while run.summary.finished < 5:
        time.sleep(0.02)
    start = time.monotonic()
    run.cancel()
    assert time.monotonic() - start < 10
    states = set(run.frame("traces")["state"])
    assert states == {"completed", "cancelled"}
    assert run.summary.cancelled <= 5
    assert not run.complete
    again = vf.evaluate(taskset(50), model=vf.Scripted(add, latency=0.1), dir=tmp_path / "run").wait(
        quiet=True
    )
    assert again.summary.scored == 50
    assert again.summary.reused >= 5


INTERRUPTED = textwrap.dedent(
    """
    import sys, pathlib, time
    sys.path.insert(0, {tests!r})
    import vfnb as vf
    from support.addition import add, taskset

    program = vf.Program(["python3", "-c", "import time; time.sleep(60)"])
    run = vf.evaluate(taskset(4), model=vf.Scripted(add), harness=program, dir={folder!r})
    while len(run.frame("traces")) < 4:
        time.sleep(0.05)
    time.sleep(0.5)
    try:
        print("waiting", flush=True)
        run.wait(quiet=True)
    except KeyboardInterrupt:
        print("interrupted", flush=True)
    run.cancel()
    print(sorted(set(run.frame("traces")["state"])), flush=True)
    """
)


def test_an_interrupt_returns_at_once_and_leaves_no_process(tmp_path: Path) -> None:
    code = INTERRUPTED.format(tests=str(ROOT / "tests"), folder=str(tmp_path / "run"))
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline().strip() == "waiting"
    os.kill(child.pid, signal.SIGINT)
    start = time.monotonic()
    assert child.stdout.readline().strip() == "interrupted"
    assert time.monotonic() - start < 2
    assert child.stdout.readline().strip() == "['cancelled']"
    child.stdout.close()
    # CPython remembers an interrupt inside `exec` (a dataclass being made), though it was caught, and ends by it.
    assert child.wait(timeout=15) in (0, -signal.SIGINT)
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert "import time; time.sleep(60)" not in listing


def test_leaving_the_interpreter_stores_what_ran(tmp_path: Path) -> None:
    code = textwrap.dedent(
        """
        import sys
        sys.path.insert(0, {tests!r})
        import vfnb as vf
        from support.addition import add, taskset
        run = vf.evaluate(taskset(4), model=vf.Scripted(add, latency=60), dir={folder!r})
        while len(run.frame("traces")) < 4:
            pass
        """
    ).format(tests=str(ROOT / "tests"), folder=str(tmp_path / "run"))
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, timeout=50, check=False
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert set(vf.load(tmp_path / "run").frame("traces")["state"]) == {"cancelled"}
