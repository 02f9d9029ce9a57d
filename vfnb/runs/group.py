"""Several runs as one object: wait for all, watch all, interrupt all."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
from abc import ABC, abstractmethod
from collections.abc import Generator, ItemsView, Iterator, KeysView, Mapping, ValuesView
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Self

from vfnb import loops
from vfnb.runs.run import WAKE_S, Run

if TYPE_CHECKING:
    from vfnb.lab.progress import Progress
    from vfnb.lab.rescored import Rescored

__all__ = ["RunGroup"]


class RunGroup(ABC):
    """Runs by name in a common folder.

    Attributes:
        dir: the common folder.
        runs: the runs, by name.
    """

    WHAT: ClassVar[str] = "run"
    """What one of the names is."""

    def __init__(self, dir: Path, runs: Mapping[str, Run]) -> None:
        self.dir = dir
        self.runs = dict(runs)
        self._shown_in: str | None = None
        """The cell that has a view of this, because it waited for it."""

    def __getitem__(self, which: str | int) -> Run:
        """A run by its name or position."""
        if isinstance(which, int) and -len(self.runs) <= which < len(self.runs):
            return list(self.runs.values())[which]
        if not isinstance(which, str) or which not in self.runs:
            there = "; ".join(repr(name) for name in self.runs)
            raise KeyError(
                f"no {self.WHAT} {which!r} in this {type(self).__name__.lower()}; there are {there}"
            )
        return self.runs[which]

    def keys(self) -> KeysView[str]:
        """The names."""
        return self.runs.keys()

    def values(self) -> ValuesView[Run]:
        """The runs."""
        return self.runs.values()

    def items(self) -> ItemsView[str, Run]:
        """Names and runs."""
        return self.runs.items()

    def rescore(self, rewards: Any = None, **settings: Any) -> dict[str, Rescored]:
        """Score every run anew, alike, so that they can be compared: `Run.rescore` with the same arguments each.

        Returns what it gives for each run, by name. If one is refused, those before it have the new version.

        Raises:
            RunNotFinished: without `partial`.
            ConfigError, HookError: as `Run.rescore`.
        """
        return {name: run.rescore(rewards, **settings) for name, run in self.runs.items()}

    def __iter__(self) -> Iterator[str]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def complete(self) -> bool:
        """Whether every run is."""
        return all(run.complete for run in self.runs.values())

    def wait(self, timeout: float | None = None, *, quiet: bool = False) -> Self:
        """Block until all runs have ended, with a progress view unless `quiet`. An interrupt cancels them.

        Raises:
            TimeoutError: they did not end within `timeout` seconds; they go on.
            StoreError: a run could not be stored.
            RuntimeError: called in an async harness or hook, whose loop the runs may need: `await` there.
        """
        pending = self._pending()
        here = loops.current()
        if here is not None and pending:
            raise RuntimeError(f"wait() would block the {here.name} loop; write `await` instead")
        with self._watched(quiet=quiet):
            late = concurrent.futures.wait(pending, timeout).not_done
            if late:
                raise TimeoutError(
                    f"{len(late)} of {len(self.runs)} runs have not ended after {timeout:g} s; they go on"
                )
        for ended in pending:
            ended.result()
        return self

    def __await__(self) -> Generator[Any, None, Self]:
        return self._wait().__await__()

    async def _wait(self) -> Self:
        with self._watched():
            ended = {asyncio.wrap_future(one) for one in self._pending()}
            waiting = ended
            while waiting:  # ipykernel 7 hands an interrupt to the loop of the cell without waking it
                _, waiting = await asyncio.wait(waiting, timeout=WAKE_S)
        for one in ended:
            one.result()
        return self

    def cancel(self, *, wait: bool = True) -> Self:
        """Stop all runs: rollouts under way become `cancelled`, finished ones stay."""
        for run in self.runs.values():
            run.cancel(wait=False)
        if wait and loops.current() is None:
            concurrent.futures.wait(self._pending())
        return self

    @abstractmethod
    def _progress(self, *, quiet: bool = False) -> Progress:
        """The live view of all runs."""

    def _pending(self) -> list[concurrent.futures.Future[None]]:
        return [run._live.done for run in self.runs.values() if run._live is not None]

    @contextlib.contextmanager
    def _watched(self, *, quiet: bool = False) -> Iterator[None]:
        from vfnb.lab.kernel import cell

        progress = self._progress(quiet=quiet).start()
        self._shown_in = None if quiet else cell()
        try:
            yield
        except (KeyboardInterrupt, asyncio.CancelledError):
            self.cancel(wait=False)
            self._at_end(progress)  # the prompt is back at once, the view says how it ended
            raise
        except BaseException:
            progress.stop()
            raise
        progress.stop()

    def _at_end(self, progress: Progress) -> None:
        """Let a live view send its last state once all runs have ended."""
        pending = self._pending()
        for one in pending:
            one.add_done_callback(lambda _: progress.stop(0) if all(p.done() for p in pending) else None)
