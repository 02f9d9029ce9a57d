"""Runs: many rollouts as one resumable object. Called as `vf.runs(dir)`, this room lists the runs of a folder."""

from typing import TYPE_CHECKING

from vfnb.utils.lazy import call_room, lazy

if TYPE_CHECKING:
    from vfnb.runs.compare import compare as compare
    from vfnb.runs.comparison import Comparison as Comparison
    from vfnb.runs.diffing import diff as diff
    from vfnb.runs.many import frame as frame
    from vfnb.runs.run import Run as Run
    from vfnb.runs.run import load as load
    from vfnb.runs.start import evaluate as evaluate
    from vfnb.runs.studies import Study as Study
    from vfnb.runs.studying import study as study
    from vfnb.runs.traces import TraceList as TraceList
    from vfnb.runs.tree import EvalConfig as EvalConfig
    from vfnb.runs.validating import validate as validate
    from vfnb.runs.validation import Validation as Validation
else:
    __getattr__ = lazy(
        __name__,
        {
            "compare": "compare",
            "comparison": "Comparison",
            "diffing": "diff",
            "many": "frame",
            "run": "Run load",
            "start": "evaluate",
            "studies": "Study",
            "studying": "study",
            "tree": "EvalConfig",
            "validating": "validate",
            "validation": "Validation",
            "traces": "TraceList",
        },
    )

    call_room(__name__, "many", "runs")

__all__ = [
    "Comparison",
    "EvalConfig",
    "Run",
    "Study",
    "TraceList",
    "Validation",
    "compare",
    "diff",
    "evaluate",
    "frame",
    "load",
    "study",
    "validate",
]
