"""Sums whose answer must be the whole reply."""

from __future__ import annotations

import vfnb as vf


class Data(vf.TaskData):
    answer: int


class Sum(vf.Task[Data]):
    @vf.reward
    def exact(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == str(self.data.answer))
