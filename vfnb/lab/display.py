"""What every object shows: text for terminals, logs and language models, static html for notebooks.

Each `*_bundle` gives both, each `*_text` the text alone. All take the object first.
"""

from vfnb.lab.run_twin import run_bundle, run_line, run_repr, run_text
from vfnb.lab.summary_twin import summary_bundle, summary_text
from vfnb.lab.task_twin import task_bundle, task_text, taskset_bundle, taskset_text
from vfnb.lab.trace_twin import branch_bundle, branch_text, trace_bundle, trace_text

__all__ = [
    "branch_bundle",
    "branch_text",
    "run_bundle",
    "run_line",
    "run_repr",
    "run_text",
    "summary_bundle",
    "summary_text",
    "task_bundle",
    "task_text",
    "taskset_bundle",
    "taskset_text",
    "trace_bundle",
    "trace_text",
]
