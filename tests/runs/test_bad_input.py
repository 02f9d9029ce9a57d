"""What a user can get wrong: one clear error that names the fix; never a zero, never a hang."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.addition import AdditionConfig, AdditionTaskset, add, taskset

import vfnb as vf
from vfnb.errors import ConfigError, EmptySelection, HookError, TasksetError


def start(tmp_path: Path, what: Any = None, **options: Any) -> vf.Run:
    options.setdefault("model", vf.Scripted(add))
    what = taskset(2) if what is None else what
    return vf.evaluate(what, dir=tmp_path / "run", **options).wait(quiet=True)


def test_an_empty_selection(tmp_path: Path) -> None:
    with pytest.raises(EmptySelection, match="no task"):
        start(tmp_path, taskset(3).include(names=["absent"]))


def test_a_taskset_without_tasks(tmp_path: Path) -> None:
    with pytest.raises(TasksetError, match="no task"):
        start(tmp_path, taskset(0))


def test_an_unknown_config_key() -> None:
    with pytest.raises(ConfigError, match=r"num_task\b.*num_tasks"):
        AdditionConfig(num_task=3)  # type: ignore[call-arg]


def test_an_unknown_setting_of_the_run(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"limits\.max_turn\b.*max_turns"):
        start(tmp_path, limits={"max_turn": 3})
    with pytest.raises(ConfigError, match=r"sampling\.temprature\b.*temperature"):
        start(tmp_path, sampling={"temprature": 1})


def test_a_misnamed_hook_parameter_fails_at_definition() -> None:
    with pytest.raises(HookError, match=r"trce.*trace"):

        class Wrong(vf.Task[vf.TaskData]):
            @vf.reward
            async def exact(self, trce: vf.Trace) -> float:
                return 1.0


def test_a_hook_without_self_fails_at_definition() -> None:
    with pytest.raises(HookError, match="`self` is missing before `trace`"):

        class Wrong(vf.Task[vf.TaskData]):
            @vf.reward
            def exact(trace: vf.Trace) -> float:  # type: ignore[misc]  # noqa: N805
                return 1.0


def test_a_weight_without_its_name() -> None:
    with pytest.raises(HookError, match=r"write @reward\(weight=0\.5\)"):
        vf.reward(0.5)  # type: ignore[call-overload]


def test_a_taskset_that_gives_data_instead_of_tasks(tmp_path: Path) -> None:
    class Rows(vf.Taskset[Raises, vf.TasksetConfig]):
        def load(self) -> Any:
            return [vf.TaskData(prompt="1 + 1?")]

    with pytest.raises(
        TasksetError, match=r"gave a TaskData at position 0; .*Raises\(data, self\.config\.task"
    ):
        start(tmp_path, Rows())


def test_a_harness_function_with_other_parameters_fails_at_definition() -> None:
    with pytest.raises(HookError, match=r"\(session, task\)"):

        @vf.harness
        async def wrong(session: vf.HarnessSession) -> str:
            return ""


def test_an_unknown_harness_and_taskset(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="did you mean 'null'"):
        start(tmp_path, harness="nul")
    with pytest.raises((ConfigError, TasksetError), match="addition"):
        start(tmp_path, "aditon")


def test_an_impossible_pair_of_harness_and_runtime(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="runtime='subprocess'"):
        start(tmp_path, harness=vf.Program(["true"]), runtime="inprocess")


def test_a_missing_key_variable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("SOME_API_KEY", raising=False)
    model = vf.Relay("m", base_url="https://models.invalid/v1", api_key_var="SOME_API_KEY")
    with pytest.raises(ConfigError, match="SOME_API_KEY"):
        start(tmp_path, model=model)


def test_no_model_and_no_base_url(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(ConfigError, match="OPENAI_BASE_URL"):
        start(tmp_path, model="some-model")


def test_a_dead_endpoint_is_an_error_and_no_zero(tmp_path: Path, unused_port: int) -> None:
    model = vf.Relay("m", base_url=f"http://127.0.0.1:{unused_port}/v1", max_retries=0)
    run = start(tmp_path, model=model)
    assert run.summary.failed == 2
    assert run.summary.reward.mean is None
    assert list(run.rewards["reward"].isna()) == [True, True]
    assert set(run.rewards["error"]) == {"UpstreamConnection"}
    assert str(unused_port) in run.frame("errors")["message"][0]


def test_a_task_without_a_prompt(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="no prompt"):
        start(tmp_path, [vf.Task(vf.TaskData())])


class Bad(vf.Task[vf.TaskData]):
    @vf.metric
    def length(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply))


class Raises(Bad):
    @vf.reward
    def exact(self, trace: vf.Trace) -> float:
        raise RuntimeError("the judge is on holiday")


class NotANumber(Bad):
    @vf.reward
    def exact(self, trace: vf.Trace) -> float:
        return float("nan")


@pytest.mark.parametrize(("kind", "text"), [(Raises, "on holiday"), (NotANumber, "nan")])
def test_a_reward_that_fails(tmp_path: Path, kind: type[vf.Task], text: str) -> None:
    run = start(tmp_path, [kind(vf.TaskData(prompt="1 + 1?"))])
    trace = run.traces[0]
    assert (trace.end_state, trace.reward, trace.ok) == ("error", None, False)
    assert trace.errors[-1].type == "ScoringError"
    assert "exact" in trace.errors[-1].message
    assert text in trace.errors[-1].message
    assert trace.metrics["length"] == 1.0
    assert trace.last_reply == "2"
    assert run.summary.reward.mean is None
    assert "exact" in str(run)


def test_a_setup_that_fails_names_its_stage(tmp_path: Path) -> None:
    class NoSetup(vf.Task[vf.TaskData]):
        async def setup(self, trace: vf.Trace) -> None:
            raise OSError("no disk")

    run = start(tmp_path, [NoSetup(vf.TaskData(prompt="1 + 1?"))])
    error = run.traces[0].errors[-1]
    assert (error.stage, error.message) == ("setup", "no disk")
    assert run.summary.failed == 1


def test_stage_timeouts_are_errors_and_the_agents_a_stop(tmp_path: Path) -> None:
    import asyncio

    class SlowSetup(vf.Task[vf.TaskData]):
        async def setup(self, trace: vf.Trace) -> None:
            await asyncio.sleep(30)

    run = start(tmp_path, [SlowSetup(vf.TaskData(prompt="1 + 1?"))], timeouts={"setup": 0.2})
    assert run.traces[0].errors[-1].type == "StageTimeout"
    assert "timeouts.setup" in run.traces[0].errors[-1].message

    @vf.harness
    async def dawdle(session: vf.HarnessSession, task: vf.Task) -> None:
        await session.complete(task.data.prompt)
        await asyncio.sleep(30)

    run = vf.evaluate(
        taskset(1), model=vf.Scripted(add), harness=dawdle, timeouts={"agent": 0.3}, dir=tmp_path / "agent"
    ).wait(quiet=True)
    trace = run.traces[0]
    assert (trace.end_state, trace.stop_condition, trace.reward) == ("stopped", "timeout", 1.0)


def test_a_silent_upstream_is_to_blame_for_the_agents_timeout(tmp_path: Path) -> None:
    run = start(tmp_path, model=vf.Scripted(add, latency=30), timeouts={"agent": 0.3})
    assert {t.errors[-1].type for t in run.traces} == {"UpstreamStalled"}


def test_a_harness_that_raises_is_an_error(tmp_path: Path) -> None:
    @vf.harness
    async def broken(session: vf.HarnessSession, task: vf.Task) -> str:
        raise KeyError("oops")

    run = start(tmp_path, harness=broken)
    error = run.traces[0].errors[-1]
    assert (error.type, error.boundary) == ("HarnessError", "harness")
    assert "KeyError" in error.message


@vf.harness
async def forgetful(session: vf.HarnessSession, task: vf.Task) -> Any:
    return session.complete(task.data.prompt or "")


@vf.harness
async def whole(session: vf.HarnessSession, task: vf.Task) -> Any:
    return await session.complete(task.data.prompt or "")


@vf.harness
async def texts(session: vf.HarnessSession, task: vf.Task) -> str:
    return (await session.complete(["1 + 1?"])).text  # type: ignore[list-item]


@pytest.mark.parametrize(
    ("harness", "text"),
    [(forgetful, "an `await` is missing"), (whole, "`text` of a completion"), (texts, "item 0 is a str")],
)
def test_a_harness_with_a_slip_is_told_the_fix(tmp_path: Path, harness: Any, text: str) -> None:
    run = start(tmp_path, harness=harness)
    assert run.summary.failed == 2
    assert text in run.traces[0].errors[-1].message


def test_a_script_that_was_left_outside_the_programs_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "agent.py").write_text("raise SystemExit(0)")
    monkeypatch.chdir(tmp_path)
    message = start(tmp_path, harness=vf.Program(["python3", "agent.py"])).traces[0].errors[-1].message
    first = message.partition("\n")[0]
    assert "exited with status 2: (agent.py is in " in first
    assert "files={'agent.py': Path('agent.py').read_text()}" in first


def test_a_program_as_one_string() -> None:
    with pytest.raises(ConfigError, match=r"vf\.Program\(\['python', 'agent\.py', '{prompt}'\]\)"):
        vf.Program("python agent.py {prompt}")


@pytest.mark.parametrize(
    ("argv", "text"),
    [
        (["python3", "-c", "import sys; print('bad luck', file=sys.stderr); sys.exit(3)"], "bad luck"),
        (["python3", "-c", "print('nothing to do')"], "without a model call"),
        (["no-such-program"], "no-such-program"),
    ],
)
def test_a_program_that_fails_is_an_error(tmp_path: Path, argv: list[str], text: str) -> None:
    run = start(tmp_path, harness=vf.Program(argv))
    assert run.summary.failed == 2
    assert text in run.traces[0].errors[-1].message


def test_wrong_numbers_are_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="rollouts='4' must be a whole number"):
        start(tmp_path, rollouts="4")
    for options in (
        {"rollouts": 0},
        {"concurrency": 0},
        {"n": 0},
        {"retries": -1},
        {"timeouts": {"agent": 0}},
    ):
        with pytest.raises(ConfigError):
            start(tmp_path, **options)
    assert not (tmp_path / "run").exists()


def test_an_infinite_taskset_needs_a_bound(tmp_path: Path) -> None:
    class Endless(AdditionTaskset):
        INFINITE = True

        def load(self) -> Any:
            i = 0
            while True:
                yield vf.Task(vf.TaskData(prompt=f"What is {i} + {i}?"))
                i += 1

    with pytest.raises(TasksetError, match="take"):
        start(tmp_path, Endless())
    assert len(start(tmp_path, Endless(), n=3).traces) == 3
