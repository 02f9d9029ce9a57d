"""Write the tables of columns in docs/frames.md from the schema of the frames."""

from __future__ import annotations

from pathlib import Path

from vfnb.lab.schema import DTYPES, LEVELS

PAGE = Path(__file__).parents[1] / "docs" / "frames.md"
START, END = "<!-- columns, written by scripts/frame_columns.py -->", "<!-- end of columns -->"


def table(level: str) -> str:
    """A level's columns as a Markdown table."""
    rows = [f"### {level}", "", "| column | dtype | meaning |", "|---|---|---|"]
    rows += [f"| `{column.name}` | {DTYPES[column.kind]} | {column.doc} |" for column in LEVELS[level]]
    return "\n".join(rows)


def page(text: str) -> str:
    """The page with the columns of today."""
    head, _, rest = text.partition(START)
    _, _, tail = rest.partition(END)
    tables = "\n\n".join(table(level) for level in LEVELS)
    return f"{head}{START}\n\n{tables}\n\n{END}{tail}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
