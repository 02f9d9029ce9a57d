"""Estimates with their uncertainty, in plain Python: means, clustered standard errors, intervals, pass@k."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

__all__ = [
    "Estimate",
    "difference",
    "estimate",
    "mean_of",
    "pass_at_k",
    "standard_error",
    "t_quantile",
    "total",
    "variance",
    "wilson",
]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A mean with its standard error and confidence interval; None where the data cannot tell."""

    mean: float | None
    se: float | None
    low: float | None
    high: float | None
    n: int
    """How many values the mean is over."""
    clusters: int
    """How many tasks they come from."""
    method: str
    """`t`, `wilson` or `welch`; `""` if there is no interval."""


def total(values: Iterable[float]) -> float:
    """The exact sum, infinite where it is beyond what a float holds."""
    numbers = list(values)
    try:
        return math.fsum(numbers)
    except OverflowError:
        return sum(numbers)


def mean_of(values: Sequence[float]) -> float:
    """The mean, also of values whose sum no float holds; there is at least one."""
    try:
        return math.fsum(values) / len(values)
    except OverflowError:
        return math.fsum(value / len(values) for value in values)


def variance(values: Sequence[float]) -> float | None:
    """Sample variance (divisor n - 1); None for fewer than two values."""
    if len(values) < 2:
        return None
    mean = mean_of(values)
    return total(part * part for part in (value - mean for value in values)) / (len(values) - 1)


def standard_error(values: Sequence[float], clusters: Sequence[Hashable] | None = None) -> float | None:
    """Standard error of the mean, clustered: rollouts of one task are not independent.

    se = sqrt(G / (G - 1) * sum_g (sum_{i in g} (x_i - mean))^2) / n, with G clusters and n values. This is
    the cluster-robust estimator (Miller, "Adding Error Bars to Evals", 2024, arXiv:2411.00640) with the usual
    small-sample factor, so with one value per cluster it is s / sqrt(n), and with equal clusters it
    is the standard error of the cluster means. With a single cluster it is s / sqrt(n) within that task.

    Returns None for fewer than two values.
    """
    n = len(values)
    if n < 2:
        return None
    mean = mean_of(values)
    if n > 1 and max(values) == min(values):
        return 0.0  # the mean of equal numbers may differ from them in its last digit
    sums: dict[Hashable, float] = defaultdict(float)
    for value, cluster in zip(values, clusters if clusters is not None else range(n), strict=True):
        sums[cluster] += value - mean
    groups = len(sums)
    if groups == 1:
        spread = variance(values)
        return None if spread is None else math.sqrt(spread / n)
    return math.sqrt(groups / (groups - 1) * total(part * part for part in sums.values())) / n


def estimate(
    values: Sequence[float],
    clusters: Sequence[Hashable] | None = None,
    *,
    level: float = 0.95,
    shares: bool = True,
) -> Estimate:
    """Mean, clustered standard error and interval of `values`.

    Values that are all 0 or 1 get a Wilson interval (never leaves [0, 1], never has width zero); with several
    rollouts per task the count is the effective one, n / design effect (Kish 1965), and where all values are
    equal it is the number of tasks. Other values get a t interval with G - 1 degrees of freedom (n - 1 within
    a single task), None for fewer than two values. Differences are no shares, whatever their values: give
    `shares=False` and they get a t interval, which is mirrored when the two sides change places.
    """
    n = len(values)
    keys: Sequence[Hashable] = clusters if clusters is not None else range(n)
    groups = len(set(keys))
    if n == 0:
        return Estimate(None, None, None, None, 0, 0, "")
    mean = mean_of(values)
    se = standard_error(values, keys)
    if shares and all(value in (0, 1) for value in values):
        low, high = wilson(mean, _effective(values, se, groups), level=level)
        return Estimate(mean, se, low, high, n, groups, "wilson")
    if se is None:
        return Estimate(mean, None, None, None, n, groups, "")
    half = se * t_quantile(0.5 + level / 2, (groups if groups > 1 else n) - 1)
    return Estimate(mean, se, mean - half, mean + half, n, groups, "t")


def difference(left: Sequence[float], right: Sequence[float], *, level: float = 0.95) -> Estimate:
    """Mean of `left` minus mean of `right`, independent samples, with Welch's interval (Welch 1947, Biometrika 34:
    28-35; degrees of freedom by Satterthwaite 1946). No interval if one has fewer than two values."""
    n, m = len(left), len(right)
    if not n or not m:
        return Estimate(None, None, None, None, n + m, 2, "")
    mean = mean_of(left) - mean_of(right)
    a, b = variance(left), variance(right)
    if a is None or b is None:
        return Estimate(mean, None, None, None, n + m, 2, "")
    a, b = a / n, b / m
    se = math.sqrt(a + b)
    if se == 0:
        return Estimate(mean, 0.0, mean, mean, n + m, 2, "welch")
    df = (a + b) ** 2 / (a * a / (n - 1) + b * b / (m - 1))
    half = se * t_quantile(0.5 + level / 2, df)
    return Estimate(mean, se, mean - half, mean + half, n + m, 2, "welch")


def _effective(values: Sequence[float], se: float | None, groups: int) -> float:
    """How many independent 0/1 values carry the same information; between 1 and n."""
    n = len(values)
    spread = variance(values)
    if se is None or groups in (1, n):
        return n
    if not spread:
        return groups
    simple = math.sqrt(spread / n)
    return n if se <= simple else max(1.0, n * (simple / se) ** 2)


def wilson(share: float, n: float, *, level: float = 0.95) -> tuple[float, float]:
    """Wilson score interval of a share of `n` trials (Wilson 1927). `n` may be an effective count."""
    z = NormalDist().inv_cdf(0.5 + level / 2)
    scale = 1 + z * z / n
    centre = (share + z * z / (2 * n)) / scale
    half = z / scale * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return max(0.0, centre - half), min(1.0, centre + half)


def pass_at_k(n: int, correct: int, k: int) -> float:
    """Chance that at least one of `k` of the `n` rollouts passes: 1 - C(n - correct, k) / C(n, k).

    The unbiased estimator of Chen et al. 2021 (arXiv:2107.03374, equation 1), for one task.

    Raises:
        ValueError: if not 0 <= correct <= n or not 1 <= k <= n.
    """
    if not (0 <= correct <= n and 1 <= k <= n):
        raise ValueError(f"pass@k needs 0 <= correct <= n and 1 <= k <= n, got n={n}, {correct=}, {k=}")
    if n - correct < k:
        return 1.0
    return 1.0 - math.prod(1.0 - k / m for m in range(n - correct + 1, n + 1))


@lru_cache(maxsize=1024)
def t_quantile(p: float, df: float) -> float:
    """The `p` quantile of Student's t with `df` degrees of freedom, for 0.5 < p < 1."""
    low, high = 0.0, 1.0
    while _t_cdf(high, df) < p:
        high *= 2
    for _ in range(200):
        middle = (low + high) / 2
        if middle in (low, high):
            break
        if _t_cdf(middle, df) < p:
            low = middle
        else:
            high = middle
    return (low + high) / 2


def _t_cdf(t: float, df: float) -> float:
    """P(T <= t) for t >= 0, from the incomplete beta function (DLMF 8.17)."""
    if t * t < df:  # the complement keeps its digits near the centre
        return 0.5 + 0.5 * _beta(0.5, df / 2, t * t / (df + t * t))
    return 1.0 - 0.5 * _beta(df / 2, 0.5, df / (df + t * t))


def _beta(a: float, b: float, x: float) -> float:
    """Regularised incomplete beta function I_x(a, b), continued fraction DLMF 8.17.22 by Lentz's method."""
    if x <= 0 or x >= 1:
        return float(x >= 1)
    if x > (a + 1) / (a + b + 2):
        return 1.0 - _beta(b, a, 1.0 - x)
    front = math.exp(
        math.lgamma(a + b) - math.lgamma(a) - math.lgamma(b) + a * math.log(x) + b * math.log1p(-x)
    )
    c, d = 1.0, 1.0 / (1.0 - (a + b) * x / (a + 1.0))
    fraction = d
    for m in range(1, 10_000):
        even = m * (b - m) * x / ((a + 2 * m - 1) * (a + 2 * m))
        odd = -(a + m) * (a + b + m) * x / ((a + 2 * m) * (a + 2 * m + 1))
        for term in (even, odd):
            d = 1.0 / (1.0 + term * d)
            c = 1.0 + term / c
            fraction *= c * d
        if abs(c * d - 1.0) < 1e-15:
            break
    return front * fraction / a
