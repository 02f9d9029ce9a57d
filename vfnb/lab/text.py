"""The text twin: the same facts in at most 20 lines."""

from __future__ import annotations

from collections.abc import Sequence
from textwrap import wrap

from vfnb.lab.words import one_line, plain

__all__ = ["MAX_LINES", "WIDTH", "columns", "folded", "lines"]

MAX_LINES = 20
WIDTH = 110


def lines(*groups: Sequence[str], rest: str = "", limit: int = MAX_LINES) -> str:
    """Lines of several groups in order, at most `limit`; the last one says what was cut and where it is."""
    every = [_fit(line) for group in groups for line in group if line]
    if len(every) > limit:
        cut = len(every) - limit + 1
        every = [*every[: limit - 1], f"… {cut} more lines" + (f"; {rest} has all" if rest else "")]
    return "\n".join(every)


def _fit(line: str) -> str:
    line = plain(line).replace("\n", " ")
    return line if len(line) <= WIDTH else line[: WIDTH - 1] + "…"


def folded(line: str, most: int = 2) -> list[str]:
    """A sentence on up to `most` lines: the end of a message often says what to do."""
    text = " ".join(plain(line).split())
    start = line[: len(line) - len(line.lstrip())]
    width, below = WIDTH - len(start), start + "    "
    return wrap(text, width, initial_indent=start, subsequent_indent=below, max_lines=most, placeholder=" …")


def columns(head: Sequence[str], rows: Sequence[Sequence[str]], *, widest: int = 32) -> list[str]:
    """A table as aligned lines."""
    cells = [[one_line(cell, widest) for cell in row] for row in [head, *rows]]
    widths = [max(len(row[i]) for row in cells) for i in range(len(head))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    ]
