"""Figures: a plotly figure to play with, and a static twin of the same numbers for a saved notebook."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Callable, Mapping
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vfnb.errors import ConfigError
from vfnb.lab.html import MUTED, Page, esc
from vfnb.lab.layout import Layout, layout
from vfnb.lab.links import Link, links
from vfnb.lab.messages import preview
from vfnb.lab.svg import COLORS, SYMBOLS, image, role_of, trace_svg
from vfnb.lab.text import lines
from vfnb.trace.causes import forks

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from vfnb.trace import Trace
    from vfnb.trace.graph import MessageGraph, Node

__all__ = ["Plot", "lanes_style", "plot_trace"]

PLOTLY = "application/vnd.plotly.v1+json"


class Plot:
    """A figure and its static twin. `figure` is a plain `plotly.graph_objects.Figure`, built on first use."""

    def __init__(
        self, title: str, build: Callable[[], go.Figure], *, svg: str, text: str, note: str = ""
    ) -> None:
        self.title = title
        self.svg = svg
        self.text = text
        self._note = note
        self._build = build
        self._figure: go.Figure | None = None

    @property
    def figure(self) -> go.Figure:
        """The interactive figure; changes to it are shown."""
        if self._figure is None:
            self._figure = self._build()
        return self._figure

    @property
    def html(self) -> str:
        """The static twin."""
        page = Page("plot")
        page.add(f"<div><b>{esc(self.title)}</b></div>")
        page.add(image(self.svg, self.title))
        page.add(f'<div style="{MUTED}">{esc(self._note)}</div>' if self._note else "")
        return page.close("plot.figure")

    def save(self, path: str | Path) -> Path:
        """Write the static twin as `.html` or `.svg`. For an interactive page use `plot.figure.write_html`.

        Raises:
            ConfigError: another suffix.
        """
        path = Path(path)
        match path.suffix:
            case ".svg":
                path.write_text(self.svg, encoding="utf-8")
            case ".html":
                head = f'<!doctype html><meta charset="utf-8"><title>{esc(self.title)}</title>'
                path.write_text(head + self.html, encoding="utf-8")
            case other:
                raise ConfigError(f"cannot save a plot as {other!r}; use a path ending in .html or .svg")
        return path

    def __repr__(self) -> str:
        return f"Plot({self.title!r})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {
            PLOTLY: json.loads(self.figure.to_json()),
            "text/html": self.html,
            "text/plain": self.text,
        }


def plot_trace(trace: Trace) -> Plot:
    """The messages of a trace: branches as lanes, time to the right, colour and shape by role.

    Filled marks were sampled from the model; hollow ones are context.
    """
    dag = trace.dag
    causes = {first: fork.cause for first, fork in forks(dag).items()}
    joined = links(dag)
    places = layout(dag, joined)
    title = f"Trace {trace.id[:8]}: {len(places.x)} messages, {len(dag.tips)} branches"
    svg, note = trace_svg(dag, causes, joined, places)
    return Plot(
        title,
        lambda: _figure(title, dag, places, causes, joined),
        svg=svg,
        text=_text(title, dag, causes),
        note=f"{note}; plot.figure has all" if note else "",
    )


def _figure(
    title: str, dag: MessageGraph, places: Layout, causes: Mapping[int, str], joined: list[Link]
) -> go.Figure:
    import plotly.graph_objects as go

    nodes = dag.nodes[: len(places.x)]
    figure = go.Figure()
    _lines(figure, places, [(node.parent, node.index) for node in nodes if node.parent >= 0])
    for kind in sorted({link.kind for link in joined}):
        pairs = [
            (link.source, link.target) for link in joined if link.kind == kind and link.target < len(nodes)
        ]
        _lines(figure, places, pairs, name=kind.replace("_", " "))
    groups: dict[tuple[str, bool], list[Node]] = defaultdict(list)
    for node in nodes:
        groups[role_of(node), node.sampled].append(node)
    preview = 160 if len(nodes) <= 1000 else 50
    for (role, sampled), members in sorted(groups.items()):
        figure.add_scatter(
            x=[places.x[node.index] for node in members],
            y=[places.y[node.index] for node in members],
            mode="markers",
            name=f"{role}, sampled" if sampled else role,
            marker={
                "color": COLORS[role],
                "symbol": SYMBOLS[role] if sampled else f"{SYMBOLS[role]}-open",
                "size": 11,
                "line": {"color": COLORS[role], "width": 2},
            },
            customdata=[node.index for node in members],
            hovertext=[_hover(node, causes.get(node.index, ""), preview) for node in members],
            hoverinfo="text",
        )
    figure.update_layout(
        title={"text": escape(title), "yref": "container", "y": 0.96, "yanchor": "top"},
        height=min(900, 190 + 36 * places.lanes),
    )
    return lanes_style(figure, "messages, in time from left to right", legend_y=1)


def lanes_style(figure: go.Figure, title: str, *, legend_y: float) -> go.Figure:
    """How drawings of lanes look: no grid, the first lane above, time to the right under `title`."""
    figure.update_layout(
        margin={"l": 20, "r": 20, "t": 80, "b": 50},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(128,128,128,0.06)",
        font={"color": "rgb(128,128,128)"},
        legend={"orientation": "h", "x": 0, "y": legend_y, "yanchor": "bottom"},
        hovermode="closest",
    )
    figure.update_xaxes(title=title, showgrid=False, zeroline=False)
    figure.update_yaxes(autorange="reversed", showticklabels=False, showgrid=False, zeroline=False)
    return figure


def _lines(figure: go.Figure, places: Layout, pairs: list[tuple[int, int]], name: str = "") -> None:
    """Straight lines between nodes; named ones are dotted and listed in the legend."""
    x: list[int | None] = []
    y: list[int | None] = []
    for source, target in pairs:
        x += [places.x[source], places.x[target], None]
        y += [places.y[source], places.y[target], None]
    line = {"color": "rgba(128,128,128,0.6)", "width": 1.5, "dash": "dot" if name else "solid"}
    figure.add_scatter(x=x, y=y, mode="lines", hoverinfo="skip", name=name, showlegend=bool(name), line=line)


def _hover(node: Node, cause: str, limit: int) -> str:
    """Escaped: the hover box of plotly reads tags and links."""
    facts = [f"node {node.index}", node.message.role, "sampled" if node.sampled else "", f"call {node.call}"]
    if node.has_tokens:
        facts.append(f"{node.end - node.start} tokens")
    if cause:
        facts.append(f"fork: {cause}")
    return f"{escape(' · '.join(filter(None, facts)))}<br>{escape(preview(node.message, limit))}"


def _text(title: str, dag: MessageGraph, causes: Mapping[int, str]) -> str:
    """One line a branch: its cause, where it leaves its parent, and its roles (capital if sampled)."""
    own: dict[int, list[Node]] = defaultdict(list)
    for node in dag.nodes[: len(dag.nodes)]:
        own[node.branch].append(node)
    told = []
    for first, members in own.items():
        parent = members[0].parent
        start = f"from node {parent}" if parent >= 0 else "root"
        roles = "".join(
            role_of(node)[0].upper() if node.sampled else role_of(node)[0] for node in members[:60]
        ) + ("…" if len(members) > 60 else "")
        cause = f", {causes[first]}" if first in causes else ""
        told.append(f"branch at node {first} ({start}{cause}): {len(members)} messages {roles}")
    key = "roles: s system, u user, a assistant, t tool, o other; capital: sampled"
    return lines([title, key], told, rest="plot.figure")
