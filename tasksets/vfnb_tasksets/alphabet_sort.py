"""Alphabet sort: an endless stream of tasks.

What to learn here: `INFINITE = True`. `load` never ends, so each run says how many tasks it takes (`n=20`, or
`-n 20` on the command line); a run without a bound is refused before any model call. The reward is a share too: how
many names stand at their place.

    run = vf.evaluate("alphabet_sort", model="my-model", n=20)
    first = AlphabetSortTaskset(seed=1).take(5)
"""

from __future__ import annotations

import random
from collections.abc import Iterator

import vfnb as vf

__all__ = ["AlphabetSortTaskset"]

NAMES = """
Ada Bela Cleo Dora Emil Fritz Greta Hugo Ines Jonas Karla Lena Milan Nora Otto Paula Quinn Rosa Sami Tilda
Uwe Vera Wanda Xenia Yara Zeno
""".split()  # noqa: SIM905


class SortData(vf.TaskData):
    """Names in the right order."""

    answer: list[str]


class SortTask(vf.Task[SortData]):
    """One name on each line, from A to Z."""

    @vf.reward
    def in_place(self, trace: vf.Trace) -> float:
        """Share of the names that stand at their place; a list of another length has none."""
        given = [line.strip(" -*.,") for line in trace.last_reply.splitlines() if line.strip()]
        if len(given) != len(self.data.answer):
            return 0.0
        right = sum(one == other for one, other in zip(given, self.data.answer, strict=True))
        return right / len(self.data.answer)


class SortConfig(vf.TasksetConfig):
    """Settings of the loading."""

    min_names: int = 3
    """Fewest names of a task."""
    max_names: int = 8
    """Most names of a task, up to 26."""
    seed: int = 0
    """Another seed gives another stream."""


class AlphabetSortTaskset(vf.Taskset[SortTask, SortConfig]):
    """Lists of names without end, always the same for a seed."""

    INFINITE = True

    def load(self) -> Iterator[SortTask]:
        """Builds the next list when it is asked for."""
        draw = random.Random(self.config.seed)
        while True:
            names = draw.sample(NAMES, draw.randint(self.config.min_names, self.config.max_names))
            prompt = "Sort these names from A to Z. Reply with one name on each line and nothing else.\n\n"
            data = SortData(prompt=prompt + "\n".join(names), answer=sorted(names))
            yield SortTask(data, self.config.task)
