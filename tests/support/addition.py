"""The addition taskset of the documentation, and a scripted model that can add."""

from __future__ import annotations

import re

import vfnb as vf


class AdditionData(vf.TaskData):
    answer: int


class AdditionTask(vf.Task[AdditionData]):
    @vf.reward
    async def exact_match(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == str(self.data.answer))


class AdditionConfig(vf.TasksetConfig):
    num_tasks: int = 100


class AdditionTaskset(vf.Taskset[AdditionTask, AdditionConfig]):
    def load(self) -> list[AdditionTask]:
        return [
            AdditionTask(AdditionData(prompt=f"What is {i} + {i}?", answer=2 * i), self.config.task)
            for i in range(self.config.num_tasks)
        ]


def taskset(n: int) -> AdditionTaskset:
    """The first `n` sums."""
    return AdditionTaskset(AdditionConfig(num_tasks=n))


def add(messages: vf.Messages) -> str:
    """A model that adds the first two numbers of the last message."""
    first, second = re.findall(r"\d+", messages[-1].text)[:2]
    return str(int(first) + int(second))
