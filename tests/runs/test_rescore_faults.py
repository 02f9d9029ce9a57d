"""Scoring anew when something is in the way: nothing that was scored is lost, nothing wrong is stored."""

from __future__ import annotations

import math
import threading
from pathlib import Path
from typing import Any

import pytest

import vfnb as vf
from vfnb.errors import ConfigError, StoreLocked, TasksetError
from vfnb.runs.rescoring import rescore
from vfnb.store import RunStore


class Data(vf.TaskData):
    answer: str = "4"


class Memory(vf.State):
    seen: int = 0


class Sum(vf.Task[Data, Memory]):
    @vf.reward
    def exact(self, task: Data, trace: vf.Trace, state: Memory) -> float:
        state.seen += 1
        return float(trace.last_reply == task.answer)


class Sums(vf.Taskset[Sum]):
    def load(self) -> list[Sum]:
        return [Sum(Data(prompt=f"What is {i} + 2?", answer=str(i + 2))) for i in range(2)]


@pytest.fixture
def run(tmp_path: Path) -> vf.Run:
    model = vf.Scripted(lambda messages, tools=None: "4")
    return vf.evaluate(Sums(), model=model, rollouts=2, dir=tmp_path / "run").wait(quiet=True)


def one(trace: vf.Trace) -> float:
    return 1.0


def test_a_held_lock_is_waited_for(run: vf.Run) -> None:
    other = RunStore.create_or_open(run.dir)
    asked: list[str] = []

    def counting(trace: vf.Trace) -> float:
        asked.append(trace.id)
        if len(asked) == 4:
            threading.Timer(0.3, other.close).start()
        return 1.0

    assert run.rescore([counting]).version == 1
    assert len(asked) == 4


def test_a_lock_that_stays_costs_no_scores(run: vf.Run) -> None:
    with (
        RunStore.create_or_open(run.dir),
        pytest.raises(StoreLocked, match=r"kept = error\.scored") as caught,
    ):
        rescore(run._reader, run._write, base=0, rewards=[one], patience_s=0.2)
    kept = caught.value.scored
    assert dict(kept) == {trace.id: {"one": 1.0} for trace in run.traces}
    assert run.version == 0
    run.rescore({"one": lambda trace: kept[trace.id]["one"]})
    assert run.rewards["one"].tolist() == [1.0] * 4


def test_versions_of_others_meanwhile_are_told(run: vf.Run) -> None:
    def slow(trace: vf.Trace) -> float:
        if vf.load(run.dir).version == 0:
            vf.load(run.dir).rescore([one])
        return 0.5

    made = run.rescore([slow])
    assert made.version == 2
    assert "version 1 came meanwhile" in made.notes[0]
    assert run.use(1).rescore([slow]).notes == ()
    assert {"one", "slow"} <= set(run.rewards.columns)


def test_a_state_that_does_not_fit_is_named(run: vf.Run) -> None:
    class Other(vf.State):
        seen: int = 0
        more: list[int]

    class Later(vf.Task[Data, Other]):
        @vf.reward
        def exact(self, state: Other) -> float:
            return 1.0

    with pytest.raises(TasksetError, match="state of a rollout does not fit Other: "):
        run.rescore(task=Later)


def test_sums_beyond_the_floats_are_errors(run: vf.Run) -> None:
    run.rescore({"large": lambda trace: 1e200, "small": lambda trace: 1.0})
    made = run.rescore(weights={"large": 1e200})
    assert set(made.errors) == {trace.id for trace in run.traces}
    assert run.rewards["reward"].isna().all()
    assert not any(math.isinf(value) for value in run.rewards["reward"].dropna())
    assert run.rescore(weights={"large": 1.0}).errors == {}
    assert run.rewards["reward"].notna().all()


@pytest.mark.parametrize("given", [{"rewards": []}, {"judges": []}, {"rewards": {}, "judges": ()}])
def test_nothing_to_score_is_refused(run: vf.Run, given: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match="are empty"):
        run.rescore(**given)
    assert run.version == 0


def test_wrong_names_and_weights_are_told_briefly(run: vf.Run) -> None:
    with pytest.raises(ConfigError, match="no text that can be stored"):
        run.rescore({"odd\ud800": one})
    for weight in (10**400, 10**5000):
        with pytest.raises(ConfigError, match="give a finite number") as caught:
            run.rescore(weights={"exact": weight})
        assert len(str(caught.value)) < 200


def test_a_mend_counts_by_the_names_that_a_task_has(tmp_path: Path) -> None:
    class Two(vf.Task[Data]):
        @vf.reward
        def exact(self, task: Data) -> dict[str, float]:
            if task.answer == "3":
                raise ValueError("not yet")
            return {"exact": 1.0, f"only_{task.answer}": 1.0}

    class Set(vf.Taskset[Two]):
        def load(self) -> list[Two]:
            return [Two(Data(prompt=f"{i}", answer=str(i + 2))) for i in range(2)]

    model = vf.Scripted(lambda messages, tools=None: "4")
    run = vf.evaluate(Set(), model=model, dir=tmp_path / "two").wait(quiet=True)
    assert run.summary.failed == 1
    run.rescore({"exact": lambda trace: 0.5}, where="ok = 0")
    assert run.summary.failed == 0
    assert sorted(run.rewards["reward"].tolist()) == [0.5, 2.0]
