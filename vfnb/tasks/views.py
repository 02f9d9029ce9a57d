"""Views: which tasks an iteration yields, as a chain of lazy steps."""

from __future__ import annotations

import logging
import random
import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from vfnb.errors import ConfigError
from vfnb.utils.config import BaseConfig

if TYPE_CHECKING:
    from vfnb.tasks.task import Task

__all__ = ["Filter", "FilterConfig", "SelectConfig", "Shuffle", "Skip", "Take", "View"]

_log = logging.getLogger("vfnb.tasks")
_SLICE = re.compile(r"\s*(\d*)\s*:\s*(\d*)\s*(?::\s*(\d*)\s*)?")


class FilterConfig(BaseConfig):
    """Tasks that any of the lists names."""

    idx: list[int | str] = []
    """Positions, or slices of them as text: `"0:100"`, `"100:"`, `"::2"`; none negative."""
    ids: list[str] = []
    """The dataset's identifiers."""
    keys: list[str] = []
    """Task keys."""
    names: list[str] = []
    """Task names."""

    @field_validator("idx")
    @classmethod
    def _readable(cls, value: list[int | str]) -> list[int | str]:
        for entry in value:
            _Slice.parse(entry)
        return value


class SelectConfig(BaseConfig):
    """Which tasks to take; always applied in this order: include, exclude, shuffle, skip, limit."""

    include: FilterConfig | None = None
    """Keep only these."""
    exclude: FilterConfig | None = None
    """Drop these."""
    shuffle: bool = False
    """Put them in a random order; a larger limit extends the same order."""
    seed: int = 0
    """Seed of the order."""
    skip: int = Field(default=0, ge=0)
    """Leave out the first ones."""
    limit: int | None = Field(default=None, ge=1)
    """Take at most so many."""


@dataclass(frozen=True)
class View:
    """One step of the chain."""

    def apply(self, tasks: Iterator[Any], *, infinite: bool) -> Iterator[Any]:
        """The tasks after this step; `infinite` says whether those before it have no end."""
        return tasks

    @property
    def bounds(self) -> bool:
        """Whether the result has an end whatever comes in."""
        return False


@dataclass(frozen=True)
class Take(View):
    """The first `n`."""

    n: int

    def apply(self, tasks: Iterator[Any], *, infinite: bool) -> Iterator[Any]:
        return islice(tasks, self.n)

    @property
    def bounds(self) -> bool:
        return True

    def __str__(self) -> str:
        return f"take({self.n})"


@dataclass(frozen=True)
class Skip(View):
    """All but the first `n`."""

    n: int

    def apply(self, tasks: Iterator[Any], *, infinite: bool) -> Iterator[Any]:
        return islice(tasks, self.n, None)

    def __str__(self) -> str:
        return f"skip({self.n})"


@dataclass(frozen=True)
class Shuffle(View):
    """A random order that depends on the seed and the number of tasks only."""

    seed: int

    def apply(self, tasks: Iterator[Any], *, infinite: bool) -> Iterator[Any]:
        pool = list(tasks)
        random.Random(self.seed).shuffle(pool)
        yield from pool

    def __str__(self) -> str:
        return f"shuffle(seed={self.seed})"


@dataclass(frozen=True)
class Filter(View):
    """Keeps (or drops) the tasks that any entry names. Entries that name none are logged at the stream's end."""

    keep: bool
    idx: tuple[int | str, ...] = ()
    ids: tuple[str, ...] = ()
    keys: tuple[str, ...] = ()
    names: tuple[str, ...] = ()
    slices: tuple[_Slice, ...] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        if not (self.idx or self.ids or self.keys or self.names):
            raise ConfigError(f"{self.verb}() needs at least one of idx, ids, keys, names")
        object.__setattr__(self, "slices", tuple(_Slice.parse(entry) for entry in self.idx))

    @property
    def verb(self) -> str:
        """The method that makes it."""
        return "include" if self.keep else "exclude"

    @property
    def bounds(self) -> bool:
        closed = all(entry.stop is not None for entry in self.slices)
        return self.keep and closed and not (self.ids or self.keys or self.names)

    def apply(self, tasks: Iterator[Any], *, infinite: bool) -> Iterator[Any]:
        unmatched: set[tuple[str, Any]] = {
            *(("idx", entry.text) for entry in self.slices),
            *(("ids", entry) for entry in self.ids),
            *(("keys", entry) for entry in self.keys),
            *(("names", entry) for entry in self.names),
        }
        # Positions are unique, so a closed include is done when it has them all.
        wanted = {idx for entry in self.slices for idx in entry.all()} if self.bounds else None
        last = max(wanted, default=-1) if wanted is not None else -1
        for position, task in enumerate(tasks):
            matches = set(self._matches(task))
            unmatched -= matches
            if bool(matches) == self.keep:
                yield task
            if wanted is not None:
                wanted.discard(task.data.idx)
                if not wanted or (infinite and min(position, task.data.idx) >= last):
                    break
        for kind, entry in sorted(unmatched, key=str):
            _log.warning("%s(%s=[%r]) matched no task", self.verb, kind, entry)

    def _matches(self, task: Task[Any, Any, Any]) -> Iterator[tuple[str, Any]]:
        data = task.data
        for entry in self.slices:
            if data.idx is not None and data.idx in entry:
                yield "idx", entry.text
        if data.id in self.ids:
            yield "ids", data.id
        if task.key in self.keys:
            yield "keys", task.key
        if data.name in self.names:
            yield "names", data.name

    def __str__(self) -> str:
        parts = {"idx": self.idx, "ids": self.ids, "keys": self.keys, "names": self.names}
        return f"{self.verb}({', '.join(f'{name}={list(value)}' for name, value in parts.items() if value)})"


@dataclass(frozen=True)
class _Slice:
    text: str
    start: int
    stop: int | None
    step: int

    @classmethod
    def parse(cls, entry: int | str) -> _Slice:
        """One entry of `idx`."""
        text = str(entry).strip()
        if isinstance(entry, bool) or not isinstance(entry, int | str):
            raise ConfigError(f"idx entry {entry!r}: expected an integer or a slice such as '0:100'")
        if text.isdecimal():
            return cls(text, int(text), int(text) + 1, 1)
        match = _SLICE.fullmatch(text)
        if match is None or match[3] == "0":
            raise ConfigError(
                f"idx entry {entry!r}: expected a non-negative integer or a slice such as '0:100', '100:' or '::2'"
            )
        start, stop, step = match.groups()
        return cls(text, int(start or 0), int(stop) if stop else None, int(step or 1))

    def all(self) -> Iterable[int]:
        """Every position of a closed slice."""
        assert self.stop is not None
        return range(self.start, self.stop, self.step)

    def __contains__(self, idx: int) -> bool:
        return (
            idx >= self.start
            and (self.stop is None or idx < self.stop)
            and (idx - self.start) % self.step == 0
        )
