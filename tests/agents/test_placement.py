"""Which box, folder and times a task gets: explicit settings of the run, then the task's, then defaults."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import pytest
from support.containers import ToyConfig, ToyContainer

import vfnb as vf
from vfnb.agents.placement import check_placement, place
from vfnb.errors import ConfigError, TasksetError
from vfnb.runtimes import SubprocessConfig, runtime_config
from vfnb.tasks import NetworkPolicy, TaskResources, TaskTimeout


@vf.harness
async def ask(session: vf.HarnessSession, task: vf.Task) -> str:
    return (await session.complete("hi")).text


def _run(task: vf.Task, folder: Path, **settings: Any) -> vf.Run:
    model = vf.Scripted(["hello"], cycle=True)
    return vf.evaluate([task], model=model, dir=folder, **{"harness": ask, **settings}).wait(quiet=True)


# Times


def test_an_explicit_time_limit_wins_over_the_tasks_even_if_it_equals_the_default() -> None:
    task = TaskTimeout(setup=1.0, agent=2.0)
    default = vf.Timeouts()
    assert default.with_task(task).agent == 2.0
    explicit = vf.Timeouts(agent=default.agent)
    assert explicit.with_task(task).agent == default.agent
    assert explicit.with_task(task).setup == 1.0
    assert vf.Timeouts(agent=None).with_task(task).agent is None
    assert default.with_task(TaskTimeout()) == default


class Slow(vf.Task[vf.TaskData]):
    def setup(self) -> None:
        time.sleep(0.4)

    @vf.reward
    def answered(self, trace: vf.Trace) -> float:
        return float(bool(trace.last_reply))


def test_the_tasks_limit_binds_unless_the_run_sets_one(tmp_path: Path) -> None:
    task = Slow(vf.TaskData(prompt="x", timeout=TaskTimeout(setup=0.1)))
    trace = _run(task, tmp_path / "task").traces[0]
    assert [(error.type, error.stage) for error in trace.errors] == [("StageTimeout", "setup")]
    assert trace.reward is None
    default = vf.Timeouts().setup
    assert _run(task, tmp_path / "run", timeouts={"setup": default}).traces[0].reward == 1.0


def test_the_tasks_agent_time_ends_the_agent_and_the_rollout_is_scored(tmp_path: Path) -> None:
    @vf.harness
    async def endless(session: vf.HarnessSession, task: vf.Task) -> None:
        while True:
            await session.complete("hi")

    task = Slow(vf.TaskData(prompt="x", timeout=TaskTimeout(agent=0.5)))
    trace = _run(task, tmp_path / "run", harness=endless).traces[0]
    assert (trace.end_state, trace.stop_condition, trace.reward) == ("stopped", "timeout", 1.0)


def test_a_saved_config_keeps_what_is_not_set_apart_from_defaults(tmp_path: Path) -> None:
    run = _run(
        Slow(vf.TaskData(prompt="x")), tmp_path / "run", timeouts={"setup": 600.0}, runtime="subprocess"
    )
    saved = run.config
    assert saved["timeouts"] == {"setup": 600.0}
    assert saved["runtime"] == {"type": "subprocess"}


# Boxes


class Contained(vf.Task[vf.TaskData]):
    NEEDS_CONTAINER = True


PLAIN = vf.Task
DEMANDS = [
    (Contained, {}, "Contained sets NEEDS_CONTAINER"),
    (PLAIN, {"image": "python:3.12"}, "wants the image 'python:3.12'"),
    (PLAIN, {"workdir": "/app"}, "works in the absolute folder '/app'"),
    (PLAIN, {"network": NetworkPolicy(allow=[])}, "restricts its network"),
    (PLAIN, {"network": NetworkPolicy(block=["*.example.org"])}, "restricts its network"),
]


@pytest.mark.parametrize("runtime", ["inprocess", "subprocess"])
@pytest.mark.parametrize(("kind", "fields", "message"), DEMANDS)
def test_what_only_a_container_can_give_is_refused_before_any_call(
    kind: type[vf.Task], fields: dict[str, Any], message: str, runtime: str, tmp_path: Path
) -> None:
    model = vf.Scripted(["x"])
    with pytest.raises(ConfigError, match=f"{message}, but runtime '{runtime}' is no container"):
        vf.evaluate(
            [kind(vf.TaskData(prompt="x", name="t", **fields))],
            model=model,
            runtime=runtime,
            dir=tmp_path / "run",
        )
    assert model.calls == 0


@pytest.mark.parametrize(("kind", "fields", "message"), DEMANDS)
def test_a_container_takes_it(kind: type[vf.Task], fields: dict[str, Any], message: str) -> None:
    check_placement(kind(vf.TaskData(prompt="x", **fields)), ToyConfig())


def test_a_container_that_cannot_give_a_demand_says_so() -> None:
    task = vf.Task(vf.TaskData(prompt="x", name="t", resources=TaskResources(gpu="H100:2")))
    with pytest.raises(ConfigError, match="task t demands gpu='H100:2', which runtime 'toy' cannot give"):
        check_placement(task, ToyConfig())


def test_a_tasks_demands_fill_what_the_run_does_not_set() -> None:
    data = vf.TaskData(
        image="python:3.12",
        workdir="/app",
        network=NetworkPolicy(allow=["example.org"]),
        resources=TaskResources(cpu=4, memory=8),
    )
    assert place(ToyConfig(), data) == ToyConfig(
        image="python:3.12",
        workdir="/app",
        network={"allow": ["example.org"], "block": []},
        cpu=4,
        memory=8,
    )
    # Set explicitly to its default, it is set.
    explicit = place(ToyConfig(image="toy:latest", memory=2.0), data)
    assert (explicit.image, explicit.memory, explicit.cpu) == ("toy:latest", 2.0, 4)
    assert place(ToyConfig(), vf.TaskData()) == ToyConfig()


def test_each_rollout_is_placed_by_its_own_task(tmp_path: Path) -> None:
    ToyContainer.made.clear()
    tasks = [vf.Task(vf.TaskData(prompt=image, image=image)) for image in ("one:1", "two:2")]
    vf.evaluate(
        tasks, model=vf.Scripted(["x"], cycle=True), harness=ask, runtime="toy", dir=tmp_path / "run"
    ).wait(quiet=True)
    assert sorted(config.image for config in ToyContainer.made) == ["one:1", "two:2"]


# Working folder


@vf.harness
async def where(session: vf.HarnessSession, task: vf.Task) -> str:
    await session.complete("hi")
    await session.runtime.write("made/by.txt", b"agent")
    done = await session.runtime.run(["sh", "-c", "pwd; cat made/by.txt; cat ../outer.txt"])
    return f"{done.stdout}{done.stderr}"


class Placed(vf.Task[vf.TaskData]):
    async def setup(self, runtime: vf.Runtime) -> None:
        await runtime.write("../outer.txt", b" outside")

    @vf.reward
    async def found(self, trace: vf.Trace, runtime: vf.Runtime) -> float:
        return float(await runtime.read("made/by.txt") == b"agent")


def test_a_relative_working_folder_is_where_programs_start_and_paths_begin(tmp_path: Path) -> None:
    task = Placed(vf.TaskData(prompt="x", workdir="repo/src"))
    trace = _run(task, tmp_path / "run", harness=where, runtime="subprocess").traces[0]
    assert (trace.last_reply.split("\n")[0].endswith("/work/repo/src"), trace.reward) == (True, 1.0)
    assert "agent outside" in trace.last_reply


def test_the_runs_working_folder_wins(tmp_path: Path) -> None:
    task = vf.Task(vf.TaskData(prompt="x", workdir="repo"))
    assert place(SubprocessConfig(workdir="other"), task.data).workdir == "other"  # type: ignore[attr-defined]


@pytest.mark.parametrize("workdir", ["..", "a/../../b", "", "a\nb"])
def test_a_working_folder_stays_inside(workdir: str) -> None:
    with pytest.raises(TasksetError, match=r"workdir: .* is no path inside the box"):
        vf.TaskData(workdir=workdir)


@pytest.mark.parametrize("workdir", ["..", "/app"])
def test_so_does_the_runs_own(workdir: str) -> None:
    with pytest.raises(ConfigError, match=r"workdir: give a path relative to the box"):
        runtime_config({"type": "subprocess", "workdir": workdir})
