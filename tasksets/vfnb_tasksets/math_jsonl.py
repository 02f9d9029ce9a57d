r"""Math from a JSONL file: tasks loaded from data on disk, answers checked in a `\boxed{}`.

What to learn here: `load` is a generator over the rows of a file, the file's path is a setting of the taskset,
and how an answer is compared is a setting of the task. A row is

    {"problem": "What is 3/4 of 20?", "answer": "15"}

`check = "numeric"` compares the number in the last box, or the last number if there is no box. `check = "math"`
compares the last box as mathematics, so that `\frac{1}{2}` is `0.5`; it needs `pip install 'vfnb[math]'`.

    run = vf.evaluate("math_jsonl", model="my-model")
    run = vf.evaluate(MathTaskset(path="my.jsonl", task={"check": "math"}), model=...)
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import vfnb as vf
from vfnb_tasksets.rows import DATA, rows

__all__ = ["MathTaskset"]


class MathData(vf.TaskData):
    """One problem with its reference answer, a number or LaTeX."""

    answer: str


class MathTaskConfig(vf.TaskConfig):
    """Settings of the scoring."""

    check: Literal["numeric", "math"] = "numeric"
    """`numeric` compares numbers, `math` compares as mathematics (extra `math`)."""


class MathTask(vf.Task[MathData, vf.State, MathTaskConfig]):
    """Right if the boxed answer is the reference's."""

    @vf.reward
    def correct(self, trace: vf.Trace) -> float:
        """1.0 for an equal answer. A sync method runs in a thread, so a slow comparison holds up nothing."""
        if self.config.check == "math":
            return vf.verify_boxed_math_answer(trace.last_reply, self.data.answer)
        return vf.verify_numeric_answer(trace.last_reply, self.data.answer)

    @vf.metric
    def boxed(self, trace: vf.Trace) -> float:
        """Whether there is a box at all: it tells a wrong answer from a wrong format."""
        return float(bool(vf.extract_boxed_answer(trace.last_reply, strict=True)))


class MathConfig(vf.TasksetConfig):
    """Settings of the loading."""

    path: str = str(DATA / "math.jsonl")
    """JSONL file with `problem` and `answer` in each row; a few problems come with the package."""
    task: MathTaskConfig = MathTaskConfig()
    """Settings of the scoring."""


class MathTaskset(vf.Taskset[MathTask, MathConfig]):
    """Problems of a file."""

    system_prompt = r"Think step by step. Put the final answer in \boxed{}."

    def load(self) -> Iterator[MathTask]:
        """Reads a row when its task is asked for."""
        for row in rows(self.config.path, "problem", "answer"):
            yield MathTask(MathData(prompt=row["problem"], answer=str(row["answer"])), self.config.task)
