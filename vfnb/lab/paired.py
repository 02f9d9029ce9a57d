"""Tests and intervals for paired data: the same tasks under two settings.

The unit is the task: a setting's rollouts of one task are averaged first, so that rollouts which share a task count
once. Each function names its source; the tests compare with scipy and with published tables.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import NormalDist

import numpy as np
from numpy.typing import NDArray

from vfnb.lab.intervals import t_quantile, variance, wilson

__all__ = [
    "EXACT_TASKS",
    "bca",
    "benjamini_hochberg",
    "detectable",
    "holm",
    "mcnemar",
    "newcombe",
    "normalised",
    "sign_flip",
    "typical_values",
]

EXACT_TASKS = 16
"""Up to this many differences all 2^n sign patterns or subsets are looked at."""
_DRAWS = 20_000
_RESAMPLES = 10_000
_CHUNK = 2_000_000  # random numbers made at once

Floats = NDArray[np.float64]


def mcnemar(gained: int, lost: int) -> float:
    """Two-sided exact p of McNemar's test: are gains and losses equally likely?

    `gained` and `lost` count the tasks that only the one or only the other setting passes. Under the hypothesis
    `gained` is binomial with n = gained + lost and 1/2, so p = min(1, 2 P(X <= min(gained, lost)))
    (McNemar 1947; Fagerland, Lydersen and Laake 2013, doi:10.1186/1471-2288-13-91).
    """
    n = gained + lost
    tail = sum(math.comb(n, k) for k in range(min(gained, lost) + 1))
    return min(1.0, float(2 * tail / 2**n))


def newcombe(both: int, first: int, second: int, neither: int, *, level: float = 0.95) -> tuple[float, float]:
    """Interval of the difference of two paired shares, `(both + first) / n - (both + second) / n`.

    Method 10 of Newcombe 1998 (Statistics in Medicine 17:2635): the Wilson intervals of both shares, squared and
    added with the correlation phi, which has a continuity correction if it is positive.
    """
    n = both + first + second + neither
    shares = (both + first) / n, (both + second) / n
    (low1, high1), (low2, high2) = (wilson(share, n, level=level) for share in shares)
    below = shares[0] - low1, high2 - shares[1]
    above = high1 - shares[0], shares[1] - low2
    cross = float(both * neither - first * second)
    cross = max(cross - n / 2, 0.0) if cross > 0 else cross
    sides = (both + first) * (second + neither) * (both + second) * (first + neither)
    phi = cross / math.sqrt(sides) if sides else 0.0
    difference = shares[0] - shares[1]
    return difference - _joined(*below, phi), difference + _joined(*above, phi)


def _joined(one: float, other: float, phi: float) -> float:
    return math.sqrt(max(0.0, one * one - 2 * phi * one * other + other * other))


def sign_flip(differences: Sequence[float], *, seed: int = 0) -> tuple[float, bool]:
    """Two-sided p of the paired permutation test, and whether it is exact.

    If the settings do not differ, each task's difference is as likely with the other sign. p is the share of sign
    patterns whose sum is at least as far from 0 (Fisher 1935, The Design of Experiments, section 21). Up to
    20 differences other than 0 all patterns are looked at; beyond, 20,000 random ones, with
    p = (hits + 1) / (draws + 1) (Phipson and Smyth 2010, doi:10.2202/1544-6115.1585).
    """
    values = np.asarray([value for value in differences if value], dtype=np.float64)
    if not len(values):
        return 1.0, True
    far = abs(values.sum()) * (1 - 1e-12) - 1e-300
    if len(values) <= 20:
        sums = values[:1]  # the first sign stays: the patterns come in pairs
        for value in values[1:]:
            sums = np.concatenate([sums + value, sums - value])
        return float((np.abs(sums) >= far).mean()), True
    random = np.random.default_rng(seed)
    hits, left = 0, _DRAWS
    while left:
        rows = min(left, max(1, _CHUNK // len(values)))
        signs = random.integers(0, 2, size=(rows, len(values)), dtype=np.int8) * 2.0 - 1.0
        hits += int((np.abs(signs @ values) >= far).sum())
        left -= rows
    return (hits + 1) / (_DRAWS + 1), False


def typical_values(differences: Sequence[float], *, level: float = 0.95) -> tuple[float, float] | None:
    """Exact interval of the mean difference: all shifts that the sign-flip test does not reject.

    The means of all non-empty subsets of n differences cut the line into 2^n pieces, each of which holds the centre
    of a symmetric distribution with the same chance (Hartigan 1969, Using subsample values as typical values,
    JASA 64:1303). None if n is too small for the level (fewer than 6 for 95 %) or above `EXACT_TASKS`.
    """
    n = len(differences)
    cut = math.floor((1 - level) / 2 * 2**n + 1e-9)
    if cut < 1 or n > EXACT_TASKS:
        return None
    sums, counts = np.zeros(1), np.zeros(1)
    for value in differences:
        sums, counts = np.concatenate([sums, sums + value]), np.concatenate([counts, counts + 1])
    means = np.sort(sums[1:] / counts[1:])
    return float(means[cut - 1]), float(means[-cut])


def bca(values: Sequence[float], *, level: float = 0.95, seed: int = 0) -> tuple[float, float] | None:
    """Bias-corrected and accelerated bootstrap interval of a mean, 10,000 resamples of the tasks.

    Efron 1987 (JASA 82:171): the percentiles are moved by the bias z0 of the bootstrap distribution and by the
    acceleration of the jackknife. None if all values are equal: then no resample differs.
    """
    data = np.asarray(values, dtype=np.float64)
    n = len(data)
    if n < 2 or np.ptp(data) == 0:
        return None
    random = np.random.default_rng(seed)
    step = max(1, _CHUNK // n)
    sizes = [min(step, _RESAMPLES - start) for start in range(0, _RESAMPLES, step)]
    means = np.concatenate([data[random.integers(0, n, size=(rows, n))].mean(axis=1) for rows in sizes])
    normal = NormalDist()
    mean = data.mean()
    # A resample that gives the mean itself counts half.
    below = (np.sum(means < mean - 1e-12) + np.sum(means <= mean + 1e-12)) / (2 * _RESAMPLES)
    bias = normal.inv_cdf(min(max(below, 1 / _RESAMPLES), 1 - 1 / _RESAMPLES))
    left = data - mean  # the jackknife's influence values, up to a factor that cancels
    skew = (left**3).sum() / (6 * (left**2).sum() ** 1.5)

    def place(share: float) -> float:
        z = bias + normal.inv_cdf(share)
        return float(np.quantile(means, normal.cdf(bias + z / (1 - skew * z))))

    return place((1 - level) / 2), place((1 + level) / 2)


def detectable(differences: Sequence[float], *, alpha: float = 0.05, power: float = 0.8) -> float | None:
    """Smallest true mean difference that a two-sided paired test would find with this power.

    (t[1 - alpha/2] + t[power]) * s / sqrt(n), both quantiles with n - 1 degrees of freedom (Bloom 1995, Minimum
    detectable effects, Evaluation Review 19:547). None for fewer than two differences, or if all are equal.
    """
    spread = variance(differences)
    if not spread or min(differences) == max(differences):
        return None
    n = len(differences)
    reach = t_quantile(1 - alpha / 2, n - 1) + t_quantile(power, n - 1)
    return reach * math.sqrt(spread / n)


def holm(ps: Sequence[float]) -> list[float]:
    """p values adjusted so that the chance of any false finding stays below the level: step-down, Holm 1979."""
    order = sorted(range(len(ps)), key=lambda place: ps[place])
    found = [0.0] * len(ps)
    highest = 0.0
    for rank, place in enumerate(order):
        highest = max(highest, min(1.0, (len(ps) - rank) * ps[place]))
        found[place] = highest
    return found


def benjamini_hochberg(ps: Sequence[float]) -> list[float]:
    """p values adjusted so that the expected share of false findings stays below the level.

    Step-up, Benjamini and Hochberg 1995 (JRSS B 57:289).
    """
    order = sorted(range(len(ps)), key=lambda place: -ps[place])
    found = [0.0] * len(ps)
    lowest = 1.0
    for down, place in enumerate(order):
        lowest = min(lowest, len(ps) / (len(ps) - down) * ps[place])
        found[place] = lowest
    return found


def normalised(means: Sequence[Sequence[float]], *, level: float = 0.95) -> list[float] | None:
    """Half widths of intervals that leave out what all settings share: how hard each task is.

    Each task's own mean over settings is taken out of its values, and the t interval of each setting widened by
    sqrt(J / (J - 1)) for J settings (Cousineau 2005, corrected by Morey 2008, both in Tutorials in Quantitative
    Methods for Psychology, 1:42 and 4:61). For two settings the half width is that of
    their difference divided by sqrt(2).

    Args:
        means: per setting, the mean of each task in the same order.

    Returns:
        A half width per setting; None for fewer than two settings or tasks.
    """
    data = np.asarray(means, dtype=np.float64)
    if data.ndim != 2 or min(data.shape) < 2:
        return None
    settings, tasks = data.shape
    own = data - data.mean(axis=0)
    spread = own.std(axis=1, ddof=1) * math.sqrt(settings / (settings - 1) / tasks)
    return [float(half) for half in spread * t_quantile(0.5 + level / 2, tasks - 1)]
