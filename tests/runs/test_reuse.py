"""Run a cell again: what is the same is taken over, what changed is done anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.cells import run_cell

import vfnb as vf
from vfnb.errors import StoreLocked

CELL = """
import vfnb as vf

class Data(vf.TaskData):
    answer: int

class Sum(vf.Task[Data]):
    @vf.reward
    def exact(self, trace):
        {reward}

class Sums(vf.Taskset[Sum, vf.TasksetConfig]):
    def load(self):
        return [Sum(Data(prompt={prompt}, answer=2 * i), self.config.task) for i in range({n})]
"""

EXACT = "return float(trace.last_reply == str(self.data.answer))"
PROMPT = "f'What is {i} + {i}?'"


def counting() -> vf.Scripted:
    """A model that always answers 2 and counts its calls."""
    return vf.Scripted(["2"], cycle=True)


def cell(*, reward: str = EXACT, prompt: str = PROMPT, n: int = 5) -> vf.Taskset[Any, Any]:
    """A taskset as a notebook cell defines it: source known, class new at each execution."""
    sums: vf.Taskset[Any, Any] = run_cell(CELL.format(reward=reward, prompt=prompt, n=n))["Sums"]()
    return sums


def run(tmp_path: Path, model: vf.Scripted, taskset: Any, **options: Any) -> vf.Run:
    return vf.evaluate(taskset, model=model, dir=tmp_path / "run", **options).wait(quiet=True)


def test_an_edited_reward_scores_anew_without_a_model_call(tmp_path: Path) -> None:
    model = counting()
    first = run(tmp_path, model, cell())
    assert (model.calls, first.summary.reward.mean) == (5, 0.2)

    edited = run(tmp_path, model, cell(reward="return 0.5"))
    assert model.calls == 5
    assert edited.summary.reward.mean == 0.5
    assert edited.summary.reused == 5
    assert "5 reused (5 scored anew), 0 run" in str(edited)
    assert edited.frame("runs")["version"][0] == 1

    back = run(tmp_path, model, cell())
    assert model.calls == 5
    assert back.summary.reward.mean == 0.2
    assert list(back.rewards["exact"]) == [0.0, 1.0, 0.0, 0.0, 0.0]


def test_the_same_cell_again_changes_nothing(tmp_path: Path) -> None:
    model = counting()
    first = run(tmp_path, model, cell())
    again = run(tmp_path, model, cell())
    assert model.calls == 5
    assert [t.id for t in again.traces] == [t.id for t in first.traces]
    assert again.frame("runs")["version"][0] == 0


def test_a_comment_in_a_reward_changes_nothing(tmp_path: Path) -> None:
    model = counting()
    run(tmp_path, model, cell())
    again = run(tmp_path, model, cell(reward=f"# the same\n        {EXACT}"))
    assert (model.calls, again.frame("runs")["version"][0]) == (5, 0)


def test_an_edited_prompt_runs_everything_anew(tmp_path: Path) -> None:
    model = counting()
    run(tmp_path, model, cell())
    edited = run(tmp_path, model, cell(prompt="f'Add {i} and {i}.'"))
    assert model.calls == 10
    assert len(edited.traces) == 5
    assert {t.messages[0].text[:3] for t in edited.traces} == {"Add"}

    back = run(tmp_path, model, cell())
    assert model.calls == 10
    assert {t.messages[0].text[:4] for t in back.traces} == {"What"}


def test_more_samples_and_more_tasks_extend_a_run(tmp_path: Path) -> None:
    model = counting()
    run(tmp_path, model, cell())
    more = run(tmp_path, model, cell(n=7), rollouts=2)
    assert model.calls == 14
    assert len(more.traces) == 14
    assert more.summary.reused == 5


def test_a_scoring_error_is_mended_without_a_model_call(tmp_path: Path) -> None:
    model = counting()
    broken = run(tmp_path, model, cell(reward="return 1 / 0"))
    assert broken.summary.failed == 5
    assert broken.summary.reward.mean is None
    assert set(broken.rewards["error"]) == {"ScoringError"}

    mended = run(tmp_path, model, cell())
    assert model.calls == 5
    assert mended.summary.failed == 0
    assert mended.summary.reward.mean == 0.2
    assert [t.end_state for t in mended.traces] == ["completed"] * 5
    assert [t.end_state for t in vf.load(mended.dir).traces] == ["completed"] * 5
    assert vf.load(mended.dir).summary.failed == 0


def test_rollouts_that_ended_by_an_error_run_again(tmp_path: Path) -> None:
    taskset = cell()

    def start(faults: dict[str, Any] | None) -> vf.Run:
        model = vf.Scripted(lambda messages: "2", faults=faults)
        return vf.evaluate(taskset, model=model, dir=tmp_path / "run").wait(quiet=True)

    assert start({"kind": "server_error", "rate": 1.0}).summary.failed == 5
    second = start(None)
    assert (second.summary.failed, second.summary.scored) == (0, 5)
    assert len(second.traces) == 5


def test_fresh_runs_anew_and_keeps_the_old_run_aside(tmp_path: Path) -> None:
    model = counting()
    run(tmp_path, model, cell())
    run(tmp_path, model, cell(), fresh=True)
    assert model.calls == 10
    assert len(list((tmp_path / "run").glob("run-*.sqlite"))) == 1


def test_resume_false_refuses_a_folder_with_rollouts(tmp_path: Path) -> None:
    model = counting()
    run(tmp_path, model, cell())
    with pytest.raises(vf.errors.ConfigError, match="fresh=True"):
        run(tmp_path, model, cell(), resume=False)


def test_a_second_writer_is_refused_by_name(tmp_path: Path) -> None:
    first = vf.evaluate(cell(), model=vf.Scripted(["2"], cycle=True, latency=1), dir=tmp_path / "run")
    with pytest.raises(StoreLocked, match="process"):
        run(tmp_path, counting(), cell())
    first.cancel()


def test_another_model_or_sampling_is_another_run(tmp_path: Path) -> None:
    model = counting()
    run(tmp_path, model, cell())
    hot = run(tmp_path, model, cell(), sampling={"temperature": 1.0})
    assert model.calls == 10
    assert len(hot.traces) == 5


def test_what_is_set_aside_is_told_with_its_labels_and_comes_back(tmp_path: Path) -> None:
    model = counting()
    first = run(tmp_path, model, cell())
    first.traces[0].label("good", value=True)
    assert first.notes == ()

    other = run(tmp_path, model, cell(prompt="f'What is {i} plus {i}?'"))
    (note,) = other.notes
    assert note.startswith("5 stored rollouts (1 with labels, tags or notes) are of other tasks")
    assert note[:60] in str(other)
    assert other.labels().empty

    back = run(tmp_path, model, cell())
    assert model.calls == 10
    assert list(back.labels()["trace"]) == [first.traces[0].id]


def test_rollouts_that_run_anew_are_no_part_of_an_older_version_of_scores(tmp_path: Path) -> None:
    first = run(tmp_path, counting(), cell())
    first.rescore([lambda trace: 3.0], weights={"exact": 0.0}, label="three")

    anew = run(tmp_path, vf.Scripted(["4"], cycle=True), cell(prompt="f'{i} and {i}?'"))
    scores = anew.scores.set_index("version")
    assert list(scores["label"]) == ["", "three", "run anew"]
    assert list(scores["kind"]) == ["live", "rescore", "live"]
    assert list(scores["traces"]) == [0, 0, 5]
    assert list(scores["reward"].isna()) == [True, True, False]  # not the mean of what is set aside
    assert scores["reward"][2] == anew.summary.reward.mean == 0.2
    assert anew.use(1).summary.reward.mean is None
