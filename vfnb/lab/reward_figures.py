"""What a run scored: distributions of rewards, tasks by rollouts, pass@k."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import replace
from itertools import pairwise
from typing import TypeVar

from vfnb.lab.charts import Axis, Bars, Cells, Chart, Lines, Panel, Scale
from vfnb.lab.figures import Plot, chart_plot
from vfnb.lab.intervals import Estimate, estimate, pass_at_k
from vfnb.lab.rows import Row
from vfnb.lab.scales import round_ticks, tick_text
from vfnb.lab.stats import per_task
from vfnb.lab.text import columns, lines
from vfnb.lab.theme import Theme, current_theme
from vfnb.lab.words import number, one_line

__all__ = ["INTERVALS", "interval", "left_out", "plot_pass_at_k", "plot_rewards", "plot_tasks"]

INTERVALS = (
    "Intervals are 95 %: Wilson's for values of 0 and 1, else Student's t; rollouts of a task are a cluster."
)
T = TypeVar("T")
_DISTINCT = 10
"""Up to so many different values each has a bar of its own."""
_BINS = 20
_PANELS = 12
_SIGNS = {"error": "✗", "cancelled": "-", "dropped": "-", "unscored": "·", "running": "…"}
_TASKS, _ROLLOUTS = 60, 40  # of the static drawing
_WORDS = {
    "error": "error",
    "cancelled": "cancelled",
    "dropped": "dropped",
    "unscored": "no value",
    "running": "running",
}
"""Outcomes without a reward, as they are shown."""


def left_out(rows: Sequence[Row]) -> str:
    """Who has no reward, and so counts in no mean, as a sentence; `""` if all count."""
    counts = Counter(row.outcome for row in rows if row.outcome != "scored")
    parts = [f"{_WORDS[outcome]} {count}" for outcome, count in counts.items()]
    return f"Without a reward, and so in no mean: {', '.join(parts)}." if parts else ""


def interval(found: Estimate) -> str:
    """A mean and its interval in words."""
    if found.mean is None:
        return "no values"
    ends = f" [{number(found.low)}, {number(found.high)}]" if found.low is not None else ""
    return f"mean {number(found.mean)}{ends}, n {found.n}"


# Distributions


def plot_rewards(rows: Sequence[Row], name: str) -> Plot:
    """A histogram for the total and one for each reward; rollouts without a value stand apart from zeros."""
    theme = current_theme()
    names = dict.fromkeys(signal for row in rows for signal in row.rewards)
    weighted = {signal: row.weights.get(signal, 1.0) for row in rows for signal in row.rewards}
    signals = ["reward", *(signal for signal in names if signal != "reward")]
    if len(names) == 1 and weighted[next(iter(names))] == 1:
        signals = list(names)
    panels, told = [], []
    for signal in signals[:_PANELS]:
        values, tasks, missing = _values(rows, signal, total=signal == "reward" or len(signals) == 1)
        found = estimate(values, tasks)
        weight = (
            "" if signal not in weighted or signal == "reward" else f", weight {number(weighted[signal])}"
        )
        title = "reward (weighted sum)" if signal == "reward" else f"{signal}{weight}"
        panels.append(_histogram(f"{title}: {interval(found)}", values, missing, theme))
        told.append([title, number(found.mean), number(found.low), number(found.high), str(found.n),
                     ", ".join(f"{what} {count}" for what, count in missing.items())])  # fmt: skip
    more = f" {len(signals) - _PANELS} more rewards are not drawn." if len(signals) > _PANELS else ""
    chart = Chart(
        title=f"{name}: rewards of {len(rows)} rollouts",
        panels=panels,
        columns=1 if len(panels) == 1 else 2,
        width=640 if len(panels) == 1 else 400,
        height=220,
        note=f"Hatched bars have no value and are no zeros. {INTERVALS}{more}",
        theme=theme,
    )
    table = columns(["reward", "mean", "low", "high", "n", "without a value"], told)
    return chart_plot(chart, lines([chart.title], table, [INTERVALS], rest="run.rewards"))


def _values(
    rows: Sequence[Row], signal: str, *, total: bool
) -> tuple[list[float], list[str], dict[str, int]]:
    """Values of one reward with their tasks, and how many have none, by why."""
    values, tasks, missing = [], [], Counter[str]()
    for row in rows:
        value = row.reward if total else row.rewards.get(signal)
        if row.outcome in ("scored", "unscored") and value is not None and value == value:
            values.append(value)
            tasks.append(row.task)
        else:
            missing[_WORDS.get(row.outcome, "no value")] += 1
    return values, tasks, dict(missing)


def _histogram(title: str, values: Sequence[float], missing: dict[str, int], theme: Theme) -> Panel:
    distinct = sorted(set(values))
    marks: list[tuple[float, str]] = []
    gap = min((b - a for a, b in pairwise(distinct)), default=1.0)
    low, high, width = 0.0, 1.0, 0.1
    centres: list[float] = []
    heights: list[int] = []
    if len(distinct) == 1 or (1 < len(distinct) <= _DISTINCT and gap > (distinct[-1] - distinct[0]) / _BINS):
        same = Counter(values)
        centres, heights, width = distinct, [same[value] for value in distinct], 0.6 * gap
        low, high = distinct[0], distinct[-1]
        marks = [(value, tick_text(value)) for value in distinct[1:]]
    elif distinct:
        edges = round_ticks(distinct[0], distinct[-1], _BINS)
        step = edges[1] - edges[0]
        first = edges[0] - (step if distinct[0] < edges[0] else 0)
        counts = Counter(int((value - first) / step + 1e-9) for value in values)
        top = max(counts)
        centres = [first + (index + 0.5) * step for index in range(top + 1)]
        heights, width = [counts[index] for index in range(top + 1)], step
        low, high = first, first + (top + 1) * step
    span = max(high - low, width)
    slot = max(width, span / 12)
    apart = {what: high + width / 2 + slot * (1.2 + 1.6 * place) for place, what in enumerate(missing)}
    layers = [
        Bars(
            at=centres,
            value=heights,
            color=theme.series[0],
            width=width,
            hover=[f"{count} rollouts at {number(at)}" for at, count in zip(centres, heights, strict=True)],
        ),
        *(
            Bars(
                at=[apart[what]],
                value=[count],
                color=theme.failed if what == "error" else theme.missing,
                width=slot * 0.9,
                hatched=True,
                hover=[f"{count} rollouts: {what}"],
            )
            for what, count in missing.items()
        ),
    ]
    end = max(apart.values(), default=high)
    x = Axis(
        title="value",
        range=(low - width * 0.7, end + max(width * 0.7, slot * 0.7)),
        ticks=marks + [(at, what) for what, at in apart.items()],
        numbers=(low, low if marks else high),
    )
    return Panel(title=title, x=x, y=Axis(title="rollouts"), layers=layers)


# Tasks by rollouts


def plot_tasks(rows: Sequence[Row], name: str) -> Plot:
    """A heat map of rewards, a row for each task and a column for each rollout."""
    groups: dict[str, list[Row]] = defaultdict(list)
    for row in sorted(rows, key=lambda row: (row.idx is None, row.idx or 0)):
        groups[row.task].append(row)
    stats = {stat.task: stat for stat in per_task(rows)}
    values = [row.reward for row in rows if row.outcome == "scored" and row.reward is not None]
    low, high = min([0.0, *values]), max([1.0, *values]) if values else 1.0
    scale = Scale("reward", low, high)
    table = columns(
        ["task", "mean", "scored", "errors", "rewards in the order of the rollouts"],
        [
            [
                stats[task].name, number(stats[task].mean), str(stats[task].scored), str(stats[task].errors),
                " ".join(_sign(row) for row in members),
            ]
            for task, members in groups.items()
        ],
    )  # fmt: skip
    chart = _heat(groups, name, scale, len(rows))
    cut = {task: members[:_ROLLOUTS] for task, members in list(groups.items())[:_TASKS]}
    static = _heat(cut, name, scale, len(rows))
    shown = sum(map(len, cut.values()))
    if shown < len(rows):
        static = _noted(static, f"{shown} of {len(rows)} rollouts drawn; plot.figure has all.")
    key = "✗ error  - cancelled or dropped  · no value  … running"
    return chart_plot(chart, lines([chart.title, key], table, rest="run.tasks"), static=static)


def _heat(groups: dict[str, list[Row]], name: str, scale: Scale, n: int) -> Chart:
    wide = max(map(len, groups.values()), default=0)
    cells = Cells(
        values=[
            _padded([row.reward if row.outcome == "scored" else None for row in g], wide, None)
            for g in groups.values()
        ],
        signs=[_padded([_sign(row) for row in g], wide, "") for g in groups.values()],
        hover=[_padded([_about(row) for row in g], wide, "") for g in groups.values()],
    )
    means = {stat.task: stat.mean for g in groups.values() for stat in per_task(g)}
    labels = [f"{one_line(g[0].name or task, 24)} ({number(means[task])})" for task, g in groups.items()]
    panel = Panel(
        x=Axis(title="rollout", names=[str(index) for index in range(wide)]),
        y=Axis(title="task (mean)", names=labels),
        layers=[cells],
    )
    return Chart(
        title=f"{name}: reward of {n} rollouts by task",
        panels=[panel],
        width=max(240, min(1200, 44 * wide)),
        height=max(60, 20 * len(groups)),
        note="✗ error, - cancelled or dropped, · no value, … running; an empty cell was never run.",
        scale=scale,
    )


def _padded(values: Sequence[T], wide: int, filler: T) -> list[T]:
    return [*values, *[filler] * (wide - len(values))]


def _noted(chart: Chart, more: str) -> Chart:
    return replace(chart, note=f"{chart.note} {more}")


def _sign(row: Row) -> str:
    if row.outcome == "scored" and row.reward is not None:
        short = f"{row.reward:.2g}"
        return short if len(short) <= 5 else f"{row.reward:.0e}"
    return _SIGNS[row.outcome]


def _about(row: Row) -> str:
    facts = [f"{one_line(row.name or row.task, 60)}, rollout {row.rollout}", f"trace {row.trace[:8]}"]
    facts.append(f"reward {number(row.reward)}" if row.outcome == "scored" else _WORDS[row.outcome])
    if row.error:
        facts.append(one_line(f"{row.error}: {row.message}", 80))
    return "\n".join(facts)


# pass@k


def plot_pass_at_k(rows: Sequence[Row], name: str, *, threshold: float = 1.0) -> Plot:
    """The chance that at least one of k rollouts passes: mean over tasks with its interval, for each k.

    The unbiased estimator of Chen et al. 2021 (arXiv:2107.03374), over tasks with at least k scored rollouts.
    """
    theme = current_theme()
    stats = [stat for stat in per_task(rows, threshold=threshold) if stat.scored]
    most = max((stat.scored for stat in stats), default=0)
    found: dict[int, Estimate] = {}
    for k in _ks(most):
        found[k] = estimate([pass_at_k(s.scored, s.passed, k) for s in stats if s.scored >= k])
    curve = Lines(
        x=list(found),
        y=[one.mean for one in found.values()],
        low=[one.low for one in found.values()],
        high=[one.high for one in found.values()],
        color=theme.series[0],
        symbol="circle",
        hover=[f"pass@{k}\n{interval(one)} tasks" for k, one in found.items()],
    ).cut(0, 1)
    fewer = sorted({one.n for one in found.values()})
    note = (
        f"A rollout passes with a reward of at least {number(threshold)}. Intervals are 95 % over tasks: Wilson's "
        f"where every chance is 0 or 1, else Student's t, cut at 0 and 1. {left_out(rows)}"
    )
    if len(fewer) > 1:
        note += (
            f" Not all tasks have rollouts enough: {fewer[0]} to {fewer[-1]} of them count, see the numbers."
        )
    chart = Chart(
        title=f"{name}: pass@k over {len(stats)} tasks",
        panels=[
            Panel(
                x=Axis(title="k (rollouts)", log2=True, range=(0.9, max(2, most) * 1.1)),
                y=Axis(title="pass@k", range=(-0.02, 1.02), numbers=(0, 1)),
                layers=[curve],
            )
        ],
        width=560,
        height=280,
        note=note,
        theme=theme,
    )
    table = columns(
        ["k", "pass@k", "low", "high", "tasks"],
        [
            [str(k), number(e.mean), number(low), number(high), str(e.n)]
            for (k, e), low, high in zip(found.items(), curve.low, curve.high, strict=True)
        ],
    )
    text = lines(
        [chart.title], table if found else ["no scored rollouts"], [left_out(rows)], rest="run.summary"
    )
    return chart_plot(chart, text)


def _ks(most: int) -> list[int]:
    """Every k up to 16, then about eight for each doubling."""
    found = set(range(1, min(most, 16) + 1)) | ({most} if most else set())
    k = 16.0
    while k < most:
        found.add(round(k))
        k *= 2**0.125
    return sorted(found)
