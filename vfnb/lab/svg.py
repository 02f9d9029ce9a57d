"""The static drawing of a trace: an SVG with its own background, put into html as an image.

An image sees neither the page's style nor its theme, and a saved notebook keeps it.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from vfnb.lab.html import esc
from vfnb.lab.layout import Layout

if TYPE_CHECKING:
    from vfnb.lab.links import Link
    from vfnb.trace.graph import MessageGraph, Node

__all__ = ["COLORS", "MAX_MARKS", "SYMBOLS", "image", "trace_svg"]

MAX_MARKS = 300
"""Messages drawn as marks; in a longer trace only the ends and forks of branches."""
_MAX_WIDTH = 1600
_MAX_LANES = 40
_STEP, _LANE, _PAD = 26, 34, 24

# Okabe and Ito's colours, told apart with any colour vision; the shape says the same.
COLORS = {
    "system": "#666666",
    "user": "#0072b2",
    "assistant": "#009e73",
    "tool": "#d55e00",
    "other": "#cc79a7",
}
SYMBOLS = {"system": "square", "user": "circle", "assistant": "diamond", "tool": "triangle-up", "other": "x"}


def _mark(role: str, x: float, y: float, *, filled: bool) -> str:
    color = COLORS[role]
    paint = f'fill="{color if filled else "#ffffff"}" stroke="{color}" stroke-width="2"'
    match SYMBOLS[role]:
        case "circle":
            return f'<circle cx="{x:g}" cy="{y:g}" r="5" {paint}/>'
        case "square":
            return f'<rect x="{x - 5:g}" y="{y - 5:g}" width="10" height="10" {paint}/>'
        case "diamond":
            return f'<path d="M{x:g} {y - 7:g}l7 7l-7 7l-7-7z" {paint}/>'
        case "triangle-up":
            return f'<path d="M{x:g} {y - 6:g}l6 11h-12z" {paint}/>'
        case _:
            return f'<path d="M{x - 5:g} {y - 5:g}l10 10m0-10l-10 10" {paint}/>'


def role_of(node: Node) -> str:
    """The role as drawn."""
    role = node.message.role
    return role if role in COLORS else "other"


def trace_svg(
    dag: MessageGraph, causes: Mapping[int, str], joined: Sequence[Link], places: Layout
) -> tuple[str, str]:
    """The drawing and what was left out of it (`""` if nothing).

    `causes` names the fork of each branch, by its first node; `joined` are drawn as dotted lines.
    """
    nodes = dag.nodes[: len(places.x)]
    lanes = min(places.lanes, _MAX_LANES)
    step = min(_STEP, _MAX_WIDTH / max(1, places.columns))
    inside = [node for node in nodes if places.y[node.index] < lanes]
    firsts = [node for node in inside if node.branch == node.index]
    ends = {*dag.tips.values(), *(node.index for node in firsts), *(node.parent for node in firsts)}
    marked = (
        inside if len(inside) <= MAX_MARKS else [node for node in inside if node.index in ends][:MAX_MARKS]
    )

    def at(index: int) -> tuple[float, float]:
        return _PAD + places.x[index] * step, 2 * _PAD + places.y[index] * _LANE

    width = max(460.0, 2 * _PAD + places.columns * step)
    height = _PAD + (1 + max(1, lanes)) * _LANE
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" font-family="sans-serif" font-size="11">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
    ]
    tips = {branch: tip for branch, tip in dag.tips.items() if branch < len(nodes) and tip < len(nodes)}
    lines: list[str] = []
    for branch, tip in list(tips.items()):
        if places.y[branch] >= lanes or len(lines) >= MAX_MARKS:
            continue
        (x0, y0), (x1, _) = at(branch), at(tip)
        parent = nodes[branch].parent
        start = "M{:g} {:g}L".format(*at(parent)) if parent >= 0 else "M"
        lines.append(f"{start}{x0:g} {y0:g}H{x1:g}")
    parts.append(f'<path d="{"".join(lines)}" fill="none" stroke="#999999" stroke-width="1.5"/>')
    dotted = [
        "M{:g} {:g}L{:g} {:g}".format(*at(link.source), *at(link.target))
        for link in joined
        if link.target < len(nodes) and max(places.y[link.source], places.y[link.target]) < lanes
    ]
    if dotted:
        data = "".join(dotted[:MAX_MARKS])
        parts.append(
            f'<path d="{data}" fill="none" stroke="#999999" stroke-width="1.5" stroke-dasharray="2 4"/>'
        )
    parts += [_mark(role_of(node), *at(node.index), filled=node.sampled) for node in marked]
    for branch, cause in list(causes.items())[:_MAX_LANES]:
        if branch < len(nodes) and places.y[branch] < lanes:
            x, y = at(branch)
            parts.append(f'<text x="{x - 5:g}" y="{y - 10:g}" fill="#333333">{esc(cause)}</text>')
    for position, role in enumerate(COLORS):
        x = _PAD + position * 84
        parts.append(
            _mark(role, x, 16, filled=True) + f'<text x="{x + 10}" y="20" fill="#333333">{role}</text>'
        )
    parts.append("</svg>")
    cut = []
    if len(marked) < len(nodes):
        cut.append(f"{len(marked)} of {len(nodes)} messages drawn")
    if lanes < places.lanes:
        cut.append(f"{lanes} of {places.lanes} lanes drawn")
    return "".join(parts), ", ".join(cut)


def image(svg: str, alt: str) -> str:
    """The drawing as an `<img>` that scrolls if it is wide."""
    data = base64.b64encode(svg.encode()).decode()
    return f'<div style="overflow-x:auto"><img src="data:image/svg+xml;base64,{data}" alt="{esc(alt)}"></div>'
