"""Reward over training steps: several runs one after the other, or one run in the order of its rollouts."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from vfnb.errors import ConfigError
from vfnb.lab.charts import Axis, Chart, Layer, Lines, Panel
from vfnb.lab.figures import Plot, chart_plot
from vfnb.lab.intervals import Estimate, estimate
from vfnb.lab.reward_figures import INTERVALS, interval
from vfnb.lab.rows import Row
from vfnb.lab.text import columns, lines
from vfnb.lab.theme import current_theme
from vfnb.lab.words import number

if TYPE_CHECKING:
    from typing import Protocol

    class HasRows(Protocol):
        """A run."""

        def _rows(self) -> list[Row]: ...


__all__ = ["plot_blocks", "plot_learning"]

_BLOCKS, _LEAST = 20, 8  # of one run, and rollouts in each
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x")
Step = tuple[float, Sequence[Row]]


def plot_learning(runs: Iterable[HasRows] | Mapping[Any, Any]) -> Plot:
    """Mean reward over steps, with its interval, and the share of rollouts that failed.

    Args:
        runs: the runs of steps 0, 1, 2, ... in order; or a run by step number; or, to compare, such a list or
            mapping by name.

    Raises:
        ConfigError: there are no runs, or a step has no number.
    """
    series: dict[str, list[Step]] = {}
    if isinstance(runs, Mapping) and any(isinstance(one, (Mapping, list, tuple)) for one in runs.values()):
        series = {str(name): _steps(one) for name, one in runs.items()}
    else:
        series = {"": _steps(runs)}
    if not any(series.values()):
        raise ConfigError("no runs to draw; give a list of runs, or runs by step")
    return _plot("Reward over steps", series, "step", "")


def plot_blocks(rows: Sequence[Row], name: str) -> Plot:
    """One run: mean reward of up to 20 blocks of rollouts, in the order in which these were started."""
    count = max(1, min(_BLOCKS, len(rows) // _LEAST))
    ends = [round(len(rows) * place / count) for place in range(count + 1)]
    steps = [(float(end), rows[start:end]) for start, end in pairwise(ends) if end > start]
    note = f"Each mark is the mean of about {len(rows) // count} rollouts, at the last of them."
    return _plot(f"{name}: reward in the order of the rollouts", {"": steps}, "rollouts started", note)


def _steps(runs: Any) -> list[Step]:
    pairs = runs.items() if isinstance(runs, Mapping) else enumerate(runs)
    steps: list[Step] = []
    for step, run in pairs:
        try:
            steps.append((float(step), run._rows()))
        except (TypeError, ValueError):
            raise ConfigError(
                f"{step!r} is no number of a step; give runs by number, or a list of runs"
            ) from None
        except AttributeError:
            raise ConfigError(
                f"step {step!r} is a {type(run).__name__}; give runs, as vf.load opens them"
            ) from None
    return sorted(steps, key=lambda one: one[0])


def _plot(title: str, series: Mapping[str, Sequence[Step]], x: str, note: str) -> Plot:
    theme = current_theme()
    rewards: list[Layer] = []
    failures: list[Layer] = []
    told = []
    known = [
        row.reward for steps in series.values() for _, rows in steps for row in rows if row.reward is not None
    ]
    low, high = min([0.0, *known]), max([1.0, *known])
    room = 0.05 * (high - low)
    for place, (name, steps) in enumerate(series.items()):
        color, symbol = theme.series[place % len(theme.series)], _SYMBOLS[place % len(_SYMBOLS)]
        means = [_mean(rows) for _, rows in steps]
        shares = [_failed(rows) for _, rows in steps]
        at = [step for step, _ in steps]
        rewards.append(
            Lines(
                x=at,
                y=[found.mean for found in means],
                low=[found.low for found in means],
                high=[found.high for found in means],
                color=color,
                symbol=symbol,
                name=name,
                hover=[f"{x} {step:g}\n{interval(found)}" for step, found in zip(at, means, strict=True)],
            ).cut(low - room, high + room)
        )
        failures.append(
            Lines(
                x=at,
                y=[100 * share for share in shares],
                color=color,
                symbol=symbol,
                name=name,
                dash="dot",
                hover=[f"{x} {step:g}: {100 * share:.3g} %" for step, share in zip(at, shares, strict=True)],
            )
        )
        told += [
            [
                name,
                f"{step:g}",
                number(found.mean),
                number(found.low),
                number(found.high),
                str(found.n),
                f"{share:.1%}",
            ]
            for step, found, share in zip(at, means, shares, strict=True)
        ]
    panels = [
        Panel(
            x=Axis(title=x),
            y=Axis(title="mean reward", range=(low - room, high + room), numbers=(low, high)),
            layers=rewards,
        ),
        Panel(
            x=Axis(title=x),
            y=Axis(title="without reward (%)", range=(-3, 103), numbers=(0, 100)),
            layers=failures,
        ),
    ]
    chart = Chart(
        title=title,
        panels=panels,
        columns=2,
        width=420,
        height=260,
        note=f"{note} Rollouts without a reward (errors, cancelled) are in no mean. {INTERVALS}".strip(),
        theme=theme,
    )
    table = columns(["series", x, "mean", "low", "high", "n", "without reward"], told)
    return chart_plot(chart, lines([title], table, [INTERVALS], rest="run.rewards"))


def _mean(rows: Sequence[Row]) -> Estimate:
    scored = [row for row in rows if row.outcome == "scored" and row.reward is not None]
    return estimate([row.reward for row in scored if row.reward is not None], [row.task for row in scored])


def _failed(rows: Sequence[Row]) -> float:
    ended = [row for row in rows if row.outcome != "running"]
    return sum(row.outcome != "scored" for row in ended) / len(ended) if ended else 0.0
