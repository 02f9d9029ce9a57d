"""How figures look: two themes, with colours that all kinds of colour vision tell apart."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from vfnb.errors import ConfigError

__all__ = ["DARK", "LIGHT", "Theme", "current_theme", "theme"]


@dataclass(frozen=True, slots=True)
class Theme:
    """The colours of a figure, as `#rrggbb`."""

    name: str
    paper: str
    ink: str
    muted: str
    """Axes, lines between things, second text."""
    grid: str
    series: tuple[str, ...]
    roles: Mapping[str, str]
    scale: tuple[str, ...]
    """Low to high, evenly spaced, growing in contrast to the paper."""
    failed: str
    """Errors; always with a sign or a hatching beside the colour."""
    missing: str


# Okabe and Ito, "Color Universal Design" (2008); grey and lighter shades where the paper asks for contrast.
LIGHT = Theme(
    name="light",
    paper="#ffffff",
    ink="#222222",
    muted="#6f6f6f",
    grid="#e4e4e4",
    series=("#0072b2", "#d55e00", "#009e73", "#cc79a7", "#56b4e9", "#e69f00", "#7f7f7f", "#4b3b8f"),
    roles={
        "system": "#666666",
        "user": "#0072b2",
        "assistant": "#009e73",
        "tool": "#d55e00",
        "other": "#cc79a7",
    },
    # cividis (Nunez, Anderton and Renslow 2018), turned so that high stands out
    scale=("#fee838", "#d1b862", "#a69d75", "#7c7b78", "#56575f", "#213b6e", "#00204c"),
    failed="#b3001b",
    missing="#d0d0d0",
)
DARK = Theme(
    name="dark",
    paper="#15181c",
    ink="#e6e6e6",
    muted="#9a9a9a",
    grid="#33373d",
    series=("#56b4e9", "#e69f00", "#2fc79a", "#e39ac4", "#5f8fd6", "#f0e442", "#b0b0b0", "#b6a5f0"),
    roles={
        "system": "#a8a8a8",
        "user": "#56b4e9",
        "assistant": "#2fc79a",
        "tool": "#f08a3c",
        "other": "#e39ac4",
    },
    scale=("#12305e", "#3a4a6c", "#5f626e", "#7c7b78", "#a69d75", "#d1b862", "#fee838"),
    failed="#ff6b6b",
    missing="#4a4f57",
)
_THEMES = {one.name: one for one in (LIGHT, DARK)}
_current = LIGHT


def theme(name: str | None = None) -> str:
    """Set how figures look from now on, `light` (the default) or `dark`; without a name, say how they look.

    A figure keeps the theme under which it was made.

    Raises:
        ConfigError: another name.
    """
    global _current
    if name is not None:
        if name not in _THEMES:
            raise ConfigError(f"no theme {name!r}; there are {', '.join(_THEMES)}")
        _current = _THEMES[name]
    return _current.name


def current_theme() -> Theme:
    """The theme that is set."""
    return _current
