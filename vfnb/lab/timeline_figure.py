"""The timeline of a trace: each message as long as it was, in tokens, seconds or turns."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from typing import TYPE_CHECKING

from vfnb.errors import ConfigError
from vfnb.lab.charts import Axis, Chart, Layer, Lines, Panel, Rects, Scale
from vfnb.lab.extents import Extent, extents, sampled_tokens
from vfnb.lab.layout import lanes
from vfnb.lab.links import links
from vfnb.lab.messages import preview
from vfnb.lab.theme import Theme, current_theme
from vfnb.lab.tree_figure import DASHES, role_of, spaced
from vfnb.lab.words import number
from vfnb.trace.causes import forks

if TYPE_CHECKING:
    from vfnb.trace import Trace
    from vfnb.trace.graph import MessageGraph, Node

__all__ = ["COLORS", "timeline_chart"]

COLORS = ("role", "cause", "logprob", "entropy")
_TITLES = {
    "tokens": "tokens along the branch",
    "seconds": "seconds after the first call",
    "turns": "turns along the branch",
}
_BAR = 0.5  # of a lane
_WIDTH = 900  # pixels
_MAX_LANES = 40
_MAX_BARS = 900


def timeline_chart(trace: Trace, x: str, color: str, *, static: bool = False) -> Chart:
    """The timeline as a chart; `static` leaves out what a picture has no room for, and says so.

    Raises:
        ConfigError: an unknown `x` or `color`, or the trace has no such numbers.
    """
    if color not in COLORS:
        raise ConfigError(f"color={color!r} is none of {', '.join(COLORS)}")
    dag, theme = trace.dag, current_theme()
    places = extents(dag, x)
    nodes = dag.nodes[: len(places)]
    reach: dict[int, Extent] = {}
    for node, (start, end) in zip(nodes, places, strict=True):
        first, last = reach.get(node.branch, (start, end))
        reach[node.branch] = min(first, start), max(last, end)
    span = max((end for _, end in places), default=0.0) or 1.0
    lane = lanes(reach, gap=span / 40)
    rows = 1 + max(lane.values(), default=0)
    top = min(rows, _MAX_LANES) if static else rows
    shown = [node for node in nodes if lane[node.branch] < top]
    shown = shown[:_MAX_BARS] if static else shown
    layers, scale = _bars(dag, shown, places, lane, color, span / 500, theme)
    causes = {first: fork.cause for first, fork in forks(dag).items()}
    begun = [node for node in shown if node.index in causes]
    layers = [*_links(dag, shown, places, lane, theme), *layers]
    starts = [(places[n.index][0], lane[n.branch] + 0.1, causes[n.index]) for n in begun]
    layers.append(spaced(starts, _WIDTH / span))
    panel = Panel(
        x=Axis(title=_TITLES[x], range=(-span * 0.01, span * 1.03)),
        y=Axis(range=(-0.1, top + 0.0), reverse=True, hidden=True),
        layers=layers,
    )
    title = f"Trace {trace.id[:8]}: {len(nodes)} messages by {x}, coloured by {color}"
    note = _note(dag, x, scale, f"{len(shown)} of {len(nodes)}" if len(shown) < len(nodes) else "")
    return Chart(
        title=title, panels=[panel], width=_WIDTH, height=40 * top, note=note, scale=scale, theme=theme
    )


def _note(dag: MessageGraph, x: str, scale: Scale | None, shown: str) -> str:
    """How to read it, and what is missing."""
    said = ["Branches are lanes; a lane is used again when its branch has ended."]
    if x != "seconds" and len(dag.roots) > 1:
        said.append("A new root starts where the message before it ended.")
    if x == "tokens" and dag.columns is None:
        said.append(
            "Tokens as the provider counted them; a prompt's new messages share its tokens by length."
        )
    if scale is not None:
        said.append("The colour of a reply is the mean of its sampled tokens.")
    if shown:
        said.append(f"{shown} messages drawn; plot.figure has all.")
    return " ".join(said)


def _bars(
    dag: MessageGraph,
    nodes: Sequence[Node],
    places: Sequence[Extent],
    lane: dict[int, int],
    color: str,
    least: float,
    theme: Theme,
) -> tuple[list[Layer], Scale | None]:
    """The messages: replies full, context hollow. `least` is the width of what has none."""
    colors, names, scale = _colors(dag, nodes, color, theme)
    groups: dict[tuple[str, bool], list[Node]] = defaultdict(list)
    for node in nodes:
        groups[names[node.index], node.sampled].append(node)
    letters = 120 if len(nodes) <= 500 else 40 if len(nodes) <= 2000 else 0
    layers: list[Layer] = []
    for (name, sampled), group in groups.items():
        layers.append(
            Rects(
                x=[places[node.index][0] for node in group],
                y=[lane[node.branch] + 0.2 for node in group],
                width=[max(least, places[node.index][1] - places[node.index][0]) for node in group],
                height=_BAR,
                color=[colors[node.index] for node in group],
                filled=sampled,
                hover=[_hover(node, places[node.index], letters) for node in group],
                name=f"{name}, sampled" if sampled and name else name,
                ids=[node.index for node in group],
            )
        )
    return layers, scale


def _colors(
    dag: MessageGraph, nodes: Sequence[Node], color: str, theme: Theme
) -> tuple[dict[int, str], dict[int, str], Scale | None]:
    """Of each message its colour and its name in the legend; and the scale, if the colour is a number."""
    if color == "role":
        names = {node.index: role_of(node.message.role) for node in nodes}
        return {index: theme.roles[name] for index, name in names.items()}, names, None
    if color == "cause":
        causes = {first: fork.cause.replace("_", " ") for first, fork in forks(dag).items()}
        names = {node.index: causes.get(node.branch, "first branch") for node in nodes}
        kinds = list(dict.fromkeys(names.values()))
        hues = {kind: theme.series[place % len(theme.series)] for place, kind in enumerate(kinds)}
        return {index: hues[name] for index, name in names.items()}, names, None
    surprise = _surprise(dag, color)
    scale = Scale("-logprob (nats)", 0.0, max(surprise.values()))
    names = {node.index: "" if node.index in surprise else "context, no logprobs" for node in nodes}
    shades = {index: scale.color(value, theme) for index, value in surprise.items()}
    return {node.index: shades.get(node.index, theme.missing) for node in nodes}, names, scale


def _surprise(dag: MessageGraph, color: str) -> dict[int, float]:
    """Mean -logprob of the sampled tokens of each message that has some."""
    columns, nodes = dag.columns, dag.nodes[: len(dag.nodes)]
    if color == "entropy":
        raise ConfigError(
            "entropy needs the probabilities of all tokens at a position, and a trace keeps that of the sampled "
            "one; color='logprob' shows the mean -logprob, whose expectation is the entropy"
        )
    drawn = sampled_tokens(dag, nodes) if columns is not None else []
    if columns is None or not any(drawn):
        raise ConfigError(
            "this trace has no logprobs: its model was called without token ids. Use a token client "
            "(vf.TrainClient, vf.VLLM, vf.Embedded), or color='role'"
        )
    import numpy as np

    total = np.concatenate([[0.0], np.cumsum(-columns.logprobs[: columns.size].astype(np.float64))])
    return {
        node.index: float(total[node.end] - total[node.start]) / count
        for node, count in zip(nodes, drawn, strict=True)
        if count
    }


def _links(
    dag: MessageGraph,
    nodes: Sequence[Node],
    places: Sequence[Extent],
    lane: dict[int, int],
    theme: Theme,
) -> list[Layer]:
    """Where branches leave, and the relations between them, as lines between lanes."""
    shown = {node.index: node for node in nodes}
    pairs = {"": [(n.parent, n.index) for n in nodes if n.parent in shown and n.branch == n.index]}
    for link in links(dag):
        if link.source in shown and link.target in shown:
            pairs.setdefault(link.kind, []).append((link.source, link.target))
    layers: list[Layer] = []
    for kind, ends in sorted(pairs.items()):
        x: list[float | None] = []
        y: list[float | None] = []
        for source, target in ends:
            x += [places[source][1], places[target][0], None]
            y += [lane[shown[source].branch] + 0.45, lane[shown[target].branch] + 0.45, None]
        name = kind.replace("_", " ")
        layers.append(Lines(x=x, y=y, color=theme.muted, width=1.2, name=name, dash=DASHES[kind]))
    return layers


def _hover(node: Node, place: Extent, letters: int) -> str:
    length = place[1] - place[0]
    facts = [f"node {node.index}", node.message.role, "sampled" if node.sampled else "", f"call {node.call}"]
    facts.append(f"{number(place[0])} + {number(length)}")
    said = f"\n{preview(node.message, letters)}" if letters else ""
    return f"{' · '.join(filter(None, facts))}{said}"
