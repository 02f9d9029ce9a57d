"""Estimates against scipy and closed forms; errors apart from zeros."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy import stats as sp
from support.html_rules import check_bundle
from support.views import HOSTILE, rows

from vfnb.lab.intervals import difference, estimate, pass_at_k, standard_error, t_quantile, variance, wilson
from vfnb.lab.rows import Row
from vfnb.lab.stats import per_task, summarise
from vfnb.lab.tables import task_table


@pytest.mark.parametrize("df", [1, 2, 3, 7.5, 30, 1000, 100_000])
@pytest.mark.parametrize("p", [0.6, 0.9, 0.975, 0.995, 0.99999])
def test_t_quantile_equals_scipy(p: float, df: float) -> None:
    assert t_quantile(p, df) == pytest.approx(sp.t.ppf(p, df), rel=1e-9)


@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
@pytest.mark.parametrize(("passed", "n"), [(0, 1), (0, 10), (3, 10), (10, 10), (250, 1000)])
def test_wilson_equals_scipy(passed: int, n: int, level: float) -> None:
    theirs = sp.binomtest(passed, n).proportion_ci(confidence_level=level, method="wilson")
    assert wilson(passed / n, n, level=level) == pytest.approx((theirs.low, theirs.high), abs=1e-12)


def test_one_rollout_per_task_is_the_classic_mean() -> None:
    values = list(np.random.default_rng(0).normal(2, 1, 25))
    found = estimate(values, level=0.9)
    low, high = sp.t.interval(0.9, 24, loc=np.mean(values), scale=sp.sem(values))
    assert found.se == pytest.approx(sp.sem(values))
    assert (found.low, found.high) == pytest.approx((low, high))
    assert variance(values) == pytest.approx(np.var(values, ddof=1))
    assert found.method == "t"


def test_balanced_clusters_equal_the_error_of_their_means() -> None:
    table = np.random.default_rng(1).normal(size=(12, 5)) + np.arange(12)[:, None]
    clusters = np.repeat(np.arange(12), 5)
    found = estimate(list(table.ravel()), list(clusters))
    assert found.se == pytest.approx(sp.sem(table.mean(axis=1)))
    low, high = sp.t.interval(0.95, 11, loc=table.mean(), scale=found.se)
    assert (found.low, found.high) == pytest.approx((low, high))
    assert found.se > 2 * sp.sem(table.ravel())  # treating the rollouts as independent would mislead


def test_unbalanced_clusters_by_the_formula() -> None:
    values, clusters = [1.0, 2.0, 4.0, 8.0, 9.0], ["a", "a", "b", "c", "c"]
    d = np.array(values) - np.mean(values)
    sums = [d[0] + d[1], d[2], d[3] + d[4]]
    assert standard_error(values, clusters) == pytest.approx(math.sqrt(3 / 2 * sum(s * s for s in sums)) / 5)


def test_a_single_task_uses_its_rollouts() -> None:
    found = estimate([0.1, 0.5, 0.9], ["a"] * 3)
    low, high = sp.t.interval(0.95, 2, loc=0.5, scale=sp.sem([0.1, 0.5, 0.9]))
    assert (found.low, found.high) == pytest.approx((low, high))


def test_zero_one_rewards_get_wilson_at_the_effective_count() -> None:
    single = estimate([1.0] * 7 + [0.0] * 3)
    theirs = sp.binomtest(7, 10).proportion_ci(method="wilson")
    assert (single.low, single.high) == pytest.approx((theirs.low, theirs.high))
    # Rollouts of a task that always agree tell as much as one of them.
    same = estimate([1.0] * 28 + [0.0] * 12, [i // 4 for i in range(40)])
    assert same.low is not None
    assert single.low is not None
    assert same.low == pytest.approx(single.low, abs=0.02)
    perfect = estimate([1.0] * 40, [i // 4 for i in range(40)])
    assert perfect.low == pytest.approx(sp.binomtest(10, 10).proportion_ci(method="wilson").low)
    assert perfect.high == 1.0


def test_too_few_values_have_no_interval() -> None:
    assert estimate([]).mean is None
    one = estimate([0.5])
    assert (one.mean, one.se, one.low, one.method) == (0.5, None, None, "")


@pytest.mark.parametrize(
    ("n", "correct", "k"), [(1, 0, 1), (5, 2, 1), (10, 3, 4), (200, 7, 100), (8, 8, 8), (6, 1, 6)]
)
def test_pass_at_k_equals_the_binomial_form(n: int, correct: int, k: int) -> None:
    assert pass_at_k(n, correct, k) == pytest.approx(1 - math.comb(n - correct, k) / math.comb(n, k))


def test_pass_at_k_refuses_what_it_cannot_know() -> None:
    with pytest.raises(ValueError, match="k <= n"):
        pass_at_k(3, 1, 4)


def test_errors_are_not_zeros() -> None:
    summary = summarise(rows(), planned=20)
    assert (summary.n, summary.finished, summary.running, summary.scored, summary.failed) == (
        20,
        16,
        4,
        12,
        4,
    )
    assert summary.reward.mean == pytest.approx(6 / 12)
    assert summary.left_out == "4 errors, 4 unfinished"
    assert not summary.complete
    assert [(e.type, e.boundary, e.count) for e in summary.errors] == [("UpstreamConnection", "model", 4)]
    assert summary.errors[0].message.startswith("cannot connect")
    assert [(s.name, s.n, s.missing) for s in summary.rewards] == [("exact", 12, 0)]
    assert summary.metrics[0].mean == pytest.approx(4.0)
    assert summary.task_variance == pytest.approx(1 / 3)
    assert (summary.tokens_in, summary.tokens_out) == (1600, 160)
    assert summary.cost == pytest.approx(0.016)


def test_pass_at_k_of_a_run_goes_to_the_rollouts_there_are() -> None:
    found = {p.k: p for p in summarise(rows(4, 6)).pass_at_k}
    assert set(found) == {1, 2, 4}  # five scored rollouts a task
    chances = [1 - math.comb(5 - c, 2) / math.comb(5, 2) for c in (2, 3, 2, 3)]
    assert found[2].value == pytest.approx(np.mean(chances))
    assert found[2].se == pytest.approx(sp.sem(chances))


def test_every_outcome_is_counted_once() -> None:
    states = ["completed", "stopped", "error", "cancelled", "dropped", None]
    some = [Row(task="a", end_state=state, reward=1.0 if state == "completed" else None) for state in states]
    summary = summarise(some)
    counts = (
        summary.scored,
        summary.unscored,
        summary.failed,
        summary.cancelled,
        summary.dropped,
        summary.running,
    )
    assert counts == (1, 1, 1, 1, 1, 1)
    assert summary.left_out == "1 error, 1 cancelled, 1 dropped, 1 unscored, 1 unfinished"
    assert summary.reward.n == 1


def test_skipped_scoring_counts_and_is_said() -> None:
    some = [Row(task="a", end_state="stopped", stop="too_long", reward=0.0, skipped=True), *rows(1, 2)]
    summary = summarise(some)
    assert summary.skipped == 1
    assert summary.stops == {"too_long": 1}
    assert "1 scored 0 by a stop" in str(summary)


def test_per_task() -> None:
    stats = per_task(rows())
    assert [stat.task for stat in stats] == ["t0", "t1", "t2", "t3"]
    assert [(stat.n, stat.scored, stat.errors) for stat in stats] == [(4, 3, 1)] * 4
    assert [stat.pass_rate for stat in stats] == pytest.approx([1 / 3, 2 / 3, 1 / 3, 2 / 3])
    assert stats[0].variance == pytest.approx(np.var([0, 1, 0], ddof=1))


def test_the_summary_shows_itself() -> None:
    summary = summarise(rows(), planned=20)
    assert repr(summary) == "Summary(16 of 20 finished, reward 0.5 ± 0.096, 4 failed)"
    bundle = summary._repr_mimebundle_()
    check_bundle(bundle)
    for text in (bundle["text/plain"], bundle["text/html"]):
        assert "4 of 20 rollouts failed" in text
        assert "UpstreamConnection at model: cannot connect" in text
        assert "pass@2" in text
        assert "left out" in text
    assert json.loads(json.dumps(summary.to_dict()))["left_out"] == "4 errors, 4 unfinished"


def test_an_empty_summary_and_hostile_names() -> None:
    assert "no reward" in str(summarise([], planned=3))
    bad = [Row(task=HOSTILE, end_state="completed", reward=math.nan, metrics={HOSTILE: 1e300}, stop=HOSTILE)]
    bad.append(Row(task="b", end_state="error", error="Boom", message=HOSTILE * 1000))
    summary = summarise(bad)
    assert summary.unscored == 1
    check_bundle(summary._repr_mimebundle_())


def test_the_table_of_tasks_has_typed_columns() -> None:
    table = task_table([*rows(2), Row(task="t9", end_state="error", error="Boom")])
    assert list(table["task"]) == ["t0", "t1", "t9"]
    assert list(table["errors"]) == [1, 1, 1]
    assert table["mean"].isna().tolist() == [False, False, True]
    assert str(table.dtypes["pass_rate"]) == "Float64"
    assert len(task_table([])) == 0
    late = task_table(Row(task=f"t{idx}", idx=idx) for idx in (2, 0, 1))
    assert list(late["task"]) == ["t0", "t1", "t2"]  # in the order of the taskset, not in that of their ends


def test_a_difference_is_no_share() -> None:
    changes = [0.0] * 19 + [1.0]
    up, down = estimate(changes, shares=False), estimate([-change for change in changes], shares=False)
    assert up.low is not None and up.low < 0 < (up.high or 0)
    assert (down.low, down.high) == (pytest.approx(-(up.high or 0)), pytest.approx(-up.low))
    assert estimate(changes).method == "wilson"


def test_numbers_at_the_end_of_the_floats_have_a_mean() -> None:
    found = estimate([1e308, 1e308, 1e308])
    assert found.mean == pytest.approx(1e308) and found.se == 0.0
    assert estimate([1e308, -1e308, 1e308]).se == float("inf")


def test_the_difference_of_two_means_is_that_of_welch() -> None:
    left, right = [1.0, 0.0, 0.5, 1.0, 0.75], [0.0, 0.25, 0.0, 0.5, 0.0, 0.0, 1.0]
    found = difference(left, right)
    known = sp.ttest_ind(left, right, equal_var=False)
    low, high = known.confidence_interval(0.95)
    assert found.method == "welch" and found.n == 12
    assert found.mean == pytest.approx(np.mean(left) - np.mean(right))
    assert found.se == pytest.approx(found.mean / known.statistic)
    assert (found.low, found.high) == (pytest.approx(low), pytest.approx(high))
    assert difference([1.0], right).low is None and difference([], right).mean is None
