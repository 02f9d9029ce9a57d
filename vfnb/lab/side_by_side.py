"""Traces of one task beside each other: the same task, solved in different ways."""

from __future__ import annotations

from collections.abc import Mapping
from html import escape
from typing import TYPE_CHECKING

from vfnb.errors import ConfigError
from vfnb.lab.figures import Plot, lanes_style, plot_trace
from vfnb.lab.html import esc

if TYPE_CHECKING:
    import plotly.graph_objects as go

    from vfnb.trace import Trace

__all__ = ["plot_traces"]

_MAX = 8
_TITLE, _GAP = 24, 16  # pixels above a drawing, and between two
_WIDE = 1600


def plot_traces(traces: Mapping[str, Trace]) -> Plot:
    """The graphs of several traces beside each other, each under its name; wide drawings stand in a column.

    Raises:
        ConfigError: there are none, or more than 8.
    """
    if not 1 <= len(traces) <= _MAX:
        raise ConfigError(f"{len(traces)} traces to draw; give 1 to {_MAX}")
    plots = {name: plot_trace(trace) for name, trace in traces.items()}
    return Plot(
        " · ".join(traces),
        lambda: _figure(plots),
        svg=_drawing(plots),
        text="\n\n".join(f"{name}: {plot.text}" for name, plot in plots.items()),
    )


def _figure(plots: Mapping[str, Plot]) -> go.Figure:
    from plotly.subplots import make_subplots

    figure = make_subplots(
        rows=1, cols=len(plots), subplot_titles=[escape(name) for name in plots], horizontal_spacing=0.03
    )
    listed: set[str] = set()
    for column, plot in enumerate(plots.values(), start=1):
        for part in plot.figure.data:
            part.showlegend = part.showlegend is not False and part.name not in listed
            part.legendgroup = part.name
            listed.add(part.name)
            figure.add_trace(part, row=1, col=column)
        figure.layout.height = max(figure.layout.height or 0, plot.figure.layout.height)
    return lanes_style(figure, "messages, in time", legend_y=1.12)


def _drawing(plots: Mapping[str, Plot]) -> str:
    sizes = [_size(plot.svg) for plot in plots.values()]
    beside = sum(width + _GAP for width, _ in sizes) <= _WIDE
    parts = []
    x = y = 0.0
    for (name, plot), (width, height) in zip(plots.items(), sizes, strict=True):
        parts.append(
            f'<text x="{x + 8:g}" y="{y + 16:g}" fill="#333333" font-weight="bold">{esc(name)}</text>'
        )
        parts.append(plot.svg.replace("<svg ", f'<svg x="{x:g}" y="{y + _TITLE:g}" ', 1))
        x, y = (x + width + _GAP, y) if beside else (x, y + height + _TITLE + _GAP)
    wide = x - _GAP if beside else max(width for width, _ in sizes)
    high = max(height for _, height in sizes) + _TITLE if beside else y - _GAP
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{wide:g}" height="{high:g}" '
        f'viewBox="0 0 {wide:g} {high:g}" font-family="sans-serif" font-size="12">'
        f'<rect width="100%" height="100%" fill="#ffffff"/>{"".join(parts)}</svg>'
    )


def _size(svg: str) -> tuple[float, float]:
    """Width and height of a drawing in pixels."""
    head = svg[: svg.index(">")]
    width, height = (head.partition(f' {name}="')[2].partition('"')[0] for name in ("width", "height"))
    return float(width), float(height)
