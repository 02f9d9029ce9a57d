"""`vf.validate`: setup, gold check and the reward of an untouched task, without a model."""

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

import pytest
from support.addition import taskset
from support.containers import ToyContainer
from support.html_rules import check_bundle

import vfnb as vf
from vfnb.errors import ConfigError, EmptySelection
from vfnb.tasks import TaskTimeout

ROOT = Path(__file__).parents[2]


class Data(vf.TaskData):
    gold: bool | None = None
    start: float = 0.0
    fails: str = ""


class Checked(vf.Task[Data]):
    async def setup(self, runtime: vf.Runtime, trace: vf.Trace) -> None:
        if self.data.fails == "setup":
            raise RuntimeError("no disk")
        await runtime.write("answer.txt", str(self.data.start).encode())
        trace.info["ready"] = True

    async def validate(self, runtime: vf.Runtime, trace: vf.Trace) -> bool | None:
        assert trace.info["ready"]
        if self.data.fails == "gold":
            raise RuntimeError("no solution")
        await runtime.write("answer.txt", b"1.0")
        return self.data.gold

    @vf.metric
    def one(self) -> float:
        return 1.0

    @vf.reward
    async def right(self, runtime: vf.Runtime, trace: vf.Trace) -> float:
        if self.data.fails == "noop":
            return float(trace.last_reply)
        return float(await runtime.read("answer.txt"))

    @vf.reward(weight=0.0)
    def candidate(self) -> float:
        return 5.0

    @vf.reward(weight=-1.0)
    def penalty(self) -> float:
        return 0.0


def _tasks(**data: dict[str, Any]) -> list[Checked]:
    return [Checked(Data(name=name, **fields)) for name, fields in data.items()]


ALL = {
    "good": {"gold": True},
    "partly": {"gold": True, "start": 0.5},
    "unknown": {},
    "wrong": {"gold": False},
    "solved": {"gold": True, "start": 1.0},
    "unready": {"fails": "setup"},
    "broken": {"fails": "gold"},
    "raises": {"gold": True, "fails": "noop"},
}


def test_each_task_is_set_up_checked_and_scored_untouched() -> None:
    report = vf.validate(_tasks(**ALL))
    found = {check.task.name: check for check in report}
    assert list(found) == list(ALL)
    assert {name: check.problem for name, check in found.items() if check.failed} == {
        "wrong": "its gold check says False",
        "solved": "untouched, it already scores 1 of 1",
        "unready": "RuntimeError: no disk",
        "broken": "RuntimeError: no solution",
    }
    assert not report.ok
    # The gold check's solution is not in the box of the no-op check.
    assert [found[name].noop for name in ("good", "partly", "solved")] == [0.0, 0.5, 1.0]
    assert [check.gold for check in report[:4]] == [True, True, None, False]
    assert [found[name].setup for name in ("good", "unready", "broken")] == [True, False, True]


def test_a_task_that_cannot_be_scored_untouched_is_told_and_not_failed() -> None:
    (check,) = vf.validate(_tasks(raises=ALL["raises"]))
    assert not check.failed
    assert check.noop is None
    assert "could not convert string to float" in (check.noop_error or "")


def test_full_reward_is_the_sum_of_weights() -> None:
    class Two(vf.Task[vf.TaskData]):
        @vf.reward
        def short(self, trace: vf.Trace) -> float:
            return 1.0 / (1 + len(trace.last_reply))

        @vf.reward(weight=0.5)
        def right(self, trace: vf.Trace) -> dict[str, float]:
            return {"a": 0.0, "b": 0.0}

    (check,) = vf.validate([Two(vf.TaskData())])
    assert (check.noop, check.full, check.failed) == (1.0, 2.0, False)


def test_tasks_without_rewards_or_checks_are_unchecked() -> None:
    (check,) = vf.validate([vf.Task(vf.TaskData(prompt="x"))])
    assert (check.failed, check.gold, check.noop, check.full) == (False, None, None, None)


def test_parts_can_be_left_out() -> None:
    tasks = _tasks(wrong=ALL["wrong"], solved=ALL["solved"], unready=ALL["unready"])
    setup = vf.validate(tasks, only_setup=True)
    assert [check.failed for check in setup] == [False, False, True]
    assert {check.noop for check in setup} == {check.gold for check in setup} == {None}
    gold = vf.validate(tasks, noop=False)
    assert [check.failed for check in gold] == [True, False, True]


def test_judges_are_left_out() -> None:
    class Judged(vf.Task[vf.TaskData]):
        @vf.reward
        def right(self) -> float:
            return 0.0

    config = vf.TaskConfig(
        judges=[{"id": "reference", "name": "correct", "base_url": "http://127.0.0.1:9/v1"}]
    )
    (check,) = vf.validate([Judged(vf.TaskData(), config)])
    assert (check.noop, check.full, check.noop_error) == (0.0, 1.0, None)


def test_isolated_scoring_gets_the_artifacts_alone() -> None:
    task = Checked(Data(start=1.0))
    carried = Checked(Data(start=1.0, artifacts=["answer.txt"]))
    report = vf.validate([task, carried], scoring={"placement": "isolated"})
    assert "MissingFile" in (report[0].noop_error or "")
    assert report[1].problem == "untouched, it already scores 1 of 1"


def test_time_limits_bind() -> None:
    class Slow(Checked):
        def validate(self) -> bool:
            time.sleep(0.5)
            return True

    (check,) = vf.validate([Slow(Data(timeout=TaskTimeout(scoring=0.05)))], noop=False)
    assert (check.error or "").startswith("StageTimeout: Slow.validate took longer than 0.05 s")


def test_a_task_that_does_not_fit_the_runtime_says_so_and_the_others_go_on() -> None:
    class Contained(Checked):
        NEEDS_CONTAINER = True

    tasks = [Contained(Data(gold=True)), *_tasks(good=ALL["good"])]
    first, second = vf.validate(tasks)
    assert "sets NEEDS_CONTAINER" in (first.problem or "")
    assert not second.failed
    ToyContainer.made.clear()
    assert vf.validate([Contained(Data(gold=True, image="one:1"))], runtime="toy").ok
    assert {config.image for config in ToyContainer.made} == {"one:1"}


def test_tasks_are_checked_at_the_same_time_within_the_bound() -> None:
    running = most = 0

    class Counted(vf.Task[vf.TaskData]):
        async def setup(self) -> None:
            nonlocal running, most
            running += 1
            most = max(most, running)
            await asyncio.sleep(0.05)
            running -= 1

    report = vf.validate([Counted(vf.TaskData(prompt=f"{i}")) for i in range(12)], concurrency=4)
    assert (len(report), most) == (12, 4)


def test_a_taskset_a_class_and_an_id_are_checked() -> None:
    assert len(vf.validate(taskset(3))) == 3
    assert len(vf.validate(type(taskset(1)), n=2)) == 2
    report = vf.validate("addition", n=2, runtime="inprocess")
    assert [check.noop for check in report] == [0.0, 0.0]
    with pytest.raises(EmptySelection):
        vf.validate(taskset(3).skip(5))
    with pytest.raises(ConfigError, match="concurrency=0"):
        vf.validate(taskset(3), concurrency=0)


def test_it_works_inside_a_running_loop() -> None:
    async def cell() -> vf.Validation:
        return vf.validate(taskset(1))

    assert asyncio.run(cell()).ok


def test_the_report_shows_itself() -> None:
    report = vf.validate(Named(_tasks(**ALL)))
    bundle = report._repr_mimebundle_()
    check_bundle(bundle)
    assert str(report).splitlines()[0] == (
        "Named: 8 tasks, 4 failed, 4 passed their gold check, 1 have none; untouched: 3 below full reward, "
        "1 unscorable"
    )
    text = bundle["text/plain"]
    assert "its gold check says False" in text and "good" not in text
    html = bundle["text/html"]
    assert "4 tasks are not fit to be run" in html and "could not convert string to float" in html
    frame = report.frame()
    assert list(frame["name"]) == list(ALL)
    assert list(frame["ok"]) == [True, True, True, False, False, False, False, True]
    assert list(frame["gold"].isna()) == [False, False, True, False, False, True, True, False]
    assert frame["noop"].sum() == 1.5
    assert (frame["seconds"] > 0).all()
    many = vf.validate(taskset(60), runtime="inprocess")
    assert "50 of 60 tasks shown" in many._repr_mimebundle_()["text/html"]
    assert str(many) == (
        "AdditionTaskset: 60 tasks, 0 failed, 0 passed their gold check, 60 have none; "
        "untouched: 60 below full reward"
    )


class Named(vf.Taskset[Checked, vf.TasksetConfig]):
    def __init__(self, tasks: list[Checked]) -> None:
        super().__init__()
        self.tasks = tasks

    def load(self) -> list[Checked]:
        return self.tasks


INTERRUPTED = """
import sys
sys.path.insert(0, {tests!r})
import vfnb as vf

class Slow(vf.Task):
    async def setup(self, runtime):
        await runtime.run(["sh", "-c", "echo started > /dev/stderr; exec sleep 377"])

print("checking", flush=True)
try:
    vf.validate([Slow(vf.TaskData(prompt=str(i))) for i in range(3)])
except KeyboardInterrupt:
    print("interrupted", flush=True)
"""


def test_an_interrupt_leaves_nothing() -> None:
    code = textwrap.dedent(INTERRUPTED).format(tests=str(ROOT / "tests"))
    child = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "checking\n"
    deadline = time.monotonic() + 20
    while _sleepers() < 3 and time.monotonic() < deadline:
        time.sleep(0.05)
    os.kill(child.pid, signal.SIGINT)
    assert child.stdout.readline() == "interrupted\n"
    child.stdout.close()
    assert child.wait(timeout=20) == 0
    assert _sleepers() == 0


def _sleepers() -> int:
    listing = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    return listing.splitlines().count("sleep 377")
