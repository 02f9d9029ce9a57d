"""A chart as static SVG with its own background: an image sees neither the page's style nor its theme."""

from __future__ import annotations

import base64
from collections.abc import Iterator
from dataclasses import dataclass
from textwrap import wrap

from vfnb.lab.charts import Axis, Bars, Chart, Panel
from vfnb.lab.html import esc
from vfnb.lab.scales import axis_range, number_ticks, pixels, tick_text
from vfnb.lab.svg_marks import CHAR, HATCH, Place, draw, key, text_at
from vfnb.lab.theme import Theme
from vfnb.lab.words import one_line

__all__ = ["chart_svg", "image"]

_NAME = 30  # letters of a name on an axis
_PAD = 16
_GAP = 26  # between panels


def image(svg: str, alt: str) -> str:
    """The drawing as an `<img>` that scrolls if it is wide."""
    data = base64.b64encode(svg.encode()).decode()
    return f'<div style="overflow-x:auto"><img src="data:image/svg+xml;base64,{data}" alt="{esc(alt)}"></div>'


def chart_svg(chart: Chart) -> str:
    """The whole drawing."""
    theme = chart.theme
    drawn = [_Drawn.of(panel, chart) for panel in chart.panels]
    columns = min(chart.columns, max(1, len(drawn)))
    grid = [drawn[start : start + columns] for start in range(0, len(drawn), columns)]
    left = max((one.left for one in drawn), default=0)
    width = max(380, 2 * _PAD + columns * (left + chart.width) + (columns - 1) * _GAP)
    parts: list[str] = []
    y = 2.0 * _PAD
    parts.append(text_at(_PAD, y, one_line(chart.title, int(width / 7.4)), theme.ink, size=14, bold=True))
    legend, y = _legend(chart, width, y + 12)
    parts += legend
    for row in grid:
        top = max(one.top for one in row)
        for column, one in enumerate(row):
            x = _PAD + left + column * (left + chart.width + _GAP)
            parts.append(f'<g transform="translate({x:g} {y + top:g})">{one.body}</g>')
        y += top + chart.height + max(one.bottom for one in row)
    for line in wrap(chart.note, int((width - 2 * _PAD) / 5.8)) if chart.note else ():
        y += 15
        parts.append(text_at(_PAD, y, line, theme.muted))
    height = y + _PAD
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width:g}" height="{height:g}" '
        f'viewBox="0 0 {width:g} {height:g}" font-family="DejaVu Sans,Verdana,sans-serif" font-size="11">'
        f'<rect width="100%" height="100%" fill="{theme.paper}"/>{HATCH if _hatched(chart) else ""}'
        f"{''.join(parts)}</svg>"
    )


def _hatched(chart: Chart) -> bool:
    return any(isinstance(layer, Bars) and layer.hatched for panel in chart.panels for layer in panel.layers)


# Panels


@dataclass(frozen=True, slots=True)
class _Drawn:
    body: str
    """With the upper left corner of the axes at 0, 0."""
    left: float
    top: float
    bottom: float

    @classmethod
    def of(cls, panel: Panel, chart: Chart) -> _Drawn:
        theme, width, height = chart.theme, chart.width, chart.height
        across = axis_range(panel, vertical=False)
        up = axis_range(panel, vertical=True)
        x = pixels(panel.x, across, width, vertical=False)
        y = pixels(panel.y, up, height, vertical=True)
        parts = []
        left, bottom = 0.0, 8.0
        if panel.title:
            parts.append(
                text_at(0, -8, one_line(panel.title, int(width / 6.2)), theme.ink, size=12, bold=True)
            )
        if not panel.y.hidden:
            ticks = _ticks(panel.y, up, int(height / 34))
            left = 14 + (16 if panel.y.title else 0) + CHAR * max((len(t) for _, t in ticks), default=0)
            for at, text in ticks:
                parts.append(text_at(-7, y(at) + 4, text, theme.ink, anchor="end"))
                if panel.y.names is None:
                    parts.append(f'<path d="M0 {y(at):g}h{width:g}" stroke="{theme.grid}"/>')
            if panel.y.title:
                where = f"translate({14 - left:g} {height / 2:g}) rotate(-90)"
                parts.append(
                    f'<g transform="{where}">{text_at(0, 0, panel.y.title, theme.ink, anchor="middle")}</g>'
                )
        if not panel.x.hidden:
            ticks = _ticks(panel.x, across, int(width / 70))
            texts, bottom = _bottom(ticks, x, width, height, theme)
            parts += texts
            if panel.x.names is None:
                parts += [f'<path d="M{x(at):g} 0v{height:g}" stroke="{theme.grid}"/>' for at, _ in ticks]
        if panel.x.title:
            parts.append(text_at(width / 2, height + bottom + 10, panel.x.title, theme.ink, anchor="middle"))
            bottom += 18
        if not (panel.x.hidden and panel.y.hidden):
            parts.append(f'<path d="M0 0V{height:g}H{width:g}" fill="none" stroke="{theme.muted}"/>')
        for layer in panel.layers:
            parts += draw(layer, x, y, chart)
        return cls("".join(parts), left, 26.0 if panel.title else 8.0, bottom + 6)


def _ticks(axis: Axis, ends: tuple[float, float], most: int) -> list[tuple[float, str]]:
    if axis.names is not None:
        step = -(-len(axis.names) // max(most * 2, 1)) if len(axis.names) > 60 else 1
        return [(place, one_line(name, _NAME)) for place, name in enumerate(axis.names) if place % step == 0]
    named = [(at, one_line(text, _NAME)) for at, text in axis.ticks]
    if axis.log2:
        powers = [2.0**power for power in range(31) if ends[0] <= 2.0**power <= ends[1]]
        return [(at, tick_text(at)) for at in powers] + named
    return number_ticks(*(axis.numbers or ends), max(2, most)) + named


def _bottom(
    ticks: list[tuple[float, str]], x: Place, width: float, height: float, theme: Theme
) -> tuple[list[str], float]:
    """Words below the axis, turned if they do not fit beside each other; and how much room they take."""
    longest = max((len(text) for _, text in ticks), default=0)
    if longest * CHAR * len(ticks) <= width * 0.98:
        return [text_at(x(at), height + 15, text, theme.ink, anchor="middle") for at, text in ticks], 22.0
    step = max(1, int(-(-len(ticks) * 13 // width)))
    turned = [
        f'<g transform="translate({x(at) + 4:g} {height + 10:g}) rotate(-40)">'
        f"{text_at(0, 0, text, theme.ink, anchor='end')}</g>"
        for at, text in ticks[::step]
    ]
    return turned, 18 + longest * CHAR * 0.66


# Legend


def _legend(chart: Chart, width: float, y: float) -> tuple[list[str], float]:
    """Entries in rows from the left, and where they end."""
    parts: list[str] = []
    x = float(_PAD)
    seen: set[str] = set()
    entries = [layer for panel in chart.panels for layer in panel.layers if getattr(layer, "name", "")]
    for layer in entries:
        name = one_line(layer.name, 48)  # type: ignore[union-attr]
        if name in seen:
            continue
        room = 24 + CHAR * len(name) + 14
        if seen and x + room > width:
            x, y = float(_PAD), y + 18
        seen.add(name)
        parts += key(layer, x + 8, y + 8, chart.theme)
        parts.append(text_at(x + 22, y + 12, name, chart.theme.ink))
        x += room
    y += 24 if seen else 6
    if chart.scale is not None:
        parts += _scale_key(chart, y)
        y += 22
    return parts, y


def _scale_key(chart: Chart, y: float) -> Iterator[str]:
    scale, theme = chart.scale, chart.theme
    assert scale is not None
    yield text_at(_PAD, y + 12, f"{scale.title}:", theme.ink)
    x = _PAD + CHAR * (len(scale.title) + 2)
    low = tick_text(scale.low)
    if scale.high > scale.low:
        yield text_at(x, y + 12, low, theme.ink)
        x += CHAR * len(low) + 8
        for step in range(20):
            color = scale.color(scale.low + (scale.high - scale.low) * step / 19, theme)
            yield f'<rect x="{x + 6 * step:g}" y="{y + 2:g}" width="6.5" height="12" fill="{color}"/>'
        yield text_at(x + 128, y + 12, tick_text(scale.high), theme.ink)
    else:
        yield f'<rect x="{x:g}" y="{y + 2:g}" width="12" height="12" fill="{scale.color(scale.low, theme)}"/>'
        yield text_at(x + 18, y + 12, low, theme.ink)
