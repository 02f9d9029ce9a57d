"""Word problems in the shape of GSM8K: the reference is a worked solution whose last line is `#### 72`.

What to learn here: the work of a taskset is often to turn rows that someone else shaped into TaskData. The
reference number is taken out of the solution once, in `load`; a row without one is a broken dataset and fails
there with its question, not later as a wrong answer. A second, weightless reward shows how to record a signal
without training on it.

    run = vf.evaluate("gsm8k_style", model="my-model")
    run = vf.evaluate(GSM8KTaskset(path="test.jsonl"), model=..., n=50)  # a download of the real set
"""

from __future__ import annotations

import re
from collections.abc import Iterator

import vfnb as vf
from vfnb.errors import TasksetError
from vfnb_tasksets.rows import DATA, rows

__all__ = ["GSM8KTaskset"]


class GSM8KData(vf.TaskData):
    """One question, its number, and the worked solution for people who look at a trace."""

    answer: float
    solution: str


class GSM8KTask(vf.Task[GSM8KData]):
    """Right if the last number of the reply is the reference's."""

    @vf.reward
    def correct(self, trace: vf.Trace) -> float:
        """1.0 if the last number, or the one in a box, is right."""
        return vf.verify_numeric_answer(trace.last_reply, self.data.answer)

    @vf.reward(weight=0.0)
    def formatted(self, trace: vf.Trace) -> float:
        """Whether the reply ends with `#### number`. Recorded, but with weight 0 it is no part of the reward."""
        return float(_reference(trace.last_reply) is not None)


class GSM8KConfig(vf.TasksetConfig):
    """Settings of the loading."""

    path: str = str(DATA / "gsm8k_style.jsonl")
    """JSONL file with `question` and `answer` in each row; a few questions come with the package."""


class GSM8KTaskset(vf.Taskset[GSM8KTask, GSM8KConfig]):
    """Questions of a file."""

    system_prompt = "Solve the problem step by step. End with a line `#### ` and the number."

    def load(self) -> Iterator[GSM8KTask]:
        """One task a row; `#### 1,234` becomes 1234."""
        for row in rows(self.config.path, "question", "answer"):
            answer = _reference(row["answer"])
            if answer is None:
                raise TasksetError(f"no `#### number` at the end of the answer to {row['question'][:60]!r}")
            data = GSM8KData(prompt=row["question"], answer=answer, solution=row["answer"])
            yield GSM8KTask(data, self.config.task)


def _reference(text: str) -> float | None:
    found = re.search(r"####\s*([^\n]+?)\s*$", text)
    return vf.extract_number(found[1]) if found else None
