"""Means with intervals as a static drawing with its own background."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from vfnb.lab.html import esc
from vfnb.lab.means import COLORS, SYMBOLS, Chart, Line, Panel
from vfnb.lab.words import one_line

__all__ = ["means_svg"]

_WIDE, _HIGH, _LEFT, _TOP, _BOTTOM, _GAP = 300, 220, 56, 44, 50, 16
_FAINT = 'stroke-opacity="0.45"'


@dataclass(frozen=True)
class _Frame:
    """Where a panel stands, and from values to pixels."""

    start: float
    wide: float
    left: float
    right: float
    low: float
    high: float

    def across(self, x: float) -> float:
        return round(self.start + self.wide * (x - self.left) / (self.right - self.left), 1)

    def down(self, y: float) -> float:
        return round(_TOP + _HIGH * (self.high - y) / (self.high - self.low), 1)


def means_svg(chart: Chart) -> str:
    """The drawing; thin bars are the interval of a mean, thick ones that of a comparison."""
    one = len(chart.panels) == 1
    wide = max(460, min(900, 60 + 90 * len(chart.ticks))) if one else _WIDE
    width, height = _LEFT + (wide + _GAP) * len(chart.panels), _TOP + _HIGH + _BOTTOM
    left, right = _sides(chart)
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width}" height="{height}" '
        f'viewBox="0 0 {width} {height}" font-family="sans-serif" font-size="11" fill="#333333">',
        '<rect width="100%" height="100%" fill="#ffffff"/>',
        *_legend(chart, width),
    ]
    for column, panel in enumerate(chart.panels):
        frame = _Frame(_LEFT + column * (wide + _GAP), wide, left, right, *chart.range())
        parts += _axes(chart, panel, frame, labelled=column == 0)
        for place, line in enumerate(panel.lines):
            parts += _line(chart, line, place, len(panel.lines), frame)
    return "".join([*parts, "</svg>"])


def _sides(chart: Chart) -> tuple[float, float]:
    xs = [x for x, _ in chart.ticks]
    left, right = min(xs), max(xs)
    room = (0.06 * (right - left) or 0.5) if chart.numeric else 0.5
    return left - room, right + room


def _legend(chart: Chart, width: float) -> Iterator[str]:
    names = list(dict.fromkeys(line.name for panel in chart.panels for line in panel.lines if line.name))
    step = max(60, (width - _LEFT) / max(1, len(names)))
    for index, name in enumerate(names):
        x = _LEFT + 8 + index * step
        text = esc(one_line(name, max(8, int(step / 6))))
        yield _mark(index, x, 12) + f'<text x="{x + 10:g}" y="16">{text}</text>'


def _axes(chart: Chart, panel: Panel, frame: _Frame, *, labelled: bool) -> Iterator[str]:
    yield f'<rect x="{frame.start:g}" y="{_TOP}" width="{frame.wide:g}" height="{_HIGH}" fill="#f7f7f7"/>'
    title = panel.title or (chart.y if labelled else "")
    yield f'<text x="{frame.start:g}" y="{_TOP - 8}">{esc(one_line(title, 44))}</text>'
    for value in _steps(frame.low, frame.high):
        yield f'<path d="M{frame.start:g} {frame.down(value)}h{frame.wide:g}" stroke="#dddddd"/>'
        if labelled:
            place = f'x="{frame.start - 6:g}" y="{frame.down(value) + 4:g}"'
            yield f'<text {place} text-anchor="end">{value:g}</text>'
    fits = max(4, int(frame.wide / len(chart.ticks) / 6))
    for x, text in chart.ticks:
        place = f'x="{frame.across(x)}" y="{_TOP + _HIGH + 16}"'
        shown = f"<title>{esc(text)}</title>{esc(one_line(text, fits))}"
        yield f'<text {place} text-anchor="middle">{shown}</text>'
    middle = f'x="{frame.start + frame.wide / 2:g}" y="{_TOP + _HIGH + 36}"'
    yield f'<text {middle} text-anchor="middle">{esc(one_line(chart.x, 44))}</text>'


def _line(chart: Chart, line: Line, place: int, of: int, frame: _Frame) -> list[str]:
    color = COLORS[place % len(COLORS)]
    spots: list[str] = []
    drawn: list[str] = []
    for point in line.points:
        mean = point.mean
        if mean.mean is None:
            continue
        x, y = frame.across(chart.at(place, of, point.x)), frame.down(mean.mean)
        spots.append(f"{x} {y}")
        if mean.low is not None and mean.high is not None:
            drawn.append(f'<path d="M{x} {frame.down(mean.low)}V{frame.down(mean.high)}" stroke="{color}"/>')
        if point.paired is not None:
            top, bottom = frame.down(mean.mean + point.paired), frame.down(mean.mean - point.paired)
            drawn.append(f'<path d="M{x} {top}V{bottom}" stroke="{color}" stroke-width="5" {_FAINT}/>')
        drawn.append(_mark(place, x, y))
    joined = f'<path d="M{"L".join(spots)}" fill="none" stroke="{color}" stroke-width="1.5"/>'
    return [joined if chart.numeric and len(spots) > 1 else "", *drawn]


def _mark(place: int, x: float, y: float) -> str:
    color = COLORS[place % len(COLORS)]
    match SYMBOLS[place % len(SYMBOLS)]:
        case "circle":
            return f'<circle cx="{x:g}" cy="{y:g}" r="5" fill="{color}"/>'
        case "square":
            return f'<rect x="{x - 4.5:g}" y="{y - 4.5:g}" width="9" height="9" fill="{color}"/>'
        case "diamond":
            return f'<path d="M{x:g} {y - 6:g}l6 6l-6 6l-6-6z" fill="{color}"/>'
        case "triangle-up":
            return f'<path d="M{x:g} {y - 6:g}l6 11h-12z" fill="{color}"/>'
        case _:
            return f'<path d="M{x - 4:g} {y - 4:g}l8 8m0-8l-8 8" stroke="{color}" stroke-width="3"/>'


def _steps(low: float, high: float) -> list[float]:
    """Round values between two, about five."""
    size = 10 ** math.floor(math.log10((high - low) / 4))
    size = next(size * factor for factor in (1, 2, 5, 10) if (high - low) / (size * factor) <= 6)
    return [round(n * size, 10) for n in range(math.ceil(low / size), math.floor(high / size) + 1)]
