"""Paired statistics against scipy and published tables."""

from __future__ import annotations

import itertools
import math
from statistics import mean

import numpy as np
import pytest
from scipy import stats

from vfnb.lab.intervals import pass_at_k
from vfnb.lab.paired import (
    bca,
    benjamini_hochberg,
    detectable,
    holm,
    mcnemar,
    newcombe,
    normalised,
    sign_flip,
    typical_values,
)

RANDOM = np.random.default_rng(7)


@pytest.mark.parametrize(("gained", "lost"), [(0, 0), (1, 0), (5, 5), (9, 1), (2, 12), (250, 300)])
def test_mcnemar_is_the_binomial_test(gained: int, lost: int) -> None:
    wanted = stats.binomtest(gained, gained + lost).pvalue if gained + lost else 1.0
    assert mcnemar(gained, lost) == pytest.approx(wanted, rel=1e-9)


def test_mcnemar_of_a_published_example() -> None:
    # Fagerland, Lydersen and Laake 2013, table 1: airway hyper-responsiveness, 1 against 7 discordant pairs
    assert mcnemar(1, 7) == pytest.approx(0.0703, abs=5e-5)


@pytest.mark.parametrize(
    ("table", "low", "high"),
    [
        ((20, 12, 2, 16), 0.0562, 0.3292),  # Newcombe 1998, table II, method 10
        ((36, 12, 2, 0), 0.0569, 0.3404),  # the same
        ((1, 1, 7, 12), -0.507, -0.026),  # Fagerland, Lydersen and Laake 2014, table IV
    ],
)
def test_newcombe_of_published_tables(table: tuple[int, int, int, int], low: float, high: float) -> None:
    assert newcombe(*table) == pytest.approx((low, high), abs=5e-4)


def test_newcombe_stays_within_its_range_and_turns_with_the_sign() -> None:
    for both, first, second, neither in itertools.product((0, 1, 9), repeat=4):
        if both + first + second + neither:
            low, high = newcombe(both, first, second, neither)
            assert -1 - 1e-9 <= low <= high <= 1 + 1e-9
            assert newcombe(both, second, first, neither) == pytest.approx((-high, -low))
    assert newcombe(10, 0, 0, 0)[1] > 0.1  # ten equal pairs do not say that there is no difference


@pytest.mark.parametrize("n", [2, 5, 8, 12])
def test_sign_flips_are_the_permutation_test(n: int) -> None:
    values = RANDOM.normal(0.4, 1, n)
    wanted = stats.permutation_test(
        (values, np.zeros(n)), lambda x, y: np.mean(x - y), permutation_type="samples", n_resamples=np.inf
    )
    assert sign_flip(values) == (pytest.approx(wanted.pvalue), True)


def test_sign_flips_with_ties_and_zeros_and_many() -> None:
    assert sign_flip([0.0, 0.0]) == (1.0, True)
    assert sign_flip([1, 1, 1, 0, -1]) == sign_flip([1, 1, 1, -1])
    # Differences of 1: the same as the exact sign test
    assert sign_flip([1] * 9 + [-1])[0] == pytest.approx(stats.binomtest(9, 10).pvalue)
    many = RANDOM.normal(0.2, 1, 60)
    p, exact = sign_flip(many)
    assert not exact and p == sign_flip(many)[0]
    assert p == pytest.approx(stats.ttest_1samp(many, 0).pvalue, abs=0.01)


def test_fishers_own_example() -> None:
    # The Design of Experiments, section 21: Darwin's Zea mays, in eighths of an inch; 1,726 of 2^15 patterns
    darwin = [49, -67, 8, 16, 6, 23, 28, 41, 14, 29, 56, 24, 75, 60, -48]
    assert sign_flip(darwin) == (pytest.approx(1726 / 2**15), True)


@pytest.mark.parametrize("n", [6, 9, 13])
def test_typical_values_are_what_the_test_does_not_reject(n: int) -> None:
    values = RANDOM.normal(0.3, 1, n)
    found = typical_values(values)
    assert found is not None
    for edge, inside in zip(found, (1e-6, -1e-6), strict=True):
        assert sign_flip(values - edge - inside)[0] > 0.05 - 1e-9
        assert sign_flip(values - edge + inside)[0] <= 0.05 + 1e-9


def test_typical_values_need_six_differences_and_cover() -> None:
    assert typical_values([0.1, 0.2, 0.3, 0.4, 0.5]) is None
    assert typical_values([float(i) for i in range(17)]) is None
    assert typical_values([0.1, 0.2, 0.3, 0.4, 0.5], level=0.9) == (0.1, 0.5)
    inside = 0
    for _ in range(400):
        low, high = typical_values(RANDOM.laplace(1, 1, 8)) or (0, 0)
        inside += low <= 1 <= high
    assert inside / 400 == pytest.approx(0.953, abs=0.03)  # 1 - 2 * 6 / 2^8


@pytest.mark.parametrize("n", [18, 60, 400])
def test_bca_is_scipys(n: int) -> None:
    values = RANDOM.exponential(1, n)
    wanted = stats.bootstrap((values,), np.mean, method="BCa", n_resamples=10_000, rng=1).confidence_interval
    width = wanted.high - wanted.low
    assert bca(values) == pytest.approx((wanted.low, wanted.high), abs=0.04 * width)
    assert bca(values) == bca(values)


def test_bca_of_equal_values_is_unknown() -> None:
    assert bca([0.5] * 30) is None and bca([1.0]) is None


@pytest.mark.parametrize("n", [5, 12, 50, 400])
def test_the_detectable_difference_has_the_power_that_it_names(n: int) -> None:
    values = RANDOM.normal(0, 2, n)
    found = detectable(values)
    assert found is not None
    shift = found / (np.std(values, ddof=1) / math.sqrt(n))
    edge = stats.t.ppf(0.975, n - 1)
    power = stats.nct.sf(edge, n - 1, shift) + stats.nct.cdf(-edge, n - 1, shift)
    assert power == pytest.approx(0.8, abs=0.03)
    assert detectable([0.1, 0.1]) is None and detectable([1.0]) is None


PUBLISHED = [  # Benjamini and Hochberg 1995, section 3.1
    *(0.0001, 0.0004, 0.0019, 0.0095, 0.0201, 0.0278, 0.0298, 0.0344, 0.0459),
    *(0.3240, 0.4262, 0.5719, 0.6528, 0.7590, 1.0),
]


def test_corrections_of_a_published_example() -> None:
    assert sum(p <= 0.05 for p in benjamini_hochberg(PUBLISHED)) == 4
    assert sum(p <= 0.05 for p in holm(PUBLISHED)) == 3
    assert benjamini_hochberg(PUBLISHED) == pytest.approx(list(stats.false_discovery_control(PUBLISHED)))


def test_corrections_keep_the_order_and_are_what_they_are_defined_as() -> None:
    ps = list(RANDOM.uniform(0, 0.2, 9))
    assert benjamini_hochberg(ps) == pytest.approx(list(stats.false_discovery_control(ps)))
    ordered = sorted(ps)
    steps = [max((9 - j) * ordered[j] for j in range(i + 1)) for i in range(9)]
    assert sorted(holm(ps)) == pytest.approx([min(1.0, step) for step in steps])
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])  # by hand
    assert holm([]) == [] and benjamini_hochberg([0.2]) == [0.2]


def test_normalised_intervals_are_those_of_the_difference() -> None:
    tasks = RANDOM.normal(0, 5, 30)
    a, b = tasks + RANDOM.normal(0, 1, 30), tasks + RANDOM.normal(1, 1, 30)
    halves = normalised([a, b])
    assert halves is not None
    paired = stats.ttest_rel(a, b).confidence_interval()
    assert halves == pytest.approx([(paired.high - paired.low) / 2 / math.sqrt(2)] * 2)
    assert normalised([a]) is None and normalised([[1.0], [2.0]]) is None


@pytest.mark.parametrize(("n", "correct"), [(10, 0), (10, 3), (10, 10), (200, 7)])
def test_pass_at_k_is_the_share_of_draws_that_pass(n: int, correct: int) -> None:
    for k in (1, 2, 5, 10):
        wanted = stats.hypergeom(n, correct, k).sf(0)
        assert pass_at_k(n, correct, k) == pytest.approx(wanted, abs=1e-12)
    draws = [float(any(i < correct for i in some)) for some in itertools.combinations(range(10), 3)]
    assert n != 10 or pass_at_k(n, correct, 3) == pytest.approx(mean(draws))
