"""Means with intervals: what is drawn, and the interactive figure of it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape
from typing import TYPE_CHECKING

from vfnb.lab.intervals import Estimate
from vfnb.lab.words import number, one_line

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["COLORS", "MAX_LINES", "SYMBOLS", "Chart", "Line", "Panel", "Point", "means_figure"]

# Okabe and Ito's colours, told apart with any colour vision; the shape says the same.
COLORS = ("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#e69f00", "#56b4e9", "#666666", "#8a7300")
SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x")
MAX_LINES = len(COLORS)


@dataclass(frozen=True)
class Point:
    """One mean."""

    x: float
    label: str
    """Its place in words."""
    mean: Estimate
    paired: float | None
    """Half width of its interval without what all points share."""
    note: str = ""
    """Such as rollouts that failed."""


@dataclass(frozen=True)
class Line:
    """The means of one colour, in the order of x."""

    name: str
    points: tuple[Point, ...]


@dataclass(frozen=True)
class Panel:
    """One facet."""

    title: str
    lines: tuple[Line, ...]


@dataclass(frozen=True)
class Chart:
    """Panels that share both axes."""

    y: str
    x: str
    numeric: bool
    """Whether x is a number; else its places are 0, 1, 2, ..."""
    ticks: tuple[tuple[float, str], ...]
    panels: tuple[Panel, ...]

    def at(self, place: int, of: int, x: float) -> float:
        """Where a point is drawn: lines stand beside each other, on an axis of numbers only just."""
        edges = [x for x, _ in self.ticks]
        step = 0.012 * (max(edges) - min(edges)) if self.numeric else 0.6 / max(1, of)
        return x + (place - (of - 1) / 2) * step

    def range(self) -> tuple[float, float]:
        """Of y, with some room."""
        every = [value for _, _, point in self.points() for value in _reach(point)]
        low, high = (min(every), max(every)) if every else (0.0, 1.0)
        room = 0.06 * (high - low) or 0.5 * abs(high) or 0.5
        return low - room, high + room

    def points(self) -> list[tuple[Panel, Line, Point]]:
        """Every point, with where it stands."""
        return [
            (panel, line, point) for panel in self.panels for line in panel.lines for point in line.points
        ]


def _reach(point: Point) -> list[float]:
    mean, half = point.mean.mean, point.paired or 0.0
    if mean is None:
        return []
    found = [mean - half, mean + half, point.mean.low, point.mean.high]
    return [value for value in found if value is not None]


# plotly


def means_figure(chart: Chart, title: str) -> go.Figure:
    """The interactive figure: thin bars are the interval of a mean, thick ones that of a comparison."""
    from plotly.subplots import make_subplots

    figure = make_subplots(
        rows=1,
        cols=len(chart.panels),
        shared_yaxes=True,
        subplot_titles=[escape(panel.title) for panel in chart.panels],
        horizontal_spacing=0.03,
    )
    listed: set[str] = set()
    for column, panel in enumerate(chart.panels, start=1):
        for place, line in enumerate(panel.lines):
            shown = [point for point in line.points if point.mean.mean is not None]
            look = {"color": COLORS[place % len(COLORS)]}
            spots = {
                "x": [chart.at(place, len(panel.lines), point.x) for point in shown],
                "y": [point.mean.mean for point in shown],
                "name": escape(line.name),
                "legendgroup": line.name,
            }
            figure.add_scatter(
                **spots,
                mode="lines+markers" if chart.numeric else "markers",
                showlegend=bool(line.name) and line.name not in listed,
                marker={**look, "symbol": SYMBOLS[place % len(SYMBOLS)], "size": 9},
                line={**look, "width": 1.5},
                error_y=_bars(shown, {**look, "thickness": 1.2, "width": 4}),
                hovertext=[_hover(line, point) for point in shown],
                hoverinfo="text",
                row=1,
                col=column,
            )
            listed.add(line.name)
            if any(point.paired is not None for point in shown):
                halves = [point.paired or 0.0 for point in shown]
                figure.add_scatter(
                    **spots,
                    mode="markers",
                    marker={"size": 1, **look},
                    showlegend=False,
                    hoverinfo="skip",
                    error_y={
                        "type": "data",
                        "array": halves,
                        "thickness": 5,
                        "width": 0,
                        "color": _faint(place),
                    },
                    row=1,
                    col=column,
                )
    figure.update_layout(
        title={"text": escape(title), "yref": "container", "y": 0.97, "yanchor": "top"},
        height=420,
        margin={"l": 60, "r": 20, "t": 90, "b": 60},
        paper_bgcolor="rgba(0,0,0,0)",
        plot_bgcolor="rgba(128,128,128,0.06)",
        font={"color": "rgb(128,128,128)"},
        legend={"orientation": "h", "x": 0, "y": 1.06, "yanchor": "bottom"},
    )
    figure.update_xaxes(title=escape(chart.x), gridcolor="rgba(128,128,128,0.2)", zeroline=False)
    if not chart.numeric:
        places, names = zip(*chart.ticks, strict=True)
        edge = [min(places) - 0.5, max(places) + 0.5]
        short = [escape(one_line(name, 40)) for name in names]
        figure.update_xaxes(tickmode="array", tickvals=places, ticktext=short, range=edge, showgrid=False)
    figure.update_yaxes(gridcolor="rgba(128,128,128,0.2)", zeroline=False, range=list(chart.range()))
    figure.update_yaxes(title=escape(chart.y), col=1)
    return figure


def _faint(place: int) -> str:
    color = COLORS[place % len(COLORS)]
    return f"rgba({int(color[1:3], 16)},{int(color[3:5], 16)},{int(color[5:], 16)},0.45)"


def _bars(points: Sequence[Point], look: dict[str, object]) -> dict[str, object]:
    def arm(point: Point, edge: float | None) -> float:
        return 0.0 if edge is None or point.mean.mean is None else abs(edge - point.mean.mean)

    return {
        "type": "data",
        "array": [arm(point, point.mean.high) for point in points],
        "arrayminus": [arm(point, point.mean.low) for point in points],
        **look,
    }


def _hover(line: Line, point: Point) -> str:
    mean = point.mean
    told = [f"{line.name}, {point.label}" if line.name else point.label, f"mean {number(mean.mean)}"]
    if mean.low is not None:
        told.append(f"interval {number(mean.low)} to {number(mean.high)}")
    if point.paired is not None:
        told.append(f"paired ± {number(point.paired, 2)}")
    told.append(f"{mean.n} rollouts, {mean.clusters} tasks")
    return "<br>".join(escape(part) for part in [*told, point.note] if part)
