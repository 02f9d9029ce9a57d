"""What rewards cost: reward against tokens, turns, dollars or seconds, and where the time of rollouts went."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import groupby
from random import Random
from typing import TYPE_CHECKING

from vfnb.errors import ConfigError
from vfnb.lab.charts import Axis, Bars, Chart, Lines, Panel, Points
from vfnb.lab.figures import Plot, chart_plot
from vfnb.lab.intervals import Estimate, estimate
from vfnb.lab.reward_figures import INTERVALS, interval, left_out
from vfnb.lab.rows import Row
from vfnb.lab.text import columns, lines
from vfnb.lab.theme import current_theme
from vfnb.lab.words import number, one_line, seconds

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["AGAINST", "plot_against", "plot_time"]

AGAINST: dict[str, tuple[str, Callable[[Row], float | None]]] = {
    "tokens": ("sampled tokens", lambda row: row.tokens_out or (None if row.turns else 0)),
    "turns": ("turns", lambda row: row.turns),
    "cost": ("cost (US dollars)", lambda row: row.cost),
    "seconds": ("time (s)", lambda row: row.time_s),
}
_BINS = 8
_MARKS = 1000
_TASKS = 50


def plot_against(rows: Sequence[Row], name: str, *, x: str = "tokens") -> Plot:
    """Each rollout by what it used and what it scored, with the mean reward of up to 8 groups of equal size.

    Raises:
        ConfigError: `x` is unknown, or no rollout has it.
    """
    if x not in AGAINST:
        raise ConfigError(f"x={x!r} is none of {', '.join(AGAINST)}")
    title, take = AGAINST[x]
    known = [(at, row) for row in rows if (at := take(row)) is not None]
    if rows and not known:
        raise ConfigError(f"no rollout of {name} has a known {title}; give another x of {', '.join(AGAINST)}")
    theme = current_theme()
    scored = [
        (at, row.reward, row) for at, row in known if row.outcome == "scored" and row.reward is not None
    ]
    failed = [(at, row) for at, row in known if row.outcome not in ("scored", "running")]
    groups = _groups([(at, reward, row.task) for at, reward, row in scored])
    drawn = Random(0).sample(scored, _MARKS) if len(scored) > _MARKS else scored
    lost = Random(0).sample(failed, _MARKS // 4) if len(failed) > _MARKS // 4 else failed
    rewards = [reward for _, reward, _ in scored]
    low, high = min([0.0, *rewards]), max([1.0, *rewards])
    below = low - (high - low) * 0.16
    small = len(drawn) > 200
    panel = Panel(
        x=Axis(title=title),
        y=Axis(
            title="reward",
            range=(
                below - (high - low) * 0.08 if failed else low - (high - low) * 0.06,
                high + (high - low) * 0.06,
            ),
            ticks=[(below, "no reward")] if failed else [],
            numbers=(low, high),
        ),
        layers=[
            Points(
                x=[at for at, _, _ in drawn],
                y=[reward for _, reward, _ in drawn],
                color=theme.series[0],
                size=5 if small else 8,
                opacity=0.35 if small else 0.6,
                name="rollout",
                hover=[_about(row, at, title) for at, _, row in drawn],
                ids=[row.trace for _, _, row in drawn],
            ),
            *([_lost(lost, below, title)] if lost else []),
            Lines(
                x=[at for at, _ in groups],
                y=[found.mean for _, found in groups],
                low=[found.low for _, found in groups],
                high=[found.high for _, found in groups],
                color=theme.series[1],
                symbol="diamond",
                name="mean of a group, with its interval",
                hover=[f"{title} {number(at)}\n{interval(found)}" for at, found in groups],
            ).cut(below if failed else low, high),
        ],
    )
    unknown = len(rows) - len(known)
    notes = [
        f"Groups hold equally many rollouts; their marks stand at the mean of {title}. {INTERVALS}",
        left_out(rows),
        f"{unknown} rollouts are not drawn: {title} unknown." if unknown else "",
        f"{len(drawn)} of {len(scored)} scored rollouts drawn, taken at random; the means are of all."
        if len(drawn) < len(scored)
        else "",
    ]
    chart = Chart(title=f"{name}: reward against {title}", panels=[panel], note=" ".join(filter(None, notes)))
    table = columns(
        [title, "mean reward", "low", "high", "n"],
        [[number(at), number(e.mean), number(e.low), number(e.high), str(e.n)] for at, e in groups],
    )
    return chart_plot(chart, lines([chart.title], table, notes[1:3], rest="run.rewards"))


def _lost(rows: Sequence[tuple[float, Row]], y: float, title: str) -> Points:
    """Rollouts without a reward, below those with one."""
    return Points(
        x=[at for at, _ in rows],
        y=[y] * len(rows),
        color=current_theme().failed,
        symbol="x",
        size=7,
        name="error or no reward",
        hover=[_about(row, at, title) for at, row in rows],
        ids=[row.trace for _, row in rows],
    )


def _groups(points: list[tuple[float, float, str]]) -> list[tuple[float, Estimate]]:
    """Up to 8 groups along x with about equally many points; equal x stay together."""
    points.sort(key=lambda point: point[0])
    size = max(1, len(points) / _BINS)
    found: list[tuple[float, Estimate]] = []
    runs = [list(members) for _, members in groupby(points, key=lambda point: point[0])]
    group: list[tuple[float, float, str]] = []
    seen = 0
    for run in runs:
        group += run
        seen += len(run)
        if seen >= size * (len(found) + 1) - 1e-9 or run is runs[-1]:
            at = sum(x for x, _, _ in group) / len(group)
            found.append((at, estimate([y for _, y, _ in group], [task for _, _, task in group])))
            group = []
    return found


def _about(row: Row, at: float, title: str) -> str:
    reward = f"reward {number(row.reward)}" if row.outcome == "scored" else (row.error or row.outcome)
    head = f"{one_line(row.name or row.task, 60)}, rollout {row.rollout}"
    return f"{head}\n{title} {number(at)}, {reward}\n{row.trace[:8]}"


# Time

_STAGES = ("boot", "setup", "model", "tools", "harness", "finalize", "scoring")
_MEANING = (
    "Mean seconds of a rollout. Of the agent stage, model is the time in which a call was under way, tools the "
    "time from a reply that asked for tools to the next call, harness the rest."
)


def plot_time(
    traces: pd.DataFrame, calls: pd.DataFrame, messages: pd.DataFrame, name: str, names: dict[str, str]
) -> Plot:
    """Where the time of rollouts went, in the mean and by task, as stacked bars.

    Args:
        traces: columns `trace, task, agent_s, boot_s, setup_s, finalize_s, scoring_s` of ended rollouts.
        calls: columns `trace, started, time_s, reply_node`.
        messages: columns `trace, node, tool_calls` of sampled messages.
        name: of the run.
        names: of the tasks, by key.
    """
    theme = current_theme()
    split = time_split(traces, calls, messages)
    timed = split.dropna(subset=["model"])
    means = timed.groupby("task", sort=False)[list(_STAGES)].mean()
    every = list(means.iterrows())
    if len(every) > _TASKS:
        every = sorted(every, key=lambda one: -float(one[1].sum()))[:_TASKS]
    bars = [
        ("all", timed[list(_STAGES)].mean().fillna(0.0)),
        *((str(task), row) for task, row in every),
    ]

    labels = [one_line(names.get(task, task), 24) for task, _ in bars]
    base = [0.0] * len(bars)
    layers = []
    for place, stage in enumerate(_STAGES):
        values = [float(row[stage]) for _, row in bars]
        layers.append(
            Bars(
                at=list(range(len(bars))),
                value=values,
                base=list(base),
                color=theme.series[place],
                across=True,
                hatched=stage in ("tools", "scoring"),
                name=stage,
                hover=[f"{label}: {stage} {seconds(v)}" for label, v in zip(labels, values, strict=True)],
            )
        )
        base = [low + value for low, value in zip(base, values, strict=True)]
    left = len(traces) - len(timed)
    notes = [
        _MEANING,
        f"{left} rollouts without recorded times are left out." if left else "",
        f"{len(every)} of {len(means)} tasks drawn, those that took longest."
        if len(every) < len(means)
        else "",
    ]
    chart = Chart(
        title=f"{name}: time of {len(timed)} rollouts",
        panels=[Panel(x=Axis(title="mean time of a rollout (s)"), y=Axis(names=labels), layers=layers)],
        height=max(60, 26 * len(bars)),
        note=" ".join(filter(None, notes)),
        theme=theme,
    )
    table = columns(
        ["task", *_STAGES],
        [
            [label, *(number(float(row[stage])) for stage in _STAGES)]
            for label, (_, row) in zip(labels, bars, strict=True)
        ],
    )
    return chart_plot(
        chart, lines([f"{chart.title}, mean seconds"], table, notes[1:], rest="run.frame('traces')")
    )


def time_split(traces: pd.DataFrame, calls: pd.DataFrame, messages: pd.DataFrame) -> pd.DataFrame:
    """Seconds of each rollout by stage, the agent stage in `model`, `tools` and `harness`.

    Missing where the agent stage was not timed. See `plot_time` for the arguments and what the parts mean.
    """
    asked = messages.loc[messages["tool_calls"] > 0, ["trace", "node"]].assign(asked=True)
    joined = calls.merge(asked, left_on=["trace", "reply_node"], right_on=["trace", "node"], how="left")
    begun = joined["started"].astype("int64").to_numpy() / 1e9
    ended = begun + joined["time_s"].fillna(0.0).to_numpy()
    wants = joined["asked"].notna().to_numpy()
    spans: dict[str, list[tuple[float, float, bool]]] = {}
    for trace, start, end, tools in zip(joined["trace"], begun, ended, wants, strict=True):
        spans.setdefault(trace, []).append((float(start), float(end), bool(tools)))
    parts = {trace: _model_and_tools(found) for trace, found in spans.items()}
    made = traces[["trace", "task"]].copy()
    for stage in ("boot", "setup", "finalize", "scoring"):
        made[stage] = traces[f"{stage}_s"].fillna(0.0)
    agent = traces["agent_s"]
    both = [parts.get(trace, (0.0, 0.0)) for trace in traces["trace"]]
    made["model"] = [model for model, _ in both]
    made["tools"] = [tools for _, tools in both]
    made["model"] = made["model"].clip(upper=agent)
    made["tools"] = made["tools"].clip(upper=agent - made["model"])
    made["harness"] = agent - made["model"] - made["tools"]
    made.loc[agent.isna(), ["model", "tools", "harness"]] = float("nan")
    return made


def _model_and_tools(calls: list[tuple[float, float, bool]]) -> tuple[float, float]:
    """Seconds with a call under way, and seconds between a reply that asked for tools and the next call."""
    calls.sort()
    model = tools = 0.0
    until, wanted = calls[0][0], False
    for start, end, asked in calls:
        if start > until and wanted:
            tools += start - until
        model += max(0.0, end - max(start, until))
        if end >= until:
            until, wanted = end, asked
    return model, tools
