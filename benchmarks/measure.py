"""What a row is, and how it is measured: sides in turn, a warm-up first, medians of at least three runs."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field

__all__ = ["Figures", "Metric", "Result", "Row", "Side", "Sides", "cpu_ms", "measure"]

Figures = dict[str, float]
Side = Callable[[], Figures]
"""Does the work once and returns its figures, by metric name."""
Sides = dict[str, Side]
"""`floor`, `ours`, `peer`: whichever there are."""


@dataclass(frozen=True)
class Metric:
    """One line of the table."""

    key: str
    label: str
    unit: str
    target: float | None = None
    more_is_better: bool = False

    def met(self, value: float) -> bool | None:
        """Whether a value reaches the target; None without one."""
        if self.target is None:
            return None
        return value >= self.target if self.more_is_better else value <= self.target


@dataclass(frozen=True)
class Row:
    """One workload of the table."""

    number: str
    title: str
    metrics: Sequence[Metric]
    open: Callable[[bool], AbstractContextManager[Sides]]
    """Starts what the sides need; the argument says whether the peer is wanted."""
    runs: int = 3


def cpu_ms(work: Callable[[], object], runs: int = 5) -> float:
    """Median CPU time of a function in this process, in ms, after one warm-up."""
    work()
    times = []
    for _ in range(runs):
        gc.collect()
        start = time.process_time()
        work()
        times.append(time.process_time() - start)
    return 1000 * statistics.median(times)


@dataclass
class Result:
    """The medians of each side of a row, and why a side has none."""

    figures: dict[str, Figures] = field(default_factory=dict)
    failures: dict[str, str] = field(default_factory=dict)


def measure(row: Row, peer: bool, runs: int, warm_up: bool = True) -> Result:
    """Run the sides in turn; one that fails is left out from then on."""
    collected: dict[str, list[Figures]] = {}
    result = Result()
    with row.open(peer) as sides:
        for index in range(-1 if warm_up else 0, runs):
            for name, side in sides.items():
                if name in result.failures:
                    continue
                try:
                    figures = side()
                except RuntimeError as error:
                    result.failures[name] = str(error)
                else:
                    if index >= 0:
                        collected.setdefault(name, []).append(figures)
    result.figures = {name: _medians(runs) for name, runs in collected.items() if name not in result.failures}
    return result


def _medians(runs: Sequence[Figures]) -> Figures:
    return {key: statistics.median(run[key] for run in runs) for key in runs[0]}
