"""Runs: many rollouts as one resumable object."""

from vfnb.runs.run import Run, TraceList, load
from vfnb.runs.start import evaluate

__all__ = ["Run", "TraceList", "evaluate", "load"]
