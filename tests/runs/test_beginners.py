"""What a first session gets wrong: the message names it and says what to write; odd tasks are told, not refused."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import vfnb as vf
from vfnb.errors import ConfigError, ImportRefused, StoreError


class Data(vf.TaskData):
    answer: int


class Sum(vf.Task[Data]):
    @vf.reward
    def right(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == str(self.data.answer))


def tasks(kind: type[vf.Task[Data]] = Sum, n: int = 2) -> list[vf.Task[Data]]:
    return [kind(Data(prompt=f"What is {i} + {i}?", answer=2 * i)) for i in range(n)]


def go(tmp_path: Path, given: Any, **options: Any) -> vf.Run:
    model = options.pop("model", vf.Scripted(["2"], cycle=True))
    return vf.evaluate(given, model=model, dir=tmp_path / "run", **options).wait(quiet=True)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            lambda m: vf.evaluate(tasks(), model=m, rollout=4),
            r"evaluate\(\) takes no 'rollout'; did you mean 'rollouts'",
        ),
        (lambda m: vf.evaluate(tasks(), model=m, temperature=0), r"write sampling=\{'temperature': ...\}"),
        (lambda m: vf.evaluate(tasks(), model=m, max_turns=3), r"write limits=\{'max_turns': ...\}"),
        (
            lambda m: vf.evaluate(tasks(), m),
            r"2 arguments without a name, takes 1; write model=..., harness=",
        ),
        (
            lambda m: vf.evaluate(tasks(), model=m, sampling={"temp": 1}),
            r"sampling.temp: .*did you mean temperature",
        ),
        (
            lambda m: vf.study(tasks(), model=m, temperature=[0, 1]),
            r'write axes=\{"sampling.temperature": \[...\]\}',
        ),
        (lambda m: vf.study(tasks(), model=m, rollout=[1, 2]), r"did you mean 'rollouts'"),
    ],
)
def test_a_wrong_argument_is_told_the_right_one(call: Callable[[Any], Any], told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        call(vf.Scripted(["2"], cycle=True))


def test_rescore_tells_the_right_name_too(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"rescore\(\) takes no 'weight'; did you mean 'weights'"):
        go(tmp_path, tasks()).rescore(weight={"right": 2})  # type: ignore[call-arg]


def test_a_wrong_folder_is_told_what_is_there(tmp_path: Path) -> None:
    go(tmp_path / "runs", tasks())
    with pytest.raises(ImportRefused, match=r"runn does not exist; did you mean 'run'\?"):
        vf.load(tmp_path / "runs/runn")
    with pytest.raises(ImportRefused, match=r"does not exist \(nor does .*nowhere\)"):
        vf.load(tmp_path / "nowhere/run")
    with pytest.raises(ImportRefused, match=r"1 folders in it, such as run, have runs: see vf.runs\("):
        vf.load(tmp_path / "runs")
    with pytest.raises(ImportRefused, match=r"1 folders in it, such as runs, have runs"):
        vf.load(tmp_path)


def test_a_forgotten_await_and_messages_taken_for_dicts_are_told(tmp_path: Path) -> None:
    class Late(Sum):
        @vf.reward
        async def right(self, trace: vf.Trace) -> float:
            async def later() -> float:
                return 1.0

            return later()  # type: ignore[return-value]

    class Dicts(Sum):
        @vf.reward
        def right(self, trace: vf.Trace) -> float:
            return float(trace.messages[-1]["content"] == "2")  # type: ignore[index]

    class Absent(Sum):
        @vf.reward
        async def right(self, trace: vf.Trace) -> float:
            async def later() -> str:
                return "2"

            late = later()
            try:
                return float(late.strip() == "2")  # type: ignore[attr-defined]
            finally:
                late.close()

    for kind, told in [
        (Late, "returned the coroutine test_a_forgotten"),
        (Dicts, "a message is an object: message.role, message.text"),
        (Absent, "an `await` is missing"),
    ]:
        run = go(tmp_path / kind.__name__, tasks(kind))
        assert told in run.summary.errors[0].message
        assert run.summary.reward.mean is None and run.summary.failed == 2
    assert "; a message is" in " ".join(
        str(vf.load(tmp_path / "Dicts/run")).split()
    )  # not cut off in the text

    dicts = go(tmp_path, tasks(), model=vf.Scripted(lambda messages: messages[0]["content"]))
    assert "a message is an object" in dicts.summary.errors[0].message


class Quiet(vf.Toolset):
    @vf.tool
    def look(self, item) -> str:  # type: ignore[no-untyped-def]
        return str(item)

    @vf.tool(description="Says it.")
    def say(self, item: str) -> str:
        return item


def test_odd_tasks_are_told(tmp_path: Path) -> None:
    class Unpaid(vf.Task[Data]):
        @classmethod
        def toolsets(cls, config: vf.TaskConfig) -> list[vf.Toolset]:
            return [Quiet()]

    notes = go(tmp_path, [Unpaid(Data(name="x", prompt="1?", answer=1)) for _ in range(3)]).notes
    assert [note.split(":")[0] for note in notes] == [
        "2 of 3 tasks repeat the contents of another one (such as "
        + notes[0].split("as ")[1].split(")")[0]
        + ")",
        "several tasks have one name ('x')",
        "Unpaid has no rewards",
        "tool Quiet.look has no docstring",
        "tool Quiet.look",
    ]
    assert go(tmp_path, tasks()).notes[0].startswith("3 stored rollouts are of other tasks")
    assert go(tmp_path / "clean", tasks()).notes == ()


def test_a_list_is_called_by_its_tasks_and_traces_are_found_by_a_condition(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    model = vf.Scripted(["2"], cycle=True)
    run = vf.evaluate(tasks(n=3), model=model).wait(quiet=True)
    plain = vf.evaluate([vf.Task(vf.TaskData(prompt="1?"))], model=model).wait(quiet=True)
    assert run.name.startswith("Sum-") and plain.name.startswith("tasks-")
    assert [trace.task.data["answer"] for trace in run.traces.where("reward = 1")] == [2]
    assert len(run.traces.where("right = 0 AND turns = 1")) == 2 and run.traces.where("reward > 1") == []
    with pytest.raises(ConfigError, match=r"no column 'rewrd'; did you mean 'reward'"):
        run.traces.where("rewrd = 1")
    with pytest.raises(StoreError, match=r"a condition goes into run.traces.where"):
        run.traces("reward = 1")
