"""Labels in frames and conditions; scores held against them, checked by published tables."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.bigrun import write_run
from support.html_rules import check_bundle

import vfnb as vf
from vfnb.errors import ConfigError, TraceError
from vfnb.lab.calibration import Calibration, calibrate, kappa


@pytest.fixture
def run(tmp_path: Path) -> vf.Run:
    asyncio.run(write_run(tmp_path / "run", 12, 4))
    return vf.load(tmp_path / "run")


def test_cohens_own_example() -> None:
    # Cohen 1960, table 1 (proportions of 200): kappa = .492 by his formula; chance .41, agreement .70
    found = kappa([[88, 14, 18], [10, 40, 10], [2, 6, 12]])
    assert (found.agreement, found.chance) == (pytest.approx(0.70), pytest.approx(0.41))
    assert found.value == pytest.approx(0.2900 / 0.5900)


def test_the_error_of_two_by_two() -> None:
    # 20 and 15 agreements of 50: po = .7, pe = .5, kappa = .4. The large-sample variance of Fleiss, Cohen & Everitt
    # in the form of Bishop et al. 1975 (equation 11.4-3), with its four sums t1 to t4.
    table = [[20, 5], [10, 15]]
    found = kappa(table)
    p = [[cell / 50 for cell in row] for row in table]
    rows, columns = [0.5, 0.5], [0.6, 0.4]
    t1, t2 = 0.7, 0.5
    t3 = sum(p[i][i] * (rows[i] + columns[i]) for i in range(2))
    t4 = sum(p[i][j] * (rows[j] + columns[i]) ** 2 for i in range(2) for j in range(2))
    first = t1 * (1 - t1) / (1 - t2) ** 2
    second = 2 * (1 - t1) * (2 * t1 * t2 - t3) / (1 - t2) ** 3
    third = (1 - t1) ** 2 * (t4 - 4 * t2**2) / (1 - t2) ** 4
    assert found.value == pytest.approx(0.4)
    assert found.se == pytest.approx(((first + second + third) / 50) ** 0.5)


def test_weights_and_single_answers() -> None:
    # by hand: with weights 1, .75, 0 by distance, po = .875 and pe = .6875 of this table of 8
    found = kappa([[2, 1, 0], [0, 2, 1], [0, 0, 2]], weights="quadratic")
    po = (2 + 2 + 2 + 0.75 + 0.75) / 8
    rows, columns = [3, 3, 2], [2, 3, 3]
    weight = [[1, 0.75, 0], [0.75, 1, 0.75], [0, 0.75, 1]]
    pe = sum(rows[i] * columns[j] * weight[i][j] for i in range(3) for j in range(3)) / 64
    assert found.value == pytest.approx((po - pe) / (1 - pe))
    assert kappa([[5, 0], [0, 0]]).value is None
    assert kappa([[3, 0], [0, 4]]).value == 1.0


def rewards_of(values: list[float], name: str = "correct") -> pd.DataFrame:
    return pd.DataFrame({name: values}, index=pd.Index([f"t{i}" for i in range(len(values))], name="trace"))


def labels_of(values: list[Any]) -> pd.DataFrame:
    return pd.DataFrame({"trace": [f"t{i}" for i in range(len(values))], "label": "good", "value": values})


def test_thresholds() -> None:
    made = calibrate(
        rewards_of([0.1, 0.4, 0.6, 0.9]), labels_of([False, True, True, True]), "correct", "good", None
    )
    assert isinstance(made, Calibration)
    assert made.threshold == 0.5
    assert made.confusion.to_numpy().tolist() == [[1, 0], [1, 2]]
    assert (made.agreement, made.precision, made.recall) == (0.75, 1.0, pytest.approx(2 / 3))
    table = made.thresholds().set_index("threshold")
    assert table["agreement"].idxmax() == 0.4
    assert table.loc[0.4, "kappa"] == 1.0
    assert list(made.disagreements()["trace"]) == ["t1"]


def test_numbers_as_they_are() -> None:
    made = calibrate(rewards_of([1, 2, 3, 3]), labels_of([1, 2, 2, 3]), "correct", "good", None)
    assert made.threshold is None
    assert made.confusion.to_numpy().tolist() == [[1, 0, 0], [0, 1, 1], [0, 0, 1]]
    assert made.agreement == 0.75
    assert made.weighted_kappa is not None and made.kappa is not None and made.weighted_kappa > made.kappa
    with pytest.raises(ConfigError, match="more than yes and no"):
        made.thresholds()
    cut = calibrate(rewards_of([1, 2, 3, 3]), labels_of([1, 2, 2, 3]), "correct", "good", 3)
    assert cut.confusion.to_numpy().tolist() == [[2, 1], [0, 1]]


def test_labels_are_stored_and_shown(run: vf.Run) -> None:
    traces = list(run.traces)
    for trace in traces[:6]:
        trace.label("good", trace.rewards["correct"].value == 1.0)
    traces[0].label("good", False)
    traces[0].label("good", True)
    traces[1].label("stars", 4)
    traces[2].label("stars", 2.5)
    traces[3].label("why", "it's <short>")
    traces[4].label("why", "long")
    traces[4].label("why", None)
    traces[5].tag("odd")
    traces[5].note("look\nhere")
    again = vf.load(run.dir)
    assert again.traces[0].labels == {"good": True}
    assert again.traces[4].labels == {"good": traces[4].rewards["correct"].value == 1.0}
    table = again.frame("traces")
    kinds = {
        name: str(table[name].dtype) for name in ("label_good", "label_stars", "label_why", "notes", "tags")
    }
    assert kinds == {
        "label_good": "boolean",
        "label_stars": "float64",
        "label_why": "string",
        "notes": "string",
        "tags": "string",
    }
    assert bool(table["label_good"][0]) is True
    assert table["label_good"].isna().sum() == 6
    assert table["label_why"][3] == "it's <short>"
    assert pd.isna(table["label_why"][4])
    assert table["notes"][5] == "look\nhere"
    assert len(again.frame("traces", where="label_stars > 3")) == 1
    assert len(again.frame("traces", columns=["trace"], where="label_good AND tags = 'odd'")) <= 1
    assert again.rescore({"x": lambda: 1.0}, where="label_good IS NOT NULL").scored == 6
    with pytest.raises(ConfigError, match="no column 'label_god'"):
        again.frame("traces", where="label_god")
    listed = again.labels()
    assert list(listed.columns) == ["trace", "task", "rollout", "label", "value", "at"]
    assert len(listed[listed["label"] == "good"]) == 6
    assert list(listed[listed["label"] == "why"]["value"]) == ["it's <short>"]
    assert "labels: good True" in str(again.traces[0]._repr_mimebundle_()["text/plain"])
    assert vf.Trace.model_validate(again.traces[0].model_dump()).labels == {"good": True}


def test_labels_that_cannot_be(run: vf.Run) -> None:
    trace = run.traces[0]
    with pytest.raises(TraceError, match="letters, digits and underscores"):
        trace.label("not good", True)
    with pytest.raises(TraceError, match="give True, False, a number or a text"):
        trace.label("good", [1])  # type: ignore[arg-type]
    with pytest.raises(TraceError, match="finite"):
        trace.label("good", float("nan"))
    with pytest.raises(TraceError, match="64 bits"):
        trace.label("good", 10**40)
    assert len(run.labels()) == 0


def test_a_run_is_calibrated(run: vf.Run) -> None:
    for trace in run.traces[:8]:
        trace.label("good", trace.rewards["correct"].value == 1.0 or trace.task.idx == 0)
    made = run.calibrate("correct", "good")
    wrong = sum(trace.rewards["correct"].value != 1.0 for trace in run.traces[:8] if trace.task.idx == 0)
    assert (made.n, made.unlabelled, made.unscored) == (8, 4, 0)
    assert made.agreement == pytest.approx(1 - wrong / 8)
    assert len(made.disagreements()) == wrong
    check_bundle(made._repr_mimebundle_())
    assert "4 scored traces have no such label" in str(made)
    assert repr(made).startswith("Calibration(correct against good")
    with pytest.raises(ConfigError, match="no score 'corect'; did you mean 'correct'"):
        run.calibrate("corect", "good")
    with pytest.raises(ConfigError, match="no trace has the label 'god'; did you mean 'good'"):
        run.calibrate("correct", "god")
    run.traces[0].label("why", "text")
    with pytest.raises(ConfigError, match="has texts such as 'text'"):
        run.calibrate("correct", "why")


def test_labels_given_while_a_rollout_runs(tmp_path: Path) -> None:
    class One(vf.Task):
        @vf.reward
        def seen(self, trace: vf.Trace) -> float:
            trace.label("from_reward", 3)
            return 1.0

    run = vf.evaluate(
        [One(vf.TaskData(prompt="x"))], model=vf.Scripted(["y"], cycle=True), dir=tmp_path / "run"
    ).wait(quiet=True)
    assert list(run.labels()["value"]) == [3]
    assert run.frame("traces")["label_from_reward"][0] == 3
