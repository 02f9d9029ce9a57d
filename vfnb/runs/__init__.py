"""Runs: many rollouts as one resumable object."""

from typing import TYPE_CHECKING

from vfnb.utils.lazy import lazy

if TYPE_CHECKING:
    from vfnb.runs.run import Run as Run
    from vfnb.runs.run import TraceList as TraceList
    from vfnb.runs.run import load as load
    from vfnb.runs.start import evaluate as evaluate
else:
    __getattr__ = lazy(
        __name__,
        {
            "run": "Run TraceList load",
            "start": "evaluate",
        },
    )

__all__ = [
    "Run",
    "TraceList",
    "evaluate",
    "load",
]
