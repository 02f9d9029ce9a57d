"""A chart as a plain plotly figure."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape
from typing import TYPE_CHECKING, Any

from vfnb.lab.charts import Axis, Bars, Cells, Chart, Labels, Layer, Lines, Panel, Points, Rects
from vfnb.lab.scales import axis_range, number_ticks
from vfnb.lab.theme import Theme
from vfnb.lab.words import one_line

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["chart_figure"]

_NAME = 30  # letters of a name on an axis
_CELLS = 2000  # of a heat map, each with words of its own


def chart_figure(chart: Chart) -> go.Figure:
    """A `plotly.graph_objects.Figure` of the same numbers as the static drawing. Texts are escaped."""
    from plotly.subplots import make_subplots

    columns = min(chart.columns, max(1, len(chart.panels)))
    rows = max(1, -(-len(chart.panels) // columns))
    figure = make_subplots(
        rows=rows,
        cols=columns,
        subplot_titles=[escape(panel.title) for panel in chart.panels],
        horizontal_spacing=0.26 / columns if columns > 1 else None,
        vertical_spacing=min(0.3, 110 / (rows * (chart.height + 110))) if rows > 1 else None,
    )
    seen: set[str] = set()
    for index, panel in enumerate(chart.panels):
        row, column = divmod(index, columns)
        for layer in panel.layers:
            for made in _traces(layer, chart):
                made.showlegend = bool(made.name) and made.name not in seen and made.showlegend is not False
                if made.name:
                    seen.add(made.name)
                    made.legendgroup = made.name
                figure.add_trace(made, row=row + 1, col=column + 1)
        _axes(figure, panel, chart.theme, row + 1, column + 1)
    return _dressed(figure, chart, rows)


def _dressed(figure: go.Figure, chart: Chart, rows: int) -> go.Figure:
    theme = chart.theme
    inner = max(rows * chart.height + (rows - 1) * 110, 150 if chart.scale else 60)
    note = _wrapped(chart.note)
    named = any(trace.showlegend for trace in figure.data)
    above = 50 + 34 * named + 24 * any(panel.title for panel in chart.panels)
    below = 76 + 16 * len(note)
    figure.update_layout(
        template="none",
        colorway=theme.series,
        title={
            "text": escape(chart.title), "x": 0.01, "xanchor": "left",
            "yref": "container", "y": 1 - 18 / (inner + above + below), "yanchor": "top", "font": {"size": 16},
        },
        height=inner + above + below,
        margin={"l": 60, "r": 24, "t": above, "b": below},
        paper_bgcolor=theme.paper,
        plot_bgcolor=theme.paper,
        font={"color": theme.ink, "size": 12},
        hoverlabel={"align": "left"},
        legend={
            "orientation": "h", "x": 0, "xanchor": "left",
            "yref": "container", "y": 1 - 46 / (inner + above + below), "yanchor": "top",
        },
        barmode="overlay",
        bargap=0.2,
        hovermode="closest",
    )  # fmt: skip
    figure.update_annotations(font={"size": 13, "color": theme.ink}, xanchor="center")
    if note:
        figure.add_annotation(
            text="<br>".join(map(escape, note)), xref="paper", yref="paper", x=0, y=0, yshift=-56,
            xanchor="left", yanchor="top", align="left", showarrow=False,
            font={"size": 11, "color": theme.muted},
        )  # fmt: skip
    if chart.scale is not None:
        _show_scale(figure)
        scale, steps = chart.scale, len(theme.scale) - 1
        figure.update_layout(
            coloraxis={
                "colorscale": [[place / steps, color] for place, color in enumerate(theme.scale)],
                "cmin": scale.low,
                "cmax": scale.high if scale.high > scale.low else scale.low + 1,
                "colorbar": {
                    "title": {"text": escape(scale.title), "side": "right", "font": {"size": 11}},
                    "thickness": 12,
                    "len": 1,
                    "nticks": 5,
                },
            }
        )
    return figure


def _show_scale(figure: go.Figure) -> None:
    """A trace that draws nothing: without one on the colour axis its bar is not shown."""
    if not any(trace.type == "heatmap" for trace in figure.data):
        figure.add_scatter(
            x=[None], y=[None], mode="markers", showlegend=False, hoverinfo="skip",
            marker={"color": [0], "coloraxis": "coloraxis"},
        )  # fmt: skip


def _wrapped(note: str) -> list[str]:
    from textwrap import wrap

    return wrap(note, 120) if note else []


def _axes(figure: go.Figure, panel: Panel, theme: Theme, row: int, column: int) -> None:
    for axis, update, vertical in (
        (panel.x, figure.update_xaxes, False),
        (panel.y, figure.update_yaxes, True),
    ):
        update(_axis(axis, panel, theme, vertical=vertical), row=row, col=column)


def _axis(axis: Axis, panel: Panel, theme: Theme, *, vertical: bool) -> dict[str, Any]:
    from math import log10

    low, high = axis_range(panel, vertical=vertical)
    made: dict[str, Any] = {
        "title": {"text": escape(axis.title), "standoff": 10},
        "ticks": "",
        "zeroline": False,
        "automargin": True,
        "gridcolor": theme.grid,
        "linecolor": theme.muted,
        "showline": not axis.hidden,
    }
    if axis.hidden:
        made |= {"showticklabels": False, "showgrid": False}
    if axis.log2:
        powers = [2**power for power in range(31) if low <= 2**power <= high]
        made |= {"type": "log", "tickvals": powers, "range": [log10(low), log10(high)]}
    elif axis.names is not None:
        names = [escape(one_line(name, _NAME)) for name in axis.names]
        step = max(1, -(-len(names) // 60))
        made |= {"tickvals": list(range(0, len(names), step)), "ticktext": names[::step], "showgrid": False}
        made["range"] = [high, low] if vertical else [low, high]
    else:
        made["range"] = [high, low] if axis.reverse else [low, high]
    if axis.ticks:
        plain = number_ticks(*(axis.numbers or (low, high)))
        every = [*plain, *((at, escape(text)) for at, text in axis.ticks)]
        made |= {"tickvals": [at for at, _ in every], "ticktext": [text for _, text in every]}
    return made


def _traces(layer: Layer, chart: Chart) -> Sequence[Any]:
    import plotly.graph_objects as go

    match layer:
        case Lines():
            return [go.Scatter(_lines(layer))]
        case Points():
            return [go.Scatter(_points(layer))]
        case Bars():
            return [go.Bar(_bars(layer))]
        case Rects():
            return [go.Bar(_rects(layer, chart.theme))]
        case Cells():
            return [go.Heatmap(_cells(layer))]
        case Labels():
            return [go.Scatter(
                x=list(layer.x), y=list(layer.y), text=[escape(text) for text in layer.text], mode="text",
                textposition="middle right", hoverinfo="skip", textfont={"size": 11}, showlegend=False,
            )]  # fmt: skip


def _hover(texts: Sequence[str]) -> dict[str, Any]:
    if not texts:
        return {"hoverinfo": "skip"}
    return {"hovertext": ["<br>".join(map(escape, text.split("\n"))) for text in texts], "hoverinfo": "text"}


def _lines(layer: Lines) -> dict[str, Any]:
    made: dict[str, Any] = {
        "x": list(layer.x),
        "y": list(layer.y),
        "mode": "+".join(["lines"] * (layer.width > 0) + ["markers"] * bool(layer.symbol)) or "none",
        "name": layer.name,
        "line": {"color": layer.color, "width": layer.width, "dash": layer.dash or "solid"},
        **_hover(layer.hover),
    }
    if layer.symbol:
        made["marker"] = {"symbol": layer.symbol, "size": 8}
    if layer.low:
        made["error_y"] = {
            "type": "data",
            "symmetric": False,
            "array": _apart(layer.high, layer.y),
            "arrayminus": _apart(layer.y, layer.low),
            "thickness": layer.bar,
            "width": 4 if layer.bar < 3 else 0,
            "color": layer.color if layer.bar < 3 else _faint(layer.color),
        }
    return made


def _faint(color: str) -> str:
    red, green, blue = bytes.fromhex(color[1:])
    return f"rgba({red},{green},{blue},0.4)"


def _apart(high: Sequence[float | None], low: Sequence[float | None]) -> list[float | None]:
    return [None if a is None or b is None else a - b for a, b in zip(high, low, strict=True)]


def _points(layer: Points) -> dict[str, Any]:
    symbol = layer.symbol if layer.filled else f"{layer.symbol}-open"
    made: dict[str, Any] = {
        "x": list(layer.x),
        "y": list(layer.y),
        "mode": "markers",
        "name": layer.name,
        "marker": {
            "color": layer.color,
            "symbol": symbol,
            "size": layer.size,
            "opacity": layer.opacity,
            "line": {"color": layer.color, "width": 2 if layer.size > 7 else 0},
        },
        **_hover(layer.hover),
    }
    if layer.ids:
        made["customdata"] = list(layer.ids)
    return made


def _bars(layer: Bars) -> dict[str, Any]:
    where, value = ("y", "x") if layer.across else ("x", "y")
    return {
        where: list(layer.at),
        value: list(layer.value),
        "base": list(layer.base) or 0,
        "orientation": "h" if layer.across else "v",
        "width": layer.width,
        "name": layer.name,
        "marker": {
            "color": layer.color,
            "line": {"width": 0},
            "pattern": {"shape": "/" if layer.hatched else "", "solidity": 0.4},
        },
        **_hover(layer.hover),
    }


def _rects(layer: Rects, theme: Theme) -> dict[str, Any]:
    made: dict[str, Any] = {
        "base": list(layer.x),
        "x": list(layer.width),
        "y": [low + layer.height / 2 for low in layer.y],
        "width": layer.height,
        "orientation": "h",
        "name": layer.name,
        "marker": {
            "color": list(layer.color) if layer.filled else theme.paper,
            "line": {"color": theme.paper, "width": 1}
            if layer.filled
            else {"color": list(layer.color), "width": 1.5},
        },
        **_hover(layer.hover),
    }
    if layer.text:
        made |= {
            "text": [escape(text) for text in layer.text],
            "textposition": "inside",
            "insidetextanchor": "start",
            "constraintext": "none",
            "textangle": 0,
            "textfont": {"size": 11} if layer.filled else {"size": 11, "color": theme.ink},
        }
    if layer.ids:
        made["customdata"] = list(layer.ids)
    return made


def _cells(layer: Cells) -> dict[str, Any]:
    import numpy as np

    numbers = [[np.nan if value is None else value for value in row] for row in layer.values]
    made: dict[str, Any] = {
        "z": np.array(numbers, np.float64) if numbers else np.zeros((0, 0)),
        "coloraxis": "coloraxis",
        "xgap": 1,
        "ygap": 1,
    }
    if made["z"].size > _CELLS:  # of a large map only what has no number is told in words
        missing = [
            [sign if value is None else "" for sign, value in zip(signs, values, strict=True)]
            for signs, values in zip(layer.signs, layer.values, strict=True)
        ]
        return made | {"text": missing, "hovertemplate": "%{y}, %{x}: %{z:.4g} %{text}<extra></extra>"}
    return made | {
        "hovertext": [["<br>".join(map(escape, text.split("\n"))) for text in row] for row in layer.hover],
        "hoverinfo": "text",
        "text": [list(row) for row in layer.signs],
        "texttemplate": "%{text}",
    }
