"""`trace.plot`: the branch tree and the timeline of one trace, and the trees of several beside each other."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from vfnb.errors import ConfigError
from vfnb.lab.charts import Chart
from vfnb.lab.extents import extents, known_extents, sampled_tokens
from vfnb.lab.figures import Plot, chart_plot
from vfnb.lab.text import lines
from vfnb.lab.timeline_figure import timeline_chart
from vfnb.lab.tree_figure import role_of, tree_chart
from vfnb.lab.words import number
from vfnb.trace.causes import forks

if TYPE_CHECKING:
    from vfnb.trace import Trace
    from vfnb.trace.graph import MessageGraph, Node

__all__ = ["plot_trace", "plot_traces"]

_MOST = 8
_WIDE = 1600  # pixels


def plot_trace(trace: Trace, kind: str = "tree", *, x: str | None = None, color: str = "role") -> Plot:
    """The branches of a trace as lanes, time to the right.

    Args:
        trace: the trace.
        kind: `tree` for a mark per message (over 300 messages, chains are folded into boxes), or `timeline` for
            bars as long as the messages were.
        x: of a timeline: `tokens` (where known the default), `seconds` or `turns`.
        color: of a timeline: `role`, `cause` (of the branch's fork) or `logprob` (mean -logprob, nats per
            sampled token).

    Raises:
        ConfigError: another value, or the trace has no such numbers; a tree with `x` or `color`.
    """
    if kind == "timeline":
        x = known_extents(trace.dag)[0] if x is None else x
        chart = timeline_chart(trace, x, color)
        text = _timeline_text(chart.title, trace.dag, x)
        return chart_plot(chart, text, static=timeline_chart(trace, x, color, static=True))
    if kind != "tree":
        raise ConfigError(f"kind={kind!r} is none of tree, timeline")
    if x is not None or color != "role":
        raise ConfigError("a tree has no x and is coloured by role; give kind='timeline'")
    chart = tree_chart(trace)
    return chart_plot(chart, _tree_text(chart.title, trace.dag), static=tree_chart(trace, static=True))


def plot_traces(traces: Mapping[str, Trace]) -> Plot:
    """The trees of several traces beside each other, each under its name; wide ones stand in a column.

    Raises:
        ConfigError: there are none, or more than 8.
    """
    if not 1 <= len(traces) <= _MOST:
        raise ConfigError(f"{len(traces)} traces to draw; give 1 to {_MOST}")
    texts = [f"{name}: {_tree_text(tree_chart(one).title, one.dag)}" for name, one in traces.items()]
    return chart_plot(
        _beside({name: tree_chart(trace) for name, trace in traces.items()}),
        "\n\n".join(texts),
        static=_beside({name: tree_chart(trace, static=True) for name, trace in traces.items()}),
    )


def _beside(charts: Mapping[str, Chart]) -> Chart:
    every = list(charts.values())
    width = max(chart.width for chart in every)
    return Chart(
        title=" · ".join(charts),
        panels=[replace(chart.panels[0], title=name) for name, chart in charts.items()],
        columns=len(every) if width * len(every) <= _WIDE else 1,
        width=width,
        height=max(chart.height for chart in every),
        note=" ".join(dict.fromkeys(chart.note for chart in every if chart.note)),
    )


def _tree_text(title: str, dag: MessageGraph) -> str:
    """One line a branch: its cause, where it leaves its parent, and its roles (capital if sampled)."""
    told = []
    causes = {first: fork.cause for first, fork in forks(dag).items()}
    for first, members in _own(dag).items():
        parent = members[0].parent
        start = f"from node {parent}" if parent >= 0 else "root"
        letters = [role_of(node.message.role)[0] for node in members[:60]]
        roles = "".join(
            letter.upper() if node.sampled else letter
            for letter, node in zip(letters, members[:60], strict=True)
        ) + ("…" if len(members) > 60 else "")
        cause = f", {causes[first]}" if first in causes else ""
        told.append(f"branch at node {first} ({start}{cause}): {len(members)} messages {roles}")
    key = "roles: s system, u user, a assistant, t tool, o other; capital: sampled"
    return lines([title, key], told, rest="plot.figure")


def _timeline_text(title: str, dag: MessageGraph, x: str) -> str:
    """One line a branch: from where to where, and how much of it was sampled."""
    places = extents(dag, x)
    drawn = sampled_tokens(dag, dag.nodes[: len(places)])
    causes = {first: fork.cause for first, fork in forks(dag).items()}
    told = []
    for first, members in _own(dag).items():
        reach = [places[node.index] for node in members if node.index < len(places)]
        start, end = min(a for a, _ in reach), max(b for _, b in reach)
        sampled = sum(places[node.index][1] - places[node.index][0] for node in members if node.sampled)
        tokens = sum(drawn[node.index] for node in members)
        told.append(
            f"branch at node {first} ({causes.get(first, 'first branch')}): {x} {number(start)} to {number(end)}, "
            f"replies {number(sampled)}, {len(members)} messages, {tokens:,} tokens sampled"
        )
    return lines([title], told, rest="plot.figure")


def _own(dag: MessageGraph) -> dict[int, list[Node]]:
    """The nodes that each branch owns."""
    own: dict[int, list[Node]] = defaultdict(list)
    for node in dag.nodes[: len(dag.nodes)]:
        own[node.branch].append(node)
    return own
