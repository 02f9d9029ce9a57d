"""Reverse a text: a reward between 0 and 1 instead of right or wrong.

What to learn here: a partial score. Training on all-or-nothing rewards starts slowly when a model never gets
everything right, so the reward here is how similar the reply is to the reversed text, and whether it is exactly
that is a metric beside it. The tasks come from a seeded generator: the same settings always give the same
tasks.

    run = vf.evaluate("reverse_text", model="my-model")
"""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from difflib import SequenceMatcher

import vfnb as vf

__all__ = ["ReverseTaskset"]

WORDS = (
    *("amber", "basil", "cedar", "delta", "ember", "fable", "grove", "honey"),
    *("ivory", "jolly", "kites", "lemon", "maple", "night", "ocean", "pearl"),
)


class ReverseData(vf.TaskData):
    """A text and what it is backwards."""

    answer: str


class ReverseTask(vf.Task[ReverseData]):
    """The closer the reply is to the reversed text, the better."""

    @vf.reward
    def similarity(self, trace: vf.Trace) -> float:
        """Share of equal characters in order, 1.0 for the very text."""
        return SequenceMatcher(None, _answer(trace.last_reply), self.data.answer, autojunk=False).ratio()

    @vf.metric
    def exact(self, trace: vf.Trace) -> float:
        """Whether it is the very text."""
        return float(_answer(trace.last_reply) == self.data.answer)


class ReverseConfig(vf.TasksetConfig):
    """Settings of the loading."""

    num_tasks: int = 100
    """How many texts."""
    words: int = 4
    """Words of each text."""
    seed: int = 0
    """Another seed gives other texts."""


class ReverseTaskset(vf.Taskset[ReverseTask, ReverseConfig]):
    """Random words to write backwards."""

    system_prompt = "Reverse the text character by character. Put the result in <reversed> tags."

    def load(self) -> Iterator[ReverseTask]:
        """Draws words with a generator of its own, so that nothing else disturbs the order."""
        draw = random.Random(self.config.seed)
        for _ in range(self.config.num_tasks):
            text = " ".join(draw.choices(WORDS, k=self.config.words))
            yield ReverseTask(ReverseData(prompt=text, answer=text[::-1]), self.config.task)


def _answer(reply: str) -> str:
    """What stands in the tags, else the whole reply."""
    found: list[str] = re.findall(r"<reversed>(.*?)</reversed>", reply, re.DOTALL)
    return (found[-1] if found else reply).strip()
