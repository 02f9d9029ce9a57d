"""Addition: the smallest complete taskset, and the one to copy from.

Three classes make a taskset. The data is one immutable row: the prompt, and here the reference answer. The task
scores one attempt at it: a method marked `@vf.reward` gets the trace, with everything the model said, and returns
a number. The taskset loads the rows and holds the settings.

    run = vf.evaluate("addition", model="my-model")            # by name
    run = vf.evaluate(AdditionTaskset(num_tasks=10), model=...)  # or as an object
"""

from __future__ import annotations

from collections.abc import Iterator

import vfnb as vf

__all__ = ["AdditionTaskset"]


class AdditionData(vf.TaskData):
    """One question with its reference answer."""

    answer: int


class AdditionTaskConfig(vf.TaskConfig):
    """Settings of the scoring."""

    tolerance: float = 0.0
    """Largest distance from the right number that still counts."""


class AdditionTask(vf.Task[AdditionData, vf.State, AdditionTaskConfig]):
    """Right if the reply is the number and nothing else."""

    @vf.reward
    async def exact_match(self, trace: vf.Trace) -> float:
        """1.0 for the right number, 0.0 for another one or for prose."""
        number = _number(trace.last_reply)
        return float(number is not None and abs(number - self.data.answer) <= self.config.tolerance)

    @vf.metric
    async def reply_length(self, trace: vf.Trace) -> float:
        """Characters of the reply."""
        return float(len(trace.last_reply))


class AdditionConfig(vf.TasksetConfig):
    """Settings of the loading."""

    num_tasks: int = 100
    """How many questions."""
    task: AdditionTaskConfig = AdditionTaskConfig()
    """Settings of the scoring."""


class AdditionTaskset(vf.Taskset[AdditionTask, AdditionConfig]):
    """`What is i + i?` for i from 0."""

    def load(self) -> Iterator[AdditionTask]:
        """Builds each question when it is asked for."""
        for i in range(self.config.num_tasks):
            data = AdditionData(prompt=f"What is {i} + {i}? Reply with the number only.", answer=2 * i)
            yield AdditionTask(data, self.config.task)


def _number(text: str) -> float | None:
    try:
        return float(text.strip().rstrip("."))
    except ValueError:
        return None
