"""Static html that survives a saved, untrusted notebook: tags, `style` attributes, nothing else.

JupyterLab drops `<style>`, inline `<svg>` and scripts from outputs of notebooks it does not trust, and of
style attributes every property whose value it does not know. So colours are `var(--jp-..., rgb(...))` (the
fallback serves front ends without these variables, and makes the value known), borders are plain half
transparent grey that shows on light and dark pages, and the page's own text colour is left alone.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

from vfnb.lab.words import plain

__all__ = [
    "BAD",
    "CELL",
    "GOOD",
    "MAX_HTML",
    "MAX_MESSAGE",
    "MAX_ROWS",
    "MUTED",
    "WARN",
    "Page",
    "badge",
    "banner",
    "details",
    "esc",
    "pre",
    "span",
    "table",
]

MAX_HTML = 200_000
"""Bytes of html per display."""
MAX_ROWS = 50
"""Rows of a table, or messages of a list."""
MAX_MESSAGE = 2_000
"""Characters of one message."""

GOOD = "color:var(--jp-success-color1, rgb(56,142,60))"
BAD = "color:var(--jp-error-color1, rgb(211,72,64))"
WARN = "color:var(--jp-warn-color1, rgb(204,112,0))"
MUTED = "opacity:0.7"
CELL = "padding:2px 8px;text-align:left;vertical-align:top;border-bottom:1px solid rgba(128,128,128,0.3)"
_PRE = (
    "margin:2px 0px;padding:4px 8px;white-space:pre-wrap;overflow-wrap:break-word;"
    "border-left:3px solid rgba(128,128,128,0.4);text-align:left"
)
_TONES = {"good": ("✓", GOOD), "bad": ("✗", BAD), "warn": ("!", WARN), "none": ("·", MUTED)}


def esc(text: object) -> str:
    """Untrusted text, safe inside a tag or a quoted attribute. Addresses stay text."""
    return escape(plain(str(text)), quote=True)


def span(text: object, style: str = "", *, title: str = "") -> str:
    """Escaped text with a style and a text shown on hover."""
    look = f' style="{style}"' if style else ""
    hover = f' title="{esc(title)}"' if title else ""
    return f"<span{look}{hover}>{esc(text)}</span>"


def badge(text: object, tone: str, *, title: str = "") -> str:
    """A state as sign, word and colour; tones are `good`, `bad`, `warn`, `none`."""
    sign, style = _TONES[tone]
    return span(f"{sign} {text}", f"{style};font-weight:bold" if tone != "none" else style, title=title)


def banner(lines: Iterable[str], tone: str = "bad") -> str:
    """Lines that must be seen first, each escaped; nothing for no lines."""
    lines = list(lines)
    if not lines:
        return ""
    sign, style = _TONES[tone]
    body = "<br>".join(esc(line) for line in lines)
    edge = "rgba(211,72,64,0.9)" if tone == "bad" else "rgba(204,112,0,0.9)"
    return (
        f'<div class="vfnb-{tone}" style="border-left:4px solid {edge};padding:2px 8px;margin:4px 0px">'
        f'<span style="{style};font-weight:bold">{sign} </span>{body}</div>'
    )


def pre(text: object) -> str:
    """Text with its own line breaks."""
    return f'<div style="{_PRE};font-family:monospace">{esc(text)}</div>'


def details(summary: str, body: str, *, opened: bool = False) -> str:
    """A foldable block of ready html."""
    mark = " open" if opened else ""
    head = f'<summary style="cursor:pointer">{summary}</summary>'
    return f'<details{mark} style="margin:2px 0px">{head}{body}</details>'


def table(head: Sequence[str], rows: Iterable[Sequence[str]], *, caption: str = "") -> str:
    """A table of ready html cells with an escaped head and caption."""
    top = "".join(f'<th style="{CELL};font-weight:bold">{esc(cell)}</th>' for cell in head)
    body = "".join(
        "<tr>" + "".join(f'<td style="{CELL}">{cell}</td>' for cell in row) + "</tr>" for row in rows
    )
    title = (
        f'<caption style="caption-side:top;text-align:left;{MUTED}">{esc(caption)}</caption>'
        if caption
        else ""
    )
    first = f"<thead><tr>{top}</tr></thead>" if head else ""
    return (
        f'<table style="border-collapse:collapse;margin:4px 0px">{title}{first}<tbody>{body}</tbody></table>'
    )


class Page:
    """Blocks of html up to a bound; a block that would pass it is left out and counted."""

    def __init__(self, kind: str, *, limit: int = MAX_HTML) -> None:
        self._head = f'<div class="vfnb-{kind}" style="line-height:1.4;overflow-x:auto">'
        self._blocks: list[str] = []
        self._room = limit - len(self._head) - 400  # the closing line needs some
        self.left_out = 0

    def add(self, block: str) -> bool:
        """Append ready html. False if there was no room for it."""
        size = len(block.encode())
        if size > self._room:
            self.left_out += 1
            return False
        self._room -= size
        self._blocks.append(block)
        return True

    def close(self, rest: str) -> str:
        """The whole; `rest` is the call that shows what was left out."""
        cut = ""
        if self.left_out:
            cut = f'<div style="{MUTED}">{self.left_out} parts left out for size; {esc(rest)} has them</div>'
        return self._head + "".join(self._blocks) + cut + "</div>"
