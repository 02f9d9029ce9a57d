"""What an export says about a trace that it did not write as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["ExportReport", "Note"]


@dataclass(frozen=True, slots=True)
class Note:
    """One thing about one trace."""

    trace_id: str
    part: Literal["all", "episodes", "sft", "rollouts", "samples", "trajectories"]
    """Which part of the export it is about."""
    action: Literal["refused", "left out", "warning"]
    """`refused`: the record contradicts itself or cannot be carried; `left out`: not meant to be trained on;
    `warning`: written."""
    reason: str
    node: int | None = None


@dataclass(repr=False)
class ExportReport:
    """What an export has written, and what not."""

    dir: Path
    format: str
    counts: dict[str, int] = field(default_factory=dict)
    """Traces read, then what each part holds."""
    notes: list[Note] = field(default_factory=list)

    @property
    def refused(self) -> list[Note]:
        """The records that contradict themselves or cannot be carried."""
        return [note for note in self.notes if note.action == "refused"]

    def frame(self) -> pd.DataFrame:
        """A row per note: trace_id, part, action, node, reason."""
        import pandas as pd

        columns = ["trace_id", "part", "action", "node", "reason"]
        frame = pd.DataFrame([asdict(note) for note in self.notes], columns=columns)
        return frame.astype({"node": "Int64"})

    def __repr__(self) -> str:
        return "\n".join(
            [f"{self.format} in {_place(self.dir)}", *_counted(self.counts), *_noted(self.notes)]
        )

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(repr(self))}</pre>"


def _place(folder: Path) -> Path:
    """As a person in the working directory would name it."""
    return folder.relative_to(Path.cwd()) if folder.is_relative_to(Path.cwd()) else folder


def _counted(counts: dict[str, int]) -> list[str]:
    return [f"  {number:>8,} {name.replace('_', ' ')}" for name, number in counts.items()]


def _noted(notes: Sequence[Note], most: int = 10) -> list[str]:
    found = Counter((note.action, note.part, note.reason) for note in notes)
    lines: list[Any] = [
        f"  {action} ({part}): {count} times: {reason}"
        for (action, part, reason), count in found.most_common(most)
    ]
    if len(found) > most:
        lines.append(f"  and {len(found) - most} other reasons: frame() has all")
    return lines
