"""Tasks and tasksets show themselves through their attributes alone."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator
from typing import Any

from pydantic import BaseModel
from support.html_rules import check_bundle
from support.views import HOSTILE

from vfnb.lab.display import task_bundle, task_text, taskset_bundle, taskset_text
from vfnb.types import (
    ImageUrlContentPart,
    ImageUrlSource,
    Messages,
    SystemMessage,
    TextContentPart,
    UserMessage,
)


class Data(BaseModel, extra="allow"):
    idx: int | None = None
    name: str | None = None
    prompt: str | Messages | None = None
    answer: Any = None


class Sum:
    def __init__(self, data: Data) -> None:
        self.data = data
        self.key = f"sums/{data.idx}"


class Config(BaseModel):
    num_tasks: int = 100
    split: str | None = None


class Sums:
    INFINITE = False

    def __init__(self, load: Iterable[Sum], config: Config | None = None) -> None:
        self._load = load
        self.config = config

    def __iter__(self) -> Iterator[Sum]:
        return iter(self._load)


def sums(count: int | None) -> Iterator[Sum]:
    for i in itertools.count() if count is None else range(count):
        yield Sum(Data(idx=i, name=f"sum-{i}", prompt=f"What is {i} + {i}?", answer=2 * i))


def test_a_task_shows_its_prompt_and_its_data() -> None:
    task = next(sums(1))
    task.data = Data(idx=7, name="seven", prompt="What is 7 + 7?", answer={"value": 14}, level=3)
    bundle = task_bundle(task)
    page = check_bundle(bundle)
    for text in (bundle["text/plain"], page.text):
        for fact in ("Sum seven", "idx 7", "sums/0", "What is 7 + 7?", '{"value": 14}', "level"):
            assert fact in text, fact
    assert task_text(task).splitlines()[0] == "Sum seven · idx 7 · key sums/0"


def test_prompts_of_every_kind() -> None:
    picture = ImageUrlContentPart(image_url=ImageUrlSource(url="data:image/png;base64,AAAA"))
    talk: Messages = [
        SystemMessage(content="Be brief."),
        UserMessage(content=[TextContentPart(text="What is it?"), picture]),
    ]
    text = check_bundle(task_bundle(Sum(Data(prompt=talk)))).text
    assert "system: Be brief." in text
    assert "user: What is it?\n[image 26 characters inline]" in text
    assert "no prompt: the caller opens the conversation" in task_text(Sum(Data()))
    long = task_bundle(Sum(Data(prompt="line\n" * 5000)))
    assert "more characters)" in check_bundle(long).text
    assert "more lines; task.data.prompt has all" in long["text/plain"]


def test_hostile_and_large_data_stay_in_bounds() -> None:
    extra = {f"field {HOSTILE} {n}": HOSTILE * 1000 for n in range(200)}
    bundle = task_bundle(Sum(Data(name=HOSTILE, prompt=HOSTILE * 100, answer=list(range(100_000)), **extra)))
    assert "50 of 201 fields shown; task.data has all" in check_bundle(bundle).text


def test_a_taskset_shows_its_config_and_first_tasks() -> None:
    bundle = taskset_bundle(Sums(list(sums(3)), Config(num_tasks=3)))
    page = check_bundle(bundle)
    for text in (bundle["text/plain"], page.text):
        for fact in ("Taskset Sums", "num_tasks", "sum-2", "What is 2 + 2?", "3 tasks"):
            assert fact in text, fact
    assert "split" not in page.text


def test_an_endless_taskset_is_looked_at_only_as_far_as_needed() -> None:
    taken = []

    def load() -> Iterator[Sum]:
        for task in sums(None):
            taken.append(task)
            yield task

    endless = Sums(load())
    endless.INFINITE = True
    text = taskset_text(endless)
    assert "Taskset Sums (infinite)" in text
    assert "more follow" in text
    assert len(taken) == 9


def test_a_taskset_that_cannot_load_says_why_instead_of_raising() -> None:
    def load() -> Iterator[Sum]:
        yield from sums(1)
        raise FileNotFoundError(f"no such data set {HOSTILE}")

    class Broken(Sums):
        def __iter__(self) -> Iterator[Sum]:
            return load()

    bundle = taskset_bundle(Broken([]))
    page = check_bundle(bundle)
    assert "✗ cannot load: FileNotFoundError: no such data set" in page.text
    assert "cannot load: FileNotFoundError" in bundle["text/plain"]
