"""See what a run did: statistics, displays, graphs, figures, progress, frames.

Nothing heavy is loaded here; pandas, networkx and plotly come with the first frame, graph or figure.
"""

from vfnb.lab.rows import Row, trace_row
from vfnb.lab.sample import Samples, print_prompt_completions_sample, sample
from vfnb.lab.schema import schema
from vfnb.lab.stats import Summary, TaskStat, per_task, summarise
from vfnb.lab.views import RunView

__all__ = [
    "Row",
    "RunView",
    "Samples",
    "Summary",
    "TaskStat",
    "per_task",
    "print_prompt_completions_sample",
    "sample",
    "schema",
    "summarise",
    "trace_row",
]
