"""A small table of results for people: text, html, markdown and LaTeX of the same cells."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vfnb.errors import ConfigError
from vfnb.lab.html import MAX_ROWS, MUTED, Page, esc, table
from vfnb.lab.text import WIDTH, columns, folded, lines
from vfnb.lab.words import one_line

__all__ = ["Grid"]

_LATEX = str.maketrans(
    {
        **{char: f"\\{char}" for char in "&%$#_{}"},
        "\\": r"\textbackslash{}",
        "~": r"\textasciitilde{}",
        "^": r"\textasciicircum{}",
        "±": r"$\pm$",
        "<": "$<$",
        ">": "$>$",
        "…": r"\ldots{}",
        "Δ": r"$\Delta$",
    }
)


@dataclass(frozen=True)
class Grid:
    """Rows of short texts under a head, with a title and notes. Displays as a table."""

    title: str
    head: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    notes: tuple[str, ...] = ()
    kind: str = "table"

    @property
    def text(self) -> str:
        """All rows as aligned columns."""
        return "\n".join([self.title, *columns(self.head, self.rows, widest=60), *self.notes])

    @property
    def html(self) -> str:
        """Static html of at most 50 rows."""
        page = Page(self.kind)
        page.add(f"<div><b>{esc(self.title)}</b></div>")
        shown = [[esc(one_line(cell, 80)) for cell in row] for row in self.rows[:MAX_ROWS]]
        total = len(self.rows)
        cut = f"{len(shown)} of {total} rows shown; table.text has all" if total > len(shown) else ""
        page.add(table(self.head, shown, caption=cut))
        for note in self.notes[:20]:
            page.add(f'<div style="{MUTED}">{esc(one_line(note, 300))}</div>')
        return page.close("table.text")

    @property
    def markdown(self) -> str:
        """A table of GitHub's markdown."""

        def line(cells: Sequence[str]) -> str:
            told = (one_line(cell, 200).replace("\\", "\\\\").replace("|", "\\|") for cell in cells)
            return f"| {' | '.join(told)} |"

        body = [line(self.head), line(["---"] * len(self.head)), *map(line, self.rows)]
        return "\n".join([*body, *(f"\n{one_line(note, 300)}" for note in self.notes)])

    @property
    def latex(self) -> str:
        """A `tabular` for the package booktabs; the title and the notes are comments."""

        def line(cells: Sequence[str]) -> str:
            return " & ".join(one_line(cell, 200).translate(_LATEX) for cell in cells) + r" \\"

        comments = [f"% {one_line(note, 300)}" for note in (self.title, *self.notes)]
        start = rf"\begin{{tabular}}{{{'l' * len(self.head)}}}"
        body = [r"\toprule", line(self.head), r"\midrule", *map(line, self.rows), r"\bottomrule"]
        return "\n".join([*comments, start, *body, r"\end{tabular}"])

    def save(self, path: str | Path) -> Path:
        """Write it as `.txt`, `.md`, `.html` or `.tex`.

        Raises:
            ConfigError: another suffix.
        """
        path = Path(path)
        made = {".txt": "text", ".md": "markdown", ".html": "html", ".tex": "latex"}.get(path.suffix)
        if made is None:
            raise ConfigError(f"cannot save a table as {path.suffix!r}; use .txt, .md, .html or .tex")
        path.write_text(getattr(self, made) + "\n", encoding="utf-8")
        return path

    def __repr__(self) -> str:
        return f"Grid({self.title!r}, {len(self.rows)} rows)"

    def __str__(self) -> str:
        for widest in (48, 36, 28, 20, 14):
            body = columns(self.head, self.rows, widest=widest)
            if max(map(len, body)) <= WIDTH:
                break
        notes = [part for note in self.notes[:8] for part in folded(note)]
        return lines([self.title], notes, body, rest="table.text")

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return {"text/plain": str(self), "text/html": self.html}
