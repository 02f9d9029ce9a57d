"""Scoring in the agent's box or in a fresh one, and rollouts that are not scored at all."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Any

import pytest
from support.containers import ToyContainer

import vfnb as vf
from vfnb.errors import ConfigError, MissingFile, RuntimeFault, TasksetError
from vfnb.runtimes import SubprocessConfig, SubprocessRuntime, register_runtime


@vf.harness
async def work(session: vf.HarnessSession, task: vf.Task) -> str:
    """The agent: does what the prompt says, in a shell if the runtime has one."""
    await session.complete("hi")
    if session.runtime.RUNS_PROGRAMS:
        result = await session.runtime.run(["sh", "-ec", task.data.prompt_text])
        assert result.ok, result.stderr
    else:
        await session.runtime.write("out/result.txt", b"42")
        await session.runtime.write("private.txt", b"x")
    return "done"


class Graded(vf.Task[vf.TaskData]):
    async def setup(self, runtime: vf.Runtime) -> None:
        await runtime.write("from_setup.txt", b"setup")

    async def finalize(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        trace.info["seen_by_finalize"] = (await runtime.read("private.txt")).decode().strip()

    @vf.metric
    async def sees_private(self, runtime: vf.Runtime) -> float:
        return await _has(runtime, "private.txt")

    @vf.metric
    async def sees_setup(self, runtime: vf.Runtime) -> float:
        return await _has(runtime, "from_setup.txt")

    @vf.reward
    async def right(self, runtime: vf.Runtime) -> float:
        try:
            return float((await runtime.read("out/result.txt")).strip() == b"42")
        except MissingFile:
            return 0.0


async def _has(runtime: vf.Runtime, path: str) -> float:
    try:
        await runtime.read(path)
    except MissingFile:
        return 0.0
    return 1.0


SCRIPT = "mkdir -p out; echo 42 > out/result.txt; echo x > private.txt"


def _run(task: vf.Task, folder: Path, **settings: Any) -> vf.Trace:
    given = {"harness": work, "runtime": "subprocess", "scoring": {"placement": "isolated"}, **settings}
    run = vf.evaluate([task], model=vf.Scripted(["hello"], cycle=True), dir=folder, **given)
    return run.wait(quiet=True).traces[0]


def _task(script: str = SCRIPT, artifacts: list[str] | None = None, kind: type[vf.Task] = Graded) -> vf.Task:
    return kind(vf.TaskData(prompt=script, artifacts=["out"] if artifacts is None else artifacts))


def test_shared_scoring_works_in_the_agents_box(tmp_path: Path) -> None:
    trace = _run(_task(), tmp_path, scoring={"placement": "shared"})
    assert trace.reward == 1.0
    assert trace.metrics == {"sees_private": 1.0, "sees_setup": 1.0}
    assert "artifacts" not in trace.info


@pytest.mark.parametrize("runtime", ["subprocess", "inprocess"])
def test_isolated_scoring_sees_the_artifacts_alone(runtime: str, tmp_path: Path) -> None:
    trace = _run(_task(), tmp_path, runtime=runtime)
    assert (trace.errors, trace.reward) == ([], 1.0)
    assert trace.metrics == {"sees_private": 0.0, "sees_setup": 0.0}
    assert trace.info["artifacts"] == {
        "files": 1,
        "bytes": 3 if runtime == "subprocess" else 2,
        "missing": [],
        "left_out": [],
    }
    assert list(trace.timing) == ["boot", "setup", "agent", "finalize", "verifier", "scoring"]


def test_finalize_runs_in_the_agents_box_before_artifacts_are_collected(tmp_path: Path) -> None:
    class Late(Graded):
        async def finalize(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
            await runtime.write("out/result.txt", b"42")
            trace.info["seen"] = (await runtime.read("private.txt")).decode().strip()

    trace = _run(_task("echo x > private.txt", kind=Late), tmp_path)
    assert (trace.info["seen"], trace.reward) == ("x", 1.0)


def test_the_verifier_is_a_box_of_the_same_kind_or_the_one_that_is_named(tmp_path: Path) -> None:
    class Where(vf.Task[vf.TaskData]):
        @vf.metric
        async def programs(self, runtime: vf.Runtime) -> float:
            return float(runtime.RUNS_PROGRAMS)

        @vf.reward
        async def toy(self, runtime: vf.Runtime) -> float:
            return float(runtime.type == "toy")

    same = _run(_task(kind=Where), tmp_path / "same")
    assert (same.metrics, same.reward) == ({"programs": 1.0}, 0.0)
    scoring = {"placement": "isolated", "runtime": "toy"}
    other = _run(_task(kind=Where), tmp_path / "other", scoring=scoring, runtime="inprocess")
    assert (other.metrics, other.reward, other.errors) == ({"programs": 1.0}, 1.0, [])
    assert ToyContainer.made


def test_stage_verifier_prepares_the_fresh_box_over_the_agents_files(tmp_path: Path) -> None:
    class Staged(Graded):
        async def stage_verifier(self, runtime: vf.Runtime, trace: vf.Trace) -> None:
            trace.info["carried"] = (await runtime.read("out/tests.sh")).decode().strip()
            await runtime.write("out/tests.sh", b"echo private tests")

        @vf.reward
        async def right(self, runtime: vf.Runtime) -> float:
            result = await runtime.run(["sh", "out/tests.sh"])
            return float(result.stdout == "private tests\n")

    trace = _run(_task(f"{SCRIPT}; echo 'echo hacked' > out/tests.sh", kind=Staged), tmp_path)
    assert (trace.info["carried"], trace.reward) == ("echo hacked", 1.0)


def test_a_missing_artifact_is_recorded_and_no_error(tmp_path: Path) -> None:
    trace = _run(_task("echo x > private.txt", ["out", "log.txt", "private.txt"]), tmp_path)
    assert trace.info["artifacts"]["missing"] == ["out", "log.txt"]
    assert (trace.end_state, trace.reward, trace.metrics["sees_private"]) == ("completed", 0.0, 1.0)


def test_folders_are_carried_whole(tmp_path: Path) -> None:
    script = (
        "mkdir -p out/deep/er 'out/with space'; echo 42 > out/result.txt; echo '#!/bin/sh' > out/run.sh;"
        "chmod 755 out/run.sh; ln -s result.txt out/link; ln -s /etc/hostname out/abs; ln out/result.txt out/hard;"
        "echo deep > out/deep/er/f; : > 'out/with space/-x'; mkfifo out/pipe; echo x > private.txt"
    )

    class Listing(vf.Task[vf.TaskData]):
        @vf.reward
        async def same(self, trace: vf.Trace, runtime: vf.Runtime) -> float:
            listing = "cd out; find . | LC_ALL=C sort; cat link hard deep/er/f; test -x run.sh && echo runs"
            trace.info["seen"] = (await runtime.run(["sh", "-c", listing])).stdout.splitlines()
            return 1.0

    trace = _run(_task(script, ["out", "./private.txt"], kind=Listing), tmp_path)
    seen = trace.info["seen"]
    assert seen[-4:] == ["42", "42", "deep", "runs"]
    assert seen[:-4] == [
        *(".", "./abs", "./deep", "./deep/er", "./deep/er/f", "./hard", "./link", "./result.txt", "./run.sh"),
        *("./with space", "./with space/-x"),
    ]
    assert trace.info["artifacts"]["left_out"] == ["out/pipe"]


def test_artifacts_above_the_limit_are_an_error_of_scoring_not_a_zero(tmp_path: Path) -> None:
    script = f"{SCRIPT}; head -c 200000 /dev/zero > out/big"
    for runtime, task in (("subprocess", _task(script)), ("inprocess", _task(artifacts=["out/result.txt"]))):
        scoring = {"placement": "isolated", "artifact_limit": 1}
        trace = _run(task, tmp_path / runtime, runtime=runtime, scoring=scoring)
        assert trace.reward is None
        assert [(e.type, e.boundary, e.stage) for e in trace.errors] == [
            ("ScoringError", "scoring", "verifier")
        ]
        assert "scoring.artifact_limit" in trace.errors[0].message


def test_the_agents_box_and_its_programs_end_before_the_verifier_starts(tmp_path: Path) -> None:
    pids = tmp_path / "pid"

    class Alone(vf.Task[vf.TaskData]):
        @vf.reward
        def alone(self) -> float:
            command = Path(
                f"/proc/{pids.read_text().strip()}/cmdline"
            )  # empty for one that nobody has reaped
            return float(not (command.exists() and command.read_bytes()))

    script = f"{SCRIPT}; setsid sleep 300 > /dev/null 2>&1 & echo $! > {pids}"
    assert _run(_task(script, kind=Alone), tmp_path / "run").reward == 1.0


def test_nothing_of_the_verifier_is_left(tmp_path: Path) -> None:
    class Leaves(vf.Task[vf.TaskData]):
        @vf.reward
        async def ran(self, trace: vf.Trace, runtime: vf.Runtime) -> float:
            trace.info["folder"] = (await runtime.run(["pwd"])).stdout.strip()
            handle = await runtime.run(["sleep", "300"], background=True)
            trace.info["pid"] = handle.pid
            raise RuntimeError("scoring fails")

    trace = _run(_task(kind=Leaves), tmp_path)
    assert trace.end_state == "error"
    assert not Path(trace.info["folder"]).exists()
    with pytest.raises(ProcessLookupError):
        os.kill(trace.info["pid"], 0)


class Flaky(SubprocessRuntime):
    """Its second and third boxes do not start."""

    type = "flaky"
    starts = 0

    async def start(self) -> None:
        type(self).starts += 1
        if type(self).starts in (2, 3):
            raise RuntimeFault("no box today")
        await super().start()


class FlakyConfig(SubprocessConfig):
    type: str = "flaky"  # type: ignore[assignment]


register_runtime(FlakyConfig, Flaky)


def test_a_verifier_that_does_not_start_is_tried_again_without_running_the_agent_again(
    tmp_path: Path,
) -> None:
    Flaky.starts = 0
    trace = _run(_task(), tmp_path, runtime="flaky")
    assert (trace.reward, trace.num_turns, Flaky.starts) == (1.0, 1, 4)


@pytest.mark.parametrize("runtime", ["inprocess", "subprocess"])
def test_an_absolute_artifact_outside_a_container_is_refused_before_any_call(runtime: str) -> None:
    model = vf.Scripted(["x"])
    agent = vf.make_agent(work, model=model, runtime=runtime, scoring={"placement": "isolated"})
    with pytest.raises(ConfigError, match="artifact '/logs/out' is an absolute path"):
        asyncio.run(agent.run(_task(artifacts=["out", "/logs/out"])))
    assert model.calls == 0


@pytest.mark.parametrize("path", ["../out", "", "a/../../b", "a\nb"])
def test_an_artifact_stays_inside(path: str) -> None:
    with pytest.raises(TasksetError, match=r"artifacts: .* is no path inside the box"):
        vf.TaskData(artifacts=[path])


def test_settings_that_cannot_work_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"scoring.placment: unknown key; did you mean placement"):
        vf.make_agent(work, model=vf.Scripted(["x"]), scoring={"placment": "isolated"})
    agent = vf.make_agent(work, model=vf.Scripted(["x"]), scoring={"runtime": "subprocess"})
    with pytest.raises(ConfigError, match=r"no meaning without scoring.placement='isolated'"):
        agent.check(_task())


# Not scored


class Always(vf.Task[vf.TaskData]):
    def finalize(self, trace: vf.Trace) -> None:
        trace.info["finalized"] = True

    @vf.metric
    def one(self) -> float:
        return 1.0

    @vf.reward
    def right(self) -> float:
        return 1.0


@vf.harness
async def endless(session: vf.HarnessSession, task: vf.Task) -> None:
    while True:
        await session.complete("hi")


def _ended(folder: Path, scoring: dict[str, Any], **settings: Any) -> vf.Run:
    model = vf.Scripted(["hello"], cycle=True, latency=0.01)
    task = Always(vf.TaskData(prompt="x"))
    return vf.evaluate([task], model=model, harness=endless, scoring=scoring, dir=folder, **settings).wait(
        quiet=True
    )


LIMITED: dict[str, Any] = {"limits": {"max_turns": 2}}
LATE: dict[str, Any] = {"timeouts": {"agent": 0.3}}


@pytest.mark.parametrize(
    ("skip", "settings", "skipped"),
    [
        ({}, LIMITED, None),
        ({}, LATE, None),
        ({"skip_on_truncated": True}, LIMITED, "skip_on_truncated"),
        ({"skip_on_truncated": True}, LATE, None),
        ({"skip_on_timeout": True}, LIMITED, None),
        ({"skip_on_timeout": True}, LATE, "skip_on_timeout"),
    ],
)
def test_a_rollout_that_is_not_scored_has_reward_0_shown_apart(
    skip: dict[str, Any], settings: dict[str, Any], skipped: str | None, tmp_path: Path
) -> None:
    run = _ended(tmp_path / "run", skip, **settings)
    trace = run.traces[0]
    assert trace.end_state == "stopped"
    assert trace.info["finalized"] is True
    assert trace.info.get("scoring_skipped") == skipped
    assert trace.reward == (0.0 if skipped else 1.0)
    assert (trace.rewards == {}, trace.metrics == {}) == (bool(skipped), bool(skipped))
    for one in (run, vf.load(run.dir)):
        assert one.summary.skipped == int(bool(skipped))
        assert ("skips scoring" in str(one.summary)) is bool(skipped)


def test_a_changed_skip_setting_scores_anew_without_running_again(tmp_path: Path) -> None:
    rewards = []
    for skip in ({}, {"skip_on_truncated": True}, {"skip_on_timeout": True}, {}):
        run = _ended(tmp_path / "run", skip, **LIMITED)
        assert len(run.traces) == 1
        assert run.summary.reused == (1 if rewards else 0)
        rewards.append((run.traces[0].reward, vf.load(run.dir).traces[0].info.get("scoring_skipped")))
    assert rewards == [(1.0, None), (0.0, "skip_on_truncated"), (1.0, None), (1.0, None)]


# Configuration


def test_scoring_is_configured_in_both_layouts_and_saved(tmp_path: Path) -> None:
    flat, nested = tmp_path / "flat.toml", tmp_path / "nested.toml"
    flat.write_text('taskset = "addition"\n[scoring]\nplacement = "isolated"\nruntime = "subprocess"\n')
    nested.write_text(
        '[env.taskset]\nid = "addition"\n[env.agent.scoring]\nplacement = "isolated"\n'
        '[env.agent.scoring.runtime]\ntype = "subprocess"\n'
    )
    for file in (flat, nested):
        scoring = vf.EvalConfig.load(file).scoring
        assert (scoring.placement, scoring.skip_on_timeout) == ("isolated", False)
        assert isinstance(scoring.runtime, SubprocessConfig)
    config = vf.EvalConfig.load(flat, model="m", n=1, dir=str(tmp_path / "run"))
    run = vf.evaluate(
        config.make_taskset(), model=vf.Scripted(["0"]), scoring=config.scoring, dir=config.dir
    ).wait(quiet=True)
    assert run.config["scoring"]["placement"] == "isolated"
    assert run.config["scoring"]["runtime"] == {"type": "subprocess"}
    with pytest.raises(
        ConfigError, match=r"env.agent.scoring.skip_on_timeouts: unknown key.*skip_on_timeout"
    ):
        vf.EvalConfig.load(env={"taskset": "addition", "agent": {"scoring": {"skip_on_timeouts": True}}})
