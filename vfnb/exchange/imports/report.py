"""What an import has made, what it could not read, and what the format had that a run has no place for."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pandas as pd

    from vfnb.store import RunReader

__all__ = ["META", "Fault", "ImportReport", "import_report"]

META = "imported"
"""The run's fact that holds the report."""


@dataclass(frozen=True, slots=True)
class Fault:
    """One record that could not be read."""

    file: str
    """Its path, within the imported folder if there is one."""
    reason: str
    """What is wrong."""
    line: int | None = None
    field: str = ""
    """Path of the field, such as `traces[0].nodes[3].mask`."""
    fix: str = ""
    """How to mend it."""

    def __str__(self) -> str:
        line = "" if self.line is None else f", line {self.line}"
        field = f", {self.field}" if self.field else ""
        return f"{self.file}{line}{field}: {self.reason}" + (f"; {self.fix}" if self.fix else "")


@dataclass(repr=False)
class ImportReport:
    """Where an imported run comes from, and what is not in it."""

    format: str
    """`verifiers`, `atif`, `harbor` or `inspect`."""
    source: str
    """The file or folder."""
    digest: str
    """Of what was read."""
    traces: int = 0
    faults: list[Fault] = field(default_factory=list)
    """Records that could not be read; the others are in the run."""
    lost: dict[str, int] = field(default_factory=dict)
    """What a run has no place for, with how often it came."""

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> ImportReport:
        """The report that a run has stored."""
        return cls(**{**record, "faults": [Fault(**fault) for fault in record["faults"]]})

    def record(self) -> dict[str, Any]:
        """As JSON values."""
        return asdict(self)

    @property
    def notes(self) -> list[str]:
        """The same as lines, the first faults only."""
        lines = [f"imported from {self.source} ({self.format})"]
        lines += [f"not read: {fault}" for fault in self.faults[:5]]
        if len(self.faults) > 5:
            lines.append(f"and {len(self.faults) - 5} other records not read: run.imported has all")
        return lines + [f"not carried: {what} ({count} times)" for what, count in self.lost.items()]

    def frame(self) -> pd.DataFrame:
        """A row per fault: file, line, field, reason, fix."""
        import pandas as pd

        columns = ["file", "line", "field", "reason", "fix"]
        frame = pd.DataFrame([asdict(fault) for fault in self.faults], columns=columns)
        return frame.astype({"line": "Int64"})

    def __repr__(self) -> str:
        return "\n".join([f"{self.traces} traces, {len(self.faults)} records not read", *self.notes])

    def _repr_html_(self) -> str:
        from html import escape

        return f"<pre>{escape(repr(self))}</pre>"


def import_report(reader: RunReader) -> ImportReport | None:
    """The report of an imported run; None of one that was run here."""
    record = reader.meta().get(META)
    return ImportReport.of(record) if isinstance(record, dict) else None
