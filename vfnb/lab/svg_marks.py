"""The layers of a chart as SVG elements."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from vfnb.lab.charts import Bars, Cells, Chart, Labels, Layer, Lines, Points, Rects
from vfnb.lab.html import esc
from vfnb.lab.theme import Theme
from vfnb.lab.words import one_line

__all__ = ["CHAR", "HATCH", "Place", "draw", "key", "text_at"]

CHAR = 6.3  # pixels of a letter at font size 11, on the wide side
HATCH = (
    '<defs><pattern id="h" width="6" height="6" patternUnits="userSpaceOnUse" patternTransform="rotate(45)">'
    '<rect width="3" height="6" fill="#000000" opacity="0.35"/></pattern></defs>'
)
"""What hatched bars refer to."""
_DASHES = {"dot": "2 3", "dash": "6 4", "dashdot": "7 3 2 3", "longdash": "11 4"}
Place = Callable[[float], float]


def text_at(
    x: float, y: float, text: str, color: str, *, anchor: str = "", size: int = 0, bold: bool = False
) -> str:
    """A text, escaped, with its baseline at a point."""
    look = (
        (f' text-anchor="{anchor}"' if anchor else "")
        + (f' font-size="{size}"' if size else "")
        + (' font-weight="bold"' if bold else "")
    )
    return f'<text x="{x:g}" y="{y:g}" fill="{color}"{look}>{esc(text)}</text>'


def draw(layer: Layer, x: Place, y: Place, chart: Chart) -> Iterator[str]:
    """A layer; `x` and `y` turn its values into pixels."""
    match layer:
        case Lines():
            yield from _lines(layer, x, y)
        case Points():
            yield _marks(layer, [(x(a), y(b)) for a, b in zip(layer.x, layer.y, strict=True)], chart.theme)
        case Bars():
            yield from _bars(layer, x, y)
        case Rects():
            yield from _rects(layer, x, y, chart.theme)
        case Cells():
            yield from _cells(layer, x, y, chart)
        case Labels():
            for a, b, text in zip(layer.x, layer.y, layer.text, strict=True):
                yield text_at(x(a), y(b), one_line(text, 40), chart.theme.ink)


def _lines(layer: Lines, x: Place, y: Place) -> Iterator[str]:
    if layer.low:
        ends = [
            (x(a), y(low), y(high))
            for a, low, high in zip(layer.x, layer.low, layer.high, strict=True)
            if a is not None and low is not None and high is not None
        ]
        faint = layer.bar >= 3
        bars = "".join(
            f"M{a:g} {low:g}V{high:g}" + ("" if faint else f"m-3 0h6M{a - 3:g} {low:g}h6")
            for a, low, high in ends
        )
        look = f'stroke-width="{layer.bar:g}" opacity="{0.4 if faint else 0.8}"'
        yield f'<path d="{bars}" fill="none" stroke="{layer.color}" {look}/>'
    path, pen = [], False
    for a, b in zip(layer.x, layer.y, strict=True):
        if a is None or b is None:
            pen = False
            continue
        path.append(f"{'L' if pen else 'M'}{x(a):g} {y(b):g}")
        pen = True
    dash = f' stroke-dasharray="{_DASHES[layer.dash]}"' if layer.dash else ""
    if layer.width:
        look = f'stroke="{layer.color}" stroke-width="{layer.width:g}"{dash}'
        yield f'<path d="{"".join(path)}" fill="none" {look}/>'
    if layer.symbol:
        spots = [
            (x(a), y(b)) for a, b in zip(layer.x, layer.y, strict=True) if a is not None and b is not None
        ]
        yield _path(layer.symbol, spots, 8, _solid(layer))


def _solid(layer: Lines) -> str:
    """How the marks on a line are painted; a cross has no inside."""
    paint = f'stroke="{layer.color}" stroke-width="2"' if layer.symbol == "x" else f'fill="{layer.color}"'
    return f'{paint} fill="none"' if layer.symbol == "x" else paint


def _marks(layer: Points, spots: list[tuple[float, float]], theme: Theme) -> str:
    fill = layer.color if layer.filled else theme.paper
    look = f'fill="{fill}" stroke="{layer.color}" stroke-width="{2 if layer.size > 7 else 1}"'
    if layer.symbol == "x":
        look = f'fill="none" stroke="{layer.color}" stroke-width="2"'
    faint = f' opacity="{layer.opacity:g}"' if layer.opacity < 1 else ""
    return _path(layer.symbol, spots, layer.size, look + faint)


def _path(symbol: str, spots: list[tuple[float, float]], size: float, look: str) -> str:
    """All marks of one look as one path."""
    r = size / 2
    shape = {
        "square": f"m{-r:g} {-r:g}h{size:g}v{size:g}h{-size:g}z",
        "diamond": f"m0 {-1.3 * r:g}l{1.3 * r:g} {1.3 * r:g}l{-1.3 * r:g} {1.3 * r:g}l{-1.3 * r:g} {-1.3 * r:g}z",
        "triangle-up": f"m0 {-1.2 * r:g}l{1.2 * r:g} {2.1 * r:g}h{-2.4 * r:g}z",
        "x": f"m{-r:g} {-r:g}l{size:g} {size:g}m0 {-size:g}l{-size:g} {size:g}",
    }.get(symbol, f"m{-r:g} 0a{r:g} {r:g} 0 1 0 {size:g} 0a{r:g} {r:g} 0 1 0 {-size:g} 0z")
    return f'<path d="{"".join(f"M{a:g} {b:g}{shape}" for a, b in spots)}" {look}/>'


def _bars(layer: Bars, x: Place, y: Place) -> Iterator[str]:
    base = layer.base or [0.0] * len(layer.value)
    path, half = [], layer.width / 2
    for at, low, value in zip(layer.at, base, layer.value, strict=True):
        if layer.across:
            (a, b), (c, d) = (x(low), y(at - half)), (x(low + value), y(at + half))
        else:
            (a, b), (c, d) = (x(at - half), y(low + value)), (x(at + half), y(low))
        if abs(c - a) > 0 and abs(d - b) > 0:
            path.append(f"M{a:g} {b:g}H{c:g}V{d:g}H{a:g}z")
    yield f'<path d="{"".join(path)}" fill="{layer.color}"/>'
    if layer.hatched:
        yield f'<path d="{"".join(path)}" fill="url(#h)"/>'


def _rects(layer: Rects, x: Place, y: Place, theme: Theme) -> Iterator[str]:
    texts = layer.text or [""] * len(layer.x)
    for a, b, wide, color, text in zip(layer.x, layer.y, layer.width, layer.color, texts, strict=True):
        left, right = x(a), x(a + wide)
        top, bottom = sorted((y(b), y(b + layer.height)))
        size = f'x="{left:g}" y="{top:g}" width="{max(1.5, right - left):g}" height="{bottom - top:g}"'
        edge = f'stroke="{theme.paper}"' if layer.filled else f'stroke="{color}" stroke-width="1.5"'
        look = f'fill="{color if layer.filled else theme.paper}" {edge}'
        yield f"<rect {size} {look}/>"
        room = int((right - left - 8) / CHAR)
        if text and room >= 2:
            ink = _ink_on(color) if layer.filled else theme.ink
            yield text_at(left + 4, (top + bottom) / 2 + 4, one_line(text, room), ink)


def _ink_on(color: str) -> str:
    """Black or white, whichever reads better on a colour (relative luminance, WCAG 2.1)."""
    parts = [value / 255 for value in bytes.fromhex(color[1:])]
    red, green, blue = (p / 12.92 if p <= 0.04045 else ((p + 0.055) / 1.055) ** 2.4 for p in parts)
    return "#000000" if 0.2126 * red + 0.7152 * green + 0.0722 * blue > 0.18 else "#ffffff"


def _cells(layer: Cells, x: Place, y: Place, chart: Chart) -> Iterator[str]:
    assert chart.scale is not None
    wide, high = x(1) - x(0), y(1) - y(0)
    inset = 1 if min(wide, high) > 6 else 0
    for row, (values, signs) in enumerate(zip(layer.values, layer.signs, strict=True)):
        for column, (value, sign) in enumerate(zip(values, signs, strict=True)):
            color = chart.theme.paper if value is None else chart.scale.color(value, chart.theme)
            left, top = x(column - 0.5), y(row - 0.5)
            if value is not None:
                yield (
                    f'<rect x="{left + inset:g}" y="{top + inset:g}" width="{wide - 2 * inset:g}" '
                    f'height="{high - 2 * inset:g}" fill="{color}"/>'
                )
            if sign and wide >= CHAR * len(sign) + 2 and high >= 10:
                ink = (
                    _ink_on(color)
                    if value is not None
                    else chart.theme.failed
                    if sign == "✗"
                    else chart.theme.muted
                )
                yield text_at(left + wide / 2, top + high / 2 + 4, sign, ink, anchor="middle")


def key(layer: Layer, x: float, y: float, theme: Theme) -> Iterator[str]:
    """The sign of a layer in the legend."""
    match layer:
        case Points():
            yield _marks(layer, [(x, y)], theme)
        case Lines():
            dash = f' stroke-dasharray="{_DASHES[layer.dash]}"' if layer.dash else ""
            if layer.width:
                yield f'<path d="M{x - 8:g} {y:g}h18" stroke="{layer.color}" stroke-width="2"{dash}/>'
            if layer.symbol:
                yield _path(layer.symbol, [(x, y)], 8, _solid(layer))
        case Bars() | Rects():
            color = layer.color if isinstance(layer, Bars) else layer.color[0] if layer.color else theme.muted
            box = f'<rect x="{x - 6:g}" y="{y - 6:g}" width="12" height="12"'
            hollow = isinstance(layer, Rects) and not layer.filled
            yield f'{box} fill="{theme.paper if hollow else color}" stroke="{color}"/>'
            if isinstance(layer, Bars) and layer.hatched:
                yield f'{box} fill="url(#h)"/>'
