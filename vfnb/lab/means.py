"""Means with intervals over one axis, by colour and by panel, as a chart."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vfnb.lab import charts
from vfnb.lab.intervals import Estimate
from vfnb.lab.theme import LIGHT, Theme, current_theme
from vfnb.lab.words import number

__all__ = ["MAX_LINES", "Line", "Means", "Panel", "Point", "means_chart"]

MAX_LINES = len(LIGHT.series)
_SYMBOLS = ("circle", "square", "diamond", "triangle-up", "x")


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
class Means:
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


def means_chart(means: Means, title: str, note: str) -> charts.Chart:
    """The chart: thin bars are the interval of a mean, thick faint ones that of a comparison."""
    theme = current_theme()
    alone = len(means.panels) == 1
    names = None if means.numeric else [name for _, name in means.ticks]
    low, high = means.range()
    panels = [
        charts.Panel(
            title=panel.title,
            x=charts.Axis(title=means.x, names=names),
            y=charts.Axis(title=means.y if place == 0 else "", range=(low, high)),
            layers=[
                layer for number in range(len(panel.lines)) for layer in _layers(means, panel, number, theme)
            ],
        )
        for place, panel in enumerate(means.panels)
    ]
    return charts.Chart(
        title=title,
        panels=panels,
        columns=min(4, len(panels)),
        width=max(400, min(840, 90 * len(means.ticks))) if alone else 260,
        height=240,
        note=note,
        theme=theme,
    )


def _layers(means: Means, panel: Panel, place: int, theme: Theme) -> Iterator[charts.Layer]:
    """One line: its marks with their intervals, above the intervals of the comparison."""
    line = panel.lines[place]
    shown = [(point, point.mean.mean) for point in line.points if point.mean.mean is not None]
    x = [means.at(place, len(panel.lines), point.x) for point, _ in shown]
    y = [mean for _, mean in shown]
    color, symbol = theme.series[place % MAX_LINES], _SYMBOLS[place % len(_SYMBOLS)]
    if any(point.paired is not None for point, _ in shown):
        halves = [point.paired or 0.0 for point, _ in shown]
        yield charts.Lines(
            x=x,
            y=y,
            low=[mean - half for mean, half in zip(y, halves, strict=True)],
            high=[mean + half for mean, half in zip(y, halves, strict=True)],
            color=color,
            width=0,
            bar=5,
        )
    yield charts.Lines(
        x=x,
        y=y,
        low=[point.mean.low for point, _ in shown],
        high=[point.mean.high for point, _ in shown],
        color=color,
        symbol=symbol,
        width=1.5 if means.numeric else 0,
        name=line.name,
        hover=[_hover(line, point) for point, _ in shown],
    )


def _hover(line: Line, point: Point) -> str:
    mean = point.mean
    told = [f"{line.name}, {point.label}" if line.name else point.label, f"mean {number(mean.mean)}"]
    if mean.low is not None:
        told.append(f"interval {number(mean.low)} to {number(mean.high)}")
    if point.paired is not None:
        told.append(f"paired ± {number(point.paired, 2)}")
    told.append(f"{mean.n} rollouts, {mean.clusters} tasks")
    return "\n".join(part for part in [*told, point.note] if part)
