"""Figures: a plotly figure to play with, and a static twin of the same numbers for a saved notebook."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vfnb.errors import ConfigError
from vfnb.lab.chart_svg import chart_svg, image
from vfnb.lab.charts import Chart
from vfnb.lab.html import MUTED, Page, details, esc, pre

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["Plot", "chart_plot"]

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
        """The interactive figure; changes to it are shown, and saved as `.png`."""
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
        page.add(details("numbers", pre(self.text)))
        return page.close("plot.figure")

    def save(self, path: str | Path) -> Path:
        """Write the figure to a file; the suffix says how.

        `.svg` and `.html` are the static twin, without script. `.png` is the interactive figure as Chromium
        draws it, two pixels a point. For an interactive page use `plot.figure.write_html`.

        Raises:
            ConfigError: another suffix.
            MissingExtra: kaleido is not installed, or there is no Chrome or Chromium; for `.png`.
        """
        path = Path(path)
        match path.suffix:
            case ".svg":
                path.write_text(self.svg, encoding="utf-8")
            case ".html":
                head = f'<!doctype html><meta charset="utf-8"><title>{esc(self.title)}</title>'
                path.write_text(head + self.html, encoding="utf-8")
            case ".png":
                from vfnb.lab.png import png

                path.write_bytes(png(self.figure))
            case other:
                raise ConfigError(
                    f"cannot save a plot as {other!r}; use a path ending in .html, .svg or .png"
                )
        return path

    def __repr__(self) -> str:
        return f"Plot({self.title!r})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, Any]:
        return {
            PLOTLY: json.loads(self.figure.to_json()),
            "text/html": self.html,
            "text/plain": self.text,
        }


def chart_plot(chart: Chart, text: str, *, static: Chart | None = None) -> Plot:
    """The plot of a chart.

    Args:
        chart: all that is to be seen.
        text: the numbers in at most 20 lines.
        static: what of it the static drawing shows, if that has not room for all.
    """
    from vfnb.lab.chart_plotly import chart_figure

    return Plot(chart.title, lambda: chart_figure(chart), svg=chart_svg(static or chart), text=text)
