"""Reasoning Gym: an adapter from another library's generators and scorers to a taskset.

What to learn here: how to bring a foreign dataset in. The library is an extra, imported when tasks are loaded
or scored and not before; without it the error has the command that installs it. The data keeps only what names
an entry (generator, seed, position): the library makes the same entry again for its own scorer, which may need
objects that no JSON can hold.

    pip install 'vfnb[reasoning-gym]'
    run = vf.evaluate(ReasoningGymTaskset(dataset="chain_sum", num_tasks=20), model="my-model")
"""

from __future__ import annotations

import importlib
import json
import re
import warnings
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import vfnb as vf
from vfnb.errors import MissingExtra, TasksetError

__all__ = ["ReasoningGymTaskset"]


class GymData(vf.TaskData):
    """What names one entry of a generator."""

    dataset: str
    seed: int
    position: int
    params: dict[str, Any] = {}


class GymTask(vf.Task[GymData]):
    """Scored by the library."""

    @vf.reward
    def gym_score(self, trace: vf.Trace) -> float:
        """The library's own score of the text in `<answer>` tags, between 0 and 1."""
        data = self.data
        source = _generator(
            data.dataset, data.seed, data.position + 1, json.dumps(data.params, sort_keys=True)
        )
        return float(source.score_answer(answer=_answer(trace.last_reply), entry=source[data.position]))


class GymConfig(vf.TasksetConfig):
    """Settings of the loading."""

    dataset: str = "chain_sum"
    """Name of a generator of the library."""
    num_tasks: int = 50
    """How many entries."""
    seed: int = 0
    """Another seed gives other entries."""
    params: dict[str, Any] = {}
    """Further settings of the generator, such as `{"max_terms": 3}`."""


class ReasoningGymTaskset(vf.Taskset[GymTask, GymConfig]):
    """Entries of one generator."""

    system_prompt = "Think step by step. Give the final answer in <answer> tags."

    def load(self) -> Iterator[GymTask]:
        """Makes each entry when it is asked for."""
        config = self.config
        source = _generator(
            config.dataset, config.seed, config.num_tasks, json.dumps(config.params, sort_keys=True)
        )
        for position in range(config.num_tasks):
            data = GymData(
                prompt=source[position]["question"],
                dataset=config.dataset,
                seed=config.seed,
                position=position,
                params=config.params,
            )
            yield GymTask(data, config.task)


@lru_cache(maxsize=32)
def _generator(dataset: str, seed: int, size: int, params: str) -> Any:
    """A generator of the library. Its entries depend on seed and position, not on the size.

    Raises:
        MissingExtra: the library is not installed.
        TasksetError: no such generator, or wrong settings.
    """
    try:
        with warnings.catch_warnings(action="ignore"):  # what it depends on is compiled with warnings
            library = importlib.import_module("reasoning_gym")
    except ModuleNotFoundError as error:
        raise MissingExtra("these tasks need reasoning-gym: pip install 'vfnb[reasoning-gym]'") from error
    try:
        return library.create_dataset(dataset, seed=seed, size=size, **json.loads(params))
    except (ValueError, TypeError, AssertionError) as error:
        raise TasksetError(f"reasoning-gym cannot make dataset {dataset!r}: {error}") from error


def _answer(reply: str) -> str:
    found: list[str] = re.findall(r"<answer>(.*?)</answer>", reply, re.DOTALL)
    return (found[-1] if found else reply).strip()
