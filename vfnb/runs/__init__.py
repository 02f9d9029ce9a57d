"""Runs: many rollouts as one resumable object."""

from vfnb.runs.evaluate import evaluate
from vfnb.runs.run import Run, TraceList, load

__all__ = ["Run", "TraceList", "evaluate", "load"]
