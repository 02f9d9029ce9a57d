"""The reward lab: its arithmetic against plain loops and scipy, and the widget from Python's side."""

from __future__ import annotations

import itertools
import json
import time
from pathlib import Path

import numpy as np
import pytest
from scipy import stats
from support.html_rules import check_bundle
from support.wordy import WordyTaskset, speaker

import vfnb as vf
from vfnb.lab.reward_math import Scores, correlations, histogram, outcome, ranks, suspects
from vfnb.lab.widgets.base import WIDGET


def made(tasks: int, rollouts: int, seed: int = 0) -> Scores:
    """Random scores; the first reward is 0 or 1, so that there are ties."""
    dice = np.random.default_rng(seed)
    size = tasks * rollouts
    values = dice.random((size, 3))
    values[:, 0] = values[:, 0].round()
    weights = np.array([1.0, 0.5, 0.2])
    return Scores(
        ids=[f"t{row}" for row in range(size)],
        tasks=[f"task {row % tasks}" for row in range(size)],
        rollouts=[row // tasks for row in range(size)],
        reward=(values * weights).sum(1),
        names=["a", "b", "c"],
        weights=weights,
        values=values,
        each=np.tile(weights, (size, 1)),
        metrics={"tokens_out": dice.random(size) * 100},
    )


def test_the_stored_weights_give_the_stored_rewards() -> None:
    scores = made(6, 5)
    same = outcome(scores, {}, {})
    assert np.allclose(same.reward, scores.reward)
    assert same.flipped == 0
    assert same.flips == []


def test_flips_are_pairs_of_a_task_in_another_order() -> None:
    scores = made(7, 6)
    found = outcome(scores, {"b": 3.0}, {"c": 0.5})
    expected = scores.values[:, 0] + 3 * scores.values[:, 1] + 0.2 * (scores.values[:, 2] >= 0.5)
    assert np.allclose(found.reward, expected)
    count = np.zeros(len(scores.ids), int)
    pairs = 0
    for i, j in itertools.combinations(range(len(scores.ids)), 2):
        if scores.tasks[i] == scores.tasks[j]:
            pairs += 1
            turned = np.sign(scores.reward[i] - scores.reward[j]) * np.sign(expected[i] - expected[j]) < 0
            count[[i, j]] += turned
    assert found.pairs == pairs
    assert found.flipped == count.sum() // 2
    assert {flip.row: flip.pairs for flip in found.flips} == {row: n for row, n in enumerate(count) if n}
    some = found.flips[0]
    rows = [row for row, task in enumerate(scores.tasks) if task == scores.tasks[some.row]]
    places = stats.rankdata(-expected[rows])
    assert some.rank_after == places[rows.index(some.row)]


def test_ranks_and_correlations_are_those_of_scipy() -> None:
    dice = np.random.default_rng(1)
    a, b = dice.integers(0, 5, 80).astype(float), dice.random(80)
    b[:3] = np.nan
    assert np.allclose(ranks(a), stats.rankdata(a))
    found = correlations({"a": a, "b": b, "flat": np.ones(80)})
    assert found[0, 1] == pytest.approx(stats.spearmanr(a[3:], b[3:]).statistic)
    assert found[0, 0] == pytest.approx(1)
    assert np.isnan(found[0, 2])


def test_the_rules_for_suspects() -> None:
    scores = made(20, 5)
    assert suspects(scores, {}, {}) == []
    size = len(scores.ids)
    length = np.arange(size, dtype=float)
    values = np.stack([length / size, 1 - length / size, np.ones(size)], 1)
    gamed = Scores(
        scores.ids, scores.tasks, scores.rollouts, (values * scores.weights).sum(1), scores.names,
        scores.weights, values, scores.each, {"tokens_out": length},
    )  # fmt: skip
    found = {(one.name, one.why.split(":")[0]) for one in suspects(gamed, {}, {})}
    assert found == {
        ("a", "length"),
        ("a", "against the rest"),
        ("b", "against the rest"),
        ("c", "nothing to learn"),
    }
    gamed.values[7, 0] = 50.0
    assert [one.rows[0] for one in suspects(gamed, {}, {}) if one.why.startswith("far out")] == [7]
    assert suspects(gamed, {"a": 0.0, "b": 0.0}, {})[0].name == "c"


def test_a_weight_change_over_10000_traces_is_quick() -> None:
    scores = made(1250, 8)
    outcome(scores, {}, {})
    begin = time.thread_time()
    for weight in (0.1, 0.7, 2.0):
        after = outcome(scores, {"b": weight}, {"c": 0.5})
        histogram(scores.reward, after.reward)
        suspects(scores, {"b": weight}, {})
    assert (time.thread_time() - begin) / 3 < 0.2
    crowded = Scores(
        scores.ids, ["one"] * 10_000, scores.rollouts, scores.reward, scores.names, scores.weights,
        scores.values, scores.each,
    )  # fmt: skip
    assert outcome(crowded, {"b": 2.0}, {}).flipped > 0


@pytest.fixture
def run(tmp_path: Path) -> vf.Run:
    return vf.evaluate(WordyTaskset(), model=speaker(fail=0.1), rollouts=4, dir=tmp_path / "wordy").wait(
        quiet=True
    )


def test_a_slider_changes_the_distribution_and_the_code_line(run: vf.Run) -> None:
    lab = run.reward_lab()
    assert lab.signals["thorough"]["weight"] == 0.5
    assert lab.result["count"] + lab.result["left_out"] == 32
    assert lab.result["left_out"] == int(run.rewards["reward"].isna().sum())
    assert lab.result["before"] == lab.result["after"]
    assert lab.code == ""
    lab.weights = {"thorough": -1.0, "polite": 0.2}
    assert lab.result["before"] != lab.result["after"]
    assert lab.result["flipped"] > 0
    assert lab.code == "run.rescore(weights={'thorough': -1.0})"
    assert lab.result["flips"][0]["task"].startswith("question ")
    json.dumps(lab.result, allow_nan=False)
    assert {"reward", "correct", "words", "tokens_out"} <= set(lab.result["names"])


def test_the_code_line_gives_what_the_lab_shows(run: vf.Run) -> None:
    lab = run.reward_lab()
    lab.weights = {"correct": 2.0}
    lab.thresholds = {"thorough": 0.3}
    rescored = eval(lab.code, {"run": run})
    new = run.use(rescored.version).rewards["reward"].dropna()
    assert new.mean() == pytest.approx(lab.result["means"][1], abs=1e-4)
    assert sum(lab.result["after"]) == len(new)
    lab.asked += 1
    assert "stored as version" in lab.stored
    again = run.use(int(lab.stored.split("version ")[1].split(";")[0])).rewards["reward"]
    assert np.allclose(again.dropna(), new)


def test_what_cannot_be_is_told_in_the_view(run: vf.Run) -> None:
    lab = run.reward_lab()
    lab.weights = {"nothing": 1.0}
    assert "there is no reward 'nothing'" in lab.result["problem"]
    lab.asked += 1
    assert lab.stored.startswith("ConfigError")


def test_the_twin_tells_the_same(run: vf.Run) -> None:
    lab = run.reward_lab()
    lab.weights = {"thorough": -2.0}
    data, _ = lab._repr_mimebundle_()
    assert data[WIDGET]
    check_bundle(data)
    assert lab.code in data["text/plain"]
    assert "thorough: weight 0.5 → -2.0" in data["text/plain"]
    assert len(repr(lab)) < 120


def test_a_run_without_rewards_has_a_lab(tmp_path: Path) -> None:
    class Plain(vf.Taskset[vf.Task[vf.TaskData], vf.TasksetConfig]):
        def load(self) -> list[vf.Task[vf.TaskData]]:
            return [vf.Task(vf.TaskData(prompt="Hello?"))]

    run = vf.evaluate(Plain(), model=speaker(), dir=tmp_path / "plain").wait(quiet=True)
    lab = run.reward_lab()
    assert lab.result["count"] == 0
    check_bundle(lab._repr_mimebundle_()[0])


def test_a_flipped_trace_opens_below(run: vf.Run) -> None:
    lab = run.reward_lab()
    lab.weights = {"thorough": -2.0}
    lab.opened = lab.result["flips"][0]["id"]
    assert lab.graph["id"] == lab.opened
    lab.opened = ""
    assert lab.graph == {}
