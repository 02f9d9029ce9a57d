"""The one seam by which lower rooms reach up: convenience methods resolved at the call.

`Trace.plot()` lives in a room that may not import plotting; it asks this table for the function instead.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

__all__ = ["LATE", "late"]

LATE: dict[str, str] = {
    "Trace.graph": "vfnb.lab.graphs:trace_graph",
    "Trace.plot": "vfnb.lab.trace_figures:plot_trace",
    "Diff.view": "vfnb.lab.widgets.diffs:diff_view",
    "Trace.view": "vfnb.lab.widgets.trace:trace_view",
    "Trace.verify_tokens": "vfnb.lab.token_check:verify_tokens",
    "Trace.bundle": "vfnb.lab.display:trace_bundle",
    "Trace.text": "vfnb.lab.display:trace_text",
    "Branch.bundle": "vfnb.lab.display:branch_bundle",
    "Branch.text": "vfnb.lab.display:branch_text",
    "Branch.tokens": "vfnb.lab.token_view:token_view",
    "Task.bundle": "vfnb.lab.display:task_bundle",
    "Task.text": "vfnb.lab.display:task_text",
    "Taskset.bundle": "vfnb.lab.display:taskset_bundle",
    "Taskset.text": "vfnb.lab.display:taskset_text",
}


def late(name: str, *args: Any, **kwargs: Any) -> Any:
    """Call the function that the table names, with the object itself as the first argument."""
    module, _, attribute = LATE[name].partition(":")
    return getattr(import_module(module), attribute)(*args, **kwargs)
