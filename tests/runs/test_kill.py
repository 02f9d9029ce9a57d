"""kill -9 at random moments: what a harness got is in the store, once; a new start ends with each unit once."""

from __future__ import annotations

import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest
from support.paths import ROOT

import vfnb as vf

CHILD = """
import sys, pathlib
sys.path.insert(0, {tests!r})
import vfnb as vf
from support.addition import add, taskset

acknowledged = open(pathlib.Path({folder!r}) / "acknowledged", "a", buffering=1)

@vf.harness
async def three_turns(session, task):
    messages = [vf.UserMessage(content=task.data.prompt)]
    for turn in range(3):
        answer = await session.complete(messages)
        acknowledged.write(f"{{session.trace.id}} {{turn}}\\n")
        messages = answer.messages + [vf.UserMessage(content=f"And 1 + {{turn}}?")]
    return "done"

model = vf.Scripted(add, latency=0.002)
folder = pathlib.Path({folder!r}) / "run"
run = vf.evaluate(taskset({n}), model=model, harness=three_turns, concurrency=16, dir=folder)
print("started", flush=True)
run.wait(quiet=True)
print("finished", flush=True)
"""


def start(folder: Path, n: int) -> subprocess.Popen[str]:
    code = CHILD.format(tests=str(ROOT / "tests"), folder=str(folder), n=n)
    return subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    )


def kill_and_resume(folder: Path, times: int, n: int, seed: int) -> None:
    moments = random.Random(seed)
    for _ in range(times):
        child = start(folder, n)
        assert child.stdout is not None
        assert child.stdout.readline().strip() == "started", child.communicate()[0]
        time.sleep(moments.uniform(0.0, 1.0))
        child.send_signal(signal.SIGKILL)
        child.wait()
        child.stdout.close()
        check_acknowledged(folder)
    child = start(folder, n)
    output, _ = child.communicate(timeout=120)
    assert "finished" in output, output
    check_acknowledged(folder)
    check_complete(folder, n)


def check_acknowledged(folder: Path) -> None:
    """Every reply whose end the harness got is there, none twice."""
    seen: dict[str, int] = {}
    for line in (folder / "acknowledged").read_text().splitlines():
        trace, turn = line.split()
        seen[trace] = max(seen.get(trace, 0), int(turn) + 1)
    run = vf.load(folder / "run")
    for trace_id, turns in seen.items():
        trace = run._reader.load_trace(trace_id)
        assert trace.num_turns in (turns, turns + 1), trace_id
        sampled = [node for node in trace.nodes if node.sampled]
        assert len(sampled) == trace.num_turns
    run.close()


def check_complete(folder: Path, n: int) -> None:
    run = vf.load(folder / "run")
    assert run.complete
    assert len(run.traces) == n
    traces = run.frame("traces", where="NOT superseded")
    units = traces[["task", "rollout"]]
    assert len(units.drop_duplicates()) == n
    assert set(traces["state"]) == {"completed"}
    database = sqlite3.connect(folder / "run" / "run.sqlite")
    assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
    assert database.execute("SELECT count(*) FROM traces WHERE state = 'running'").fetchone() == (0,)
    database.close()


@pytest.mark.timeout(180)
def test_killed_runs_lose_nothing_and_resume(tmp_path: Path) -> None:
    kill_and_resume(tmp_path, times=2, n=200, seed=1)


@pytest.mark.soak
@pytest.mark.timeout(1800)
def test_killed_twenty_times(tmp_path: Path) -> None:
    kill_and_resume(tmp_path, times=20, n=200, seed=2)
