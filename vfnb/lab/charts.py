"""A figure as numbers: panels with axes and layers, drawn by two renderers, plotly and static SVG.

Both draw the same numbers, so a saved notebook shows what the interactive figure showed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace

from vfnb.lab.theme import Theme, current_theme

__all__ = ["Axis", "Bars", "Cells", "Chart", "Labels", "Layer", "Lines", "Panel", "Points", "Rects", "Scale"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Axis:
    """One axis. With `names`, the positions 0, 1, ... have names; else it is numeric."""

    title: str = ""
    """With the unit in brackets, if there is one."""
    range: tuple[float, float] | None = None
    """Ends of a numeric axis; from the data if None."""
    names: Sequence[str] | None = None
    ticks: Sequence[tuple[float, str]] = ()
    """Further marks with words of their own, such as `no reward` below the numbers."""
    numbers: tuple[float, float] | None = None
    """Where the axis has numbers, if not everywhere."""
    log2: bool = False
    reverse: bool = False
    hidden: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Lines:
    """Lines through points; None in `x` parts them. `low` and `high` are the ends of an interval around `y`."""

    x: Sequence[float | None]
    y: Sequence[float | None]
    color: str
    name: str = ""
    low: Sequence[float | None] = ()
    high: Sequence[float | None] = ()
    hover: Sequence[str] = ()
    dash: str = ""
    """`dot`, `dash`, `dashdot` or `longdash`; drawn through by default."""
    width: float = 2
    """0 for marks alone."""
    symbol: str = ""
    """Mark at each point; none by default."""
    bar: float = 1.2
    """Thickness of the intervals; from 3 on they are faint and have no ends, and lie below others."""

    def cut(self, least: float, most: float) -> Lines:
        """The same with intervals that end where the axis does."""

        def inside(ends: Sequence[float | None]) -> list[float | None]:
            return [None if end is None else min(most, max(least, end)) for end in ends]

        return replace(self, low=inside(self.low), high=inside(self.high))


@dataclass(frozen=True, slots=True, kw_only=True)
class Points:
    """Marks of one look."""

    x: Sequence[float]
    y: Sequence[float]
    color: str
    symbol: str = "circle"
    """`circle`, `square`, `diamond`, `triangle-up` or `x`."""
    filled: bool = True
    size: float = 10
    """In pixels."""
    opacity: float = 1
    name: str = ""
    hover: Sequence[str] = ()
    ids: Sequence[object] = ()
    """What each mark stands for; the figure's `customdata`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Bars:
    """Bars from `base` to `base + value` at positions of the other axis."""

    at: Sequence[float]
    value: Sequence[float]
    color: str
    name: str = ""
    base: Sequence[float] = ()
    """All 0 by default."""
    width: float = 0.8
    across: bool = False
    """They lie: their positions are on the y axis."""
    hatched: bool = False
    hover: Sequence[str] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Rects:
    """Boxes `[x, x + width]` by `[y, y + height]`."""

    x: Sequence[float]
    y: Sequence[float]
    width: Sequence[float]
    height: float
    color: Sequence[str]
    """Of each box."""
    filled: bool = True
    text: Sequence[str] = ()
    """Inside each box."""
    hover: Sequence[str] = ()
    name: str = ""
    ids: Sequence[object] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class Cells:
    """A heat map: `values[row][column]`, None where there is no number. `signs` are written into the cells."""

    values: Sequence[Sequence[float | None]]
    signs: Sequence[Sequence[str]]
    hover: Sequence[Sequence[str]]


@dataclass(frozen=True, slots=True, kw_only=True)
class Labels:
    """Texts that begin at points."""

    x: Sequence[float]
    y: Sequence[float]
    text: Sequence[str]


Layer = Lines | Points | Bars | Rects | Cells | Labels


@dataclass(frozen=True, slots=True, kw_only=True)
class Panel:
    """One pair of axes and what is drawn in it, first layer lowest."""

    x: Axis
    y: Axis
    layers: Sequence[Layer]
    title: str = ""


@dataclass(frozen=True, slots=True)
class Scale:
    """What the colours of the theme's scale mean."""

    title: str
    low: float
    high: float

    def share(self, value: float) -> float:
        """Where a value lies, from 0 to 1; 1 on a scale of one value."""
        if self.high <= self.low:
            return 1.0
        return min(1.0, max(0.0, (value - self.low) / (self.high - self.low)))

    def color(self, value: float, theme: Theme) -> str:
        """The colour of a value, `#rrggbb`."""
        steps = len(theme.scale) - 1
        at = self.share(value) * steps
        place = min(int(at), steps - 1)
        pair = (theme.scale[place], theme.scale[place + 1])
        (r0, g0, b0), (r1, g1, b1) = (bytes.fromhex(color[1:]) for color in pair)
        part = at - place
        return "#" + bytes(round(a + (b - a) * part) for a, b in ((r0, r1), (g0, g1), (b0, b1))).hex()


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A whole figure."""

    title: str
    panels: Sequence[Panel]
    columns: int = 1
    """Panels beside each other."""
    width: float = 640
    height: float = 300
    """Pixels inside the axes of a panel."""
    note: str = ""
    """Below the figure: what intervals are, what was left out."""
    scale: Scale | None = None
    theme: Theme = field(default_factory=current_theme)
