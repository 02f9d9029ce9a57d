"""From numbers to pixels: round ticks, and the ends of an axis."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence

from vfnb.lab.charts import Axis, Bars, Cells, Layer, Lines, Panel, Rects

__all__ = ["axis_range", "number_ticks", "pixels", "round_ticks", "tick_text"]


def round_ticks(low: float, high: float, most: int = 6) -> list[float]:
    """At most `most + 1` round numbers between two ends: steps of 1, 2 or 5 times a power of ten."""
    if not high > low:
        return [low]
    rough = (high - low) / most
    power = 10.0 ** math.floor(math.log10(rough))
    step = next(power * unit for unit in (1, 2, 5, 10) if power * unit >= rough * 0.999)
    first = math.ceil(low / step - 1e-9)
    last = math.floor(high / step + 1e-9)
    return [float(f"{index * step:.12g}") for index in range(first, last + 1)]


def number_ticks(low: float, high: float, most: int = 6) -> list[tuple[float, str]]:
    """Round numbers between two ends, with their texts in one unit."""
    places = round_ticks(low, high, most)
    return [(at, tick_text(at, max(map(abs, places)))) for at in places]


def tick_text(value: float, largest: float = 0.0) -> str:
    """A number on an axis: `0`, `0.25`, `1,200`, `15k`, `2.5M`; in the unit of the largest one if given."""
    size = max(abs(value), largest)
    for unit, sign in ((1e9, "G"), (1e6, "M"), (1e3, "k")):
        if value and (size >= unit * 10 or (size >= unit and unit > 1e3)):
            return f"{value / unit:.3g}{sign}"
    if size >= 1000:
        return f"{value:,.0f}"
    return f"{value:.3g}"


def axis_range(panel: Panel, *, vertical: bool) -> tuple[float, float]:
    """The ends of an axis: as given, or the data with a little room around."""
    axis = panel.y if vertical else panel.x
    if axis.names is not None:
        return -0.5, max(1, len(axis.names)) - 0.5
    if axis.range is not None:
        return axis.range
    values = [value for layer in panel.layers for value in _values(layer, vertical=vertical)]
    values += [at for at, _ in axis.ticks]
    low, high = (min(values), max(values)) if values else (0.0, 1.0)
    if axis.log2:
        return (low / 2**0.25, high * 2**0.25) if low > 0 else (1.0, 2.0)
    room = 0.05 * (high - low) or 0.5 * abs(high) or 1.0
    bars = any(isinstance(layer, Bars) and layer.across != vertical for layer in panel.layers)
    return (0.0 if bars and low >= 0 else low - room), high + room


def _values(layer: Layer, *, vertical: bool) -> Iterable[float]:
    if isinstance(layer, Bars):
        if layer.across == vertical:
            return [at + side * layer.width / 2 for at in layer.at for side in (-1, 1)]
        base = layer.base or [0.0] * len(layer.value)
        return [0.0, *(low + value for low, value in zip(base, layer.value, strict=True))]
    if isinstance(layer, Cells):
        return ()
    given: Sequence[float | None] = layer.y if vertical else layer.x
    more: Sequence[float | None] = ()
    if isinstance(layer, Lines) and vertical:
        more = [*layer.low, *layer.high]
    elif isinstance(layer, Rects):
        sizes = [layer.height] * len(layer.y) if vertical else layer.width
        starts = layer.y if vertical else layer.x
        more = [start + size for start, size in zip(starts, sizes, strict=True)]
    return [value for value in (*given, *more) if value is not None]


def pixels(axis: Axis, ends: tuple[float, float], size: float, *, vertical: bool) -> Callable[[float], float]:
    """The function from a value to pixels from the left (from the top) of a panel."""
    low, high = (math.log2(end) for end in ends) if axis.log2 else ends
    span = (high - low) or 1.0
    turned = vertical and axis.names is None and not axis.reverse

    def place(value: float) -> float:
        share = ((math.log2(value) if axis.log2 else value) - low) / span
        return round(size * (1 - share if turned else share), 1)

    return place
