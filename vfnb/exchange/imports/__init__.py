"""Runs of other programs as runs of ours: verifiers, ATIF and Harbor, Inspect."""

from vfnb.utils.lazy import lazy

__getattr__ = lazy(__name__, {"convert": "import_run", "report": "Fault ImportReport import_report"})

__all__ = ["Fault", "ImportReport", "import_report", "import_run"]
