"""`vf.diff(a, b).view()`: both sides in two columns, what is the same folded away."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traitlets import Bool, Dict, Int

from vfnb.lab.messages import preview
from vfnb.lab.widgets.base import View, script, style
from vfnb.lab.widgets.details import MAX_TEXT, pieces
from vfnb.lab.words import clip, one_line, plain

if TYPE_CHECKING:
    from vfnb.lab.diff import Diff, DiffRow

__all__ = ["DiffView", "diff_view"]


class DiffView(View):
    """Two things side by side. `selected` and `folded` may be set from Python too."""

    _esm = script("common", "diffs")
    _css = style("common", "diffs")

    diff = Dict({}).tag(sync=True)
    """Names of the sides, counts, notes, and for each row its kind, role or key, and one line of each side."""
    selected = Int(-1).tag(sync=True)
    """The chosen row; -1 for none."""
    folded = Bool(True).tag(sync=True)
    """Whether rows that are the same are left out."""

    def __init__(self, diff: Diff) -> None:
        self.source = diff
        super().__init__()
        self.diff = {
            "kind": diff.kind,
            "left": plain(diff.left),
            "right": plain(diff.right),
            "counts": diff.counts,
            "notes": [one_line(note, 300) for note in diff.notes],
            "rows": [_row(row) for row in diff.rows],
        }

    def lookup(self, key: str) -> dict[str, Any]:
        """The whole of a row, by its number: the text of both sides in pieces, and their tool calls."""
        row = self.source.rows[int(key)]
        if row.kind == "same":
            return {"spans": [["same", _shown(_text(row.left))]], "calls": []}
        return {
            "spans": [[span.kind, _shown(span.text)] for span in row.spans],
            "calls": [
                [call.kind, *(_call(one) for one in (call.left, call.right)), ", ".join(call.arguments)]
                for call in row.calls
            ],
        }

    def twin(self) -> dict[str, str]:
        """As the diff displays itself."""
        return self.source._repr_mimebundle_()

    def __repr__(self) -> str:
        return f"DiffView({self.source!r})"


def _row(row: DiffRow) -> list[Any]:
    sides = [None if one is None else _line(one) for one in (row.left, row.right)]
    places = [row.left_node, row.right_node]
    return [row.kind, row.role or one_line(row.key, 80), *sides, *places]


def _line(one: Any) -> str:
    return preview(one, 120) if hasattr(one, "role") else one_line(one, 120)


def _text(one: Any) -> str:
    if not hasattr(one, "role"):
        return str(one)
    return "\n".join(f"→ {head}({text})" if kind == "call" else text for kind, head, text in pieces(one))


def _call(call: Any) -> str | None:
    return None if call is None else _shown(f"{call.name}({call.arguments})")


def _shown(text: str) -> str:
    return plain(clip(text, MAX_TEXT))


def diff_view(diff: Diff) -> DiffView:
    """Both sides in two columns, what is the same folded away."""
    return DiffView(diff)
