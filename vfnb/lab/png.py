"""A plotly figure as a PNG, drawn by a real browser through kaleido."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vfnb.errors import MissingExtra

if TYPE_CHECKING:
    import plotly.graph_objects as go

__all__ = ["png"]


def png(figure: go.Figure, *, width: int = 900, scale: float = 2) -> bytes:
    """The picture. Takes some seconds: a browser starts, draws, and ends. Nothing is fetched from elsewhere.

    Args:
        figure: its height is taken from its layout.
        width: points, if its layout has none.
        scale: pixels a point.

    Raises:
        MissingExtra: kaleido is not installed, or it finds no Chrome or Chromium.
    """
    try:
        import kaleido
        from choreographer.errors import ChromeNotFoundError
    except ImportError as error:
        raise MissingExtra(
            "a .png needs kaleido and a Chrome or Chromium: pip install 'vfnb[png]'; .svg needs neither"
        ) from error
    options = {"format": "png", "scale": scale, "width": figure.layout.width or width}
    if figure.layout.height:
        options["height"] = figure.layout.height
    try:
        made: bytes = kaleido.calc_fig_sync(figure.to_dict(), opts=options, kopts={"mathjax": False})
    except ChromeNotFoundError as error:
        raise MissingExtra(
            "a .png needs a Chrome or Chromium, and none was found: install one (apt-get install chromium), "
            "name it in the variable BROWSER_PATH, or save as .svg"
        ) from error
    return made
