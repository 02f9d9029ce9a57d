"""Runs of the example tasksets with scripted models."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import vfnb as vf

__all__ = ["replies", "solve"]


def solve(taskset: Any, model: Any, folder: Path, **settings: Any) -> list[vf.Trace]:
    """The traces of a finished run, in the order of the tasks; none has an error."""
    client = model if isinstance(model, vf.Scripted) else vf.Scripted(model)
    run = vf.evaluate(taskset, model=client, dir=folder, **settings).wait(quiet=True)
    traces = sorted(run.traces, key=lambda trace: trace.task.idx or 0)
    assert [trace.errors for trace in traces] == [[] for _ in traces]
    return traces


def replies(taskset: Any, *answers: str, n: int | None = None) -> Any:
    """A model with a reply for each task, found by the task's prompt."""
    source = taskset if n is None else taskset.take(n)
    known = {task.data.prompt: answer for task, answer in zip(source.resolve(), answers, strict=True)}
    return lambda messages: known[next(message.text for message in messages if message.role == "user")]
