"""The branch tree of a trace: branches as lanes, time to the right; long ones with their chains folded."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vfnb.lab.charts import Axis, Chart, Labels, Layer, Lines, Panel, Points, Rects
from vfnb.lab.graphs import trace_graph
from vfnb.lab.layout import Box, boxes, layout
from vfnb.lab.links import links
from vfnb.lab.messages import preview
from vfnb.lab.theme import Theme, current_theme
from vfnb.trace.causes import forks

if TYPE_CHECKING:
    import networkx as nx

    from vfnb.trace import Trace
    from vfnb.trace.graph import MessageGraph, Node

__all__ = ["DASHES", "MAX_MARKS", "SYMBOLS", "edges", "role_of", "spaced", "tree_chart"]

MAX_MARKS = 300
"""Messages drawn one by one; of a longer trace, chains are folded."""
_MAX_LANES = 40
_STEP, _LANE = 26, 34  # pixels
_NARROWEST = 16
_SCREEN = 900  # pixels of an interactive figure, about
_WIDEST = 1600
SYMBOLS = {"system": "square", "user": "circle", "assistant": "diamond", "tool": "triangle-up", "other": "x"}
"""The shape tells the role, as the colour does."""
DASHES = {
    "": "",
    "spawned_by": "dash",
    "returned_to": "dot",
    "compaction_of": "dashdot",
    "rewrite": "longdash",
}
"""How the lines of each relation are drawn."""


def role_of(role: str) -> str:
    """The role as drawn."""
    return role if role in SYMBOLS else "other"


def tree_chart(trace: Trace, *, static: bool = False) -> Chart:
    """The tree as a chart. Marks are filled if the model produced the message, hollow if it is context.

    `static` leaves out what a picture has no room for, and says so.
    """
    dag = trace.dag
    title = f"Trace {trace.id[:8]}: {len(dag.nodes)} messages, {len(dag.tips)} branches"
    if len(dag.nodes) <= MAX_MARKS:
        return _marks(dag, title, static=static)
    return _folded(trace, title, static=static)


# Message by message


def _marks(dag: MessageGraph, title: str, *, static: bool) -> Chart:
    theme = current_theme()
    joined = links(dag)
    places = layout(dag, joined)
    nodes = dag.nodes[: len(places.x)]
    lanes = min(places.lanes, _MAX_LANES) if static else places.lanes
    inside = [node for node in nodes if places.y[node.index] < lanes]
    causes = {first: fork.cause for first, fork in forks(dag).items()}
    at = {node.index: (float(places.x[node.index]), float(places.y[node.index])) for node in inside}
    pairs = [(node.parent, node.index) for node in inside if node.parent in at]
    layers: list[Layer] = [_joined(pairs, at, theme)]
    for kind in sorted({link.kind for link in joined}):
        found = [(link.source, link.target) for link in joined if link.kind == kind]
        layers.append(_joined([(a, b) for a, b in found if a in at and b in at], at, theme, kind))
    members: dict[tuple[str, bool], list[Node]] = defaultdict(list)
    for node in inside:
        members[role_of(node.message.role), node.sampled].append(node)
    for (role, sampled), group in sorted(members.items()):
        layers.append(
            Points(
                x=[at[node.index][0] for node in group],
                y=[at[node.index][1] for node in group],
                color=theme.roles[role],
                symbol=SYMBOLS[role],
                filled=sampled,
                size=11 if static else max(5.0, min(11.0, 0.8 * _SCREEN / places.columns)),
                name=f"{role}, sampled" if sampled else role,
                hover=[_hover(node, causes.get(node.index, "")) for node in group],
                ids=[node.index for node in group],
            )
        )
    starts = [node for node in inside if node.index in causes]
    named = [(at[n.index][0] - 0.15, at[n.index][1] - 0.3, causes[n.index]) for n in starts]
    layers.append(spaced(named, _step(places.columns, static)))
    cut = f"{lanes} of {places.lanes} lanes drawn; plot.figure has all" if lanes < places.lanes else ""
    return _bare(title, layers, places.columns, lanes, theme, cut)


def _step(columns: float, static: bool) -> float:
    """Pixels of a column."""
    return min(_STEP, (_WIDEST if static else _SCREEN) / max(1.0, columns))


def _joined(
    pairs: Sequence[tuple[Any, Any]], at: dict[Any, tuple[float, float]], theme: Theme, kind: str = ""
) -> Lines:
    """Straight lines between marks; those of a named kind are dotted."""
    x: list[float | None] = []
    y: list[float | None] = []
    for source, target in pairs:
        x += [at[source][0], at[target][0], None]
        y += [at[source][1], at[target][1], None]
    name = kind.replace("_", " ")
    return Lines(x=x, y=y, color=theme.muted, width=1.5, name=name, dash=DASHES[kind])


def spaced(starts: Sequence[tuple[float, float, str]], scale: float) -> Labels:
    """Causes at places `(x, y, cause)`, without those that would lie over another; `scale`: pixels a unit of x."""
    kept: list[tuple[float, float, str]] = []
    until: dict[float, float] = {}
    for x, y, cause in sorted(starts):
        if x * scale >= until.get(y, float("-inf")):
            kept.append((x, y, cause.replace("_", " ")))
            until[y] = x * scale + 7 * len(cause) + 4
    return Labels(x=[x for x, _, _ in kept], y=[y for _, y, _ in kept], text=[text for *_, text in kept])


def _hover(node: Node, cause: str) -> str:
    facts = [f"node {node.index}", node.message.role, "sampled" if node.sampled else "", f"call {node.call}"]
    if node.has_tokens:
        facts.append(f"{node.end - node.start} tokens")
    if cause:
        facts.append(f"fork: {cause}")
    return f"{' · '.join(filter(None, facts))}\n{preview(node.message, 160)}"


def _bare(
    title: str, layers: Sequence[Layer], columns: float, lanes: float, theme: Theme, note: str
) -> Chart:
    """A drawing without axes: one step a column, one lane a row."""
    step = _step(columns, static=True)
    width = min(_WIDEST, max(460.0, step * (columns + 1)))
    x = Axis(
        title="messages, in time from left to right",
        range=(-0.7, max(columns, width / step) - 0.3),
        hidden=True,
    )
    y = Axis(range=(-0.9, max(1.0, lanes) - 0.4), reverse=True, hidden=True)
    panel = Panel(x=x, y=y, layers=layers)
    height = _LANE * (max(1.0, lanes) + 0.5)
    return Chart(title=title, panels=[panel], width=width, height=height, note=note, theme=theme)


# Folded


def _folded(trace: Trace, title: str, *, static: bool) -> Chart:
    theme = current_theme()
    graph = trace_graph(trace, "branches")
    widths = {node: _width(data["messages"]) for node, data in graph.nodes(data=True)}
    places = boxes(graph, widths, height=0.55, gap=0.45)
    widest = _WIDEST / _NARROWEST
    shown = [n for n, box in places.items() if box.y < _MAX_LANES and box.x + box.width < widest]
    shown = shown if static else list(graph)
    columns = max((places[node].x + places[node].width for node in shown), default=1.0)
    layers = edges(graph, {node: places[node] for node in shown}, theme)
    causes = {node: data["cause"] for node, data in graph.nodes(data=True) if data["cause"]}
    members: dict[str, list[int]] = {}
    for node in shown:
        members.setdefault(causes.get(graph.nodes[node]["branch"], ""), []).append(node)
    for place, (cause, group) in enumerate(members.items()):
        layers.append(
            Rects(
                x=[places[node].x for node in group],
                y=[places[node].y for node in group],
                width=[places[node].width for node in group],
                height=0.55,
                color=[theme.series[place % len(theme.series)]] * len(group),
                text=[str(graph.nodes[node]["messages"]) for node in group] if columns < 60 or static else (),
                hover=[_folded_hover(node, graph.nodes[node]) for node in group],
                name=cause.replace("_", " ") or "first branch",
                ids=group,
            )
        )
    starts = [(places[n].x, places[n].y - 0.08, causes[n]) for n in shown if n in causes]
    layers.append(spaced(starts, _step(columns, static)))
    rows = max((places[node].y + 1 for node in shown), default=1.0)
    note = "A box is a stretch without branches, the number in it how many messages it holds."
    if len(shown) < len(graph):
        note += f" {len(shown)} of {len(graph)} boxes drawn; plot.figure has all."
    return _bare(title, layers, columns, rows, theme, note)


def _width(messages: int) -> float:
    """Of a box: grows slowly with what is folded into it."""
    return 0.8 + 0.25 * (messages.bit_length() - 1)


def _folded_hover(node: int, data: dict[str, Any]) -> str:
    numbers = f"node {node}" if data["messages"] == 1 else f"nodes {node} to {data['last']}"
    facts = [numbers, f"{data['messages']} messages, {data['turns']} replies"]
    if data["tokens"] is not None:
        facts.append(f"{data['tokens']:,} tokens")
    if data["cause"]:
        facts.append(f"fork: {data['cause']}")
    return f"{' · '.join(facts)}\n{data['text'][:100]}"


def edges(graph: nx.DiGraph, places: dict[Any, Box], theme: Theme) -> list[Layer]:
    """The edges between boxes, from the right side of one to the left side of the other, a layer a kind."""
    kinds: dict[str, tuple[list[float | None], list[float | None]]] = {}
    for source, target, data in graph.edges(data=True):
        if source not in places or target not in places:
            continue
        a, b = places[source], places[target]
        x, y = kinds.setdefault("" if data["kind"] == "continuation" else data["kind"], ([], []))
        start, end = a.x + a.width, b.x
        x += [start, min(end, start + 0.3), end, None]
        y += [a.y + a.height / 2, b.y + b.height / 2, b.y + b.height / 2, None]
    return [
        Lines(x=x, y=y, color=theme.muted, width=1.2, name=kind.replace("_", " "), dash=DASHES[kind])
        for kind, (x, y) in sorted(kinds.items())
    ]
