"""Several runs of one taskset as one object: live while they execute, the same from disk afterwards."""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
from collections.abc import Generator, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vfnb import loops
from vfnb.errors import ConfigError, StoreError
from vfnb.runs.run import WAKE_S, Run
from vfnb.store import DATABASE_NAME

if TYPE_CHECKING:
    import pandas as pd

    from vfnb.lab.figures import Plot
    from vfnb.lab.views import RunView

__all__ = ["Comparison"]


class Comparison:
    """One taskset under several harnesses. Before the end, all below is a snapshot (`complete` is False).

    Attributes:
        dir: the common folder.
        runs: the run of each harness, by name.
    """

    def __init__(self, dir: Path, runs: Mapping[str, Run]) -> None:
        self.dir = dir
        self.runs = dict(runs)

    @classmethod
    def load(cls, dir: str | Path) -> Comparison:
        """Open a folder of `vf.compare`, finished or not.

        Raises:
            StoreError: there are no runs in it, or one cannot be read.
        """
        found = sorted(path.parent for path in Path(dir).glob(f"*/{DATABASE_NAME}"))
        if not found:
            raise StoreError(f"{dir} has no runs in its folders; name a folder that vf.compare has made")
        return cls(Path(dir), {folder.name: Run(folder) for folder in found})

    def __getitem__(self, name: str) -> Run:
        if name not in self.runs:
            raise KeyError(f"no harness {name!r} in this comparison; there are {', '.join(self.runs)}")
        return self.runs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self.runs)

    def __len__(self) -> int:
        return len(self.runs)

    @property
    def complete(self) -> bool:
        """Whether every run is."""
        return all(run.complete for run in self.runs.values())

    def frame(self, level: str = "harness") -> pd.DataFrame:
        """The harnesses side by side.

        Args:
            level: `harness` (a row for each), `task` (for each harness and task) or `rollout`.

        Returns:
            Per row `n`, `scored`, `errors`, `reward` with `reward_se`, `reward_low` and `reward_high`; means per
            rollout that ended in order of `turns`, `tokens_in`, `tokens_out`, `tool_calls`, `branches`, `rewrites`
            (branches that exist because the program changed its own history), `time_s`, `model_s` (at least one
            model call under way) and `harness_s` (the rest of the agent stage); sums of `fork_<cause>` and `cost`.
            With `rollout`, the values themselves. `attrs["complete"]` is False while a run goes on.

        Raises:
            ConfigError: an unknown level.
        """
        from vfnb.lab.comparison import LEVELS, compared, rollout_table

        if level not in LEVELS:
            raise ConfigError(f"level={level!r} is none of {', '.join(LEVELS)}")
        tables = {name: rollout_table(run._reader) for name, run in self.runs.items()}
        found = compared(tables, {name: run._planned() for name, run in self.runs.items()}, level)
        found.attrs["complete"] = self.complete
        return found

    def plot(self, task: int | str = 0, rollout: int = 0) -> Plot:
        """The traces of one task under each harness, beside each other.

        Args:
            task: position of the task, or its key.
            rollout: which of its samples.

        Raises:
            ConfigError: there is no such task or sample yet.
        """
        from vfnb.lab.side_by_side import plot_traces

        table = self.frame("rollout")
        keys = list(dict.fromkeys(table["task"]))
        key = task if isinstance(task, str) else dict(enumerate(keys)).get(task)
        rows = table[(table["task"] == key) & (table["rollout"] == rollout)]
        if rows.empty:
            raise ConfigError(
                f"task {task!r} has no sample {rollout}; there are {len(keys)} tasks: {', '.join(keys[:5])}"
            )
        found = dict(zip(rows["harness"].astype(str), rows["trace"].astype(str), strict=True))
        return plot_traces({name: self.runs[name].traces(trace) for name, trace in found.items()})

    def wait(self, timeout: float | None = None, *, quiet: bool = False) -> Comparison:
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
                    f"{len(late)} of {len(self)} runs have not ended after {timeout:g} s; they go on"
                )
        for ended in pending:
            ended.result()
        return self

    def __await__(self) -> Generator[Any, None, Comparison]:
        return self._wait().__await__()

    async def _wait(self) -> Comparison:
        with self._watched():
            ended = {asyncio.wrap_future(one) for one in self._pending()}
            waiting = ended
            while waiting:  # ipykernel 7 hands an interrupt to the loop of the cell without waking it
                _, waiting = await asyncio.wait(waiting, timeout=WAKE_S)
        for one in ended:
            one.result()
        return self

    def cancel(self, *, wait: bool = True) -> Comparison:
        """Stop all runs: rollouts under way become `cancelled`, finished ones stay."""
        for run in self.runs.values():
            run.cancel(wait=False)
        if wait and loops.current() is None:
            concurrent.futures.wait(self._pending())
        return self

    def _pending(self) -> list[concurrent.futures.Future[None]]:
        return [run._live.done for run in self.runs.values() if run._live is not None]

    @contextlib.contextmanager
    def _watched(self, *, quiet: bool = False) -> Iterator[None]:
        from vfnb.lab.progress import Progress

        progress = Progress(self._view, quiet=quiet).start()
        try:
            yield
        except (KeyboardInterrupt, asyncio.CancelledError):
            self.cancel(wait=False)
            pending = self._pending()
            for one in pending:  # the prompt is back at once, the view says how it ended
                one.add_done_callback(lambda _: progress.stop(0) if all(p.done() for p in pending) else None)
            raise
        except BaseException:
            progress.stop()
            raise
        progress.stop()

    # displays

    def _view(self) -> RunView:
        """All runs as if they were one, for the progress of a wait."""
        from vfnb.lab.stats import summarise
        from vfnb.lab.views import RunView

        views = [run._view() for run in self.runs.values()]
        rows = [row for run in self.runs.values() for row in run._rows()]
        states = {view.state for view in views}
        total = sum(view.total for view in views)
        etas = [view.eta_s for view in views if view.eta_s is not None]
        return RunView(
            name=self.dir.name,
            total=total,
            done=sum(view.done for view in views),
            running=sum(view.running for view in views),
            failed=sum(view.failed for view in views),
            cancelled=sum(view.cancelled for view in views),
            reused=sum(view.reused for view in views),
            state=next(
                (state for state in ("running", "failed", "cancelled") if state in states), "finished"
            ),
            summary=summarise(rows, planned=total),
            taskset=views[0].taskset,
            model=views[0].model,
            harness=", ".join(self.runs),
            dir=str(self.dir),
            elapsed_s=max((view.elapsed_s or 0.0 for view in views), default=None),
            eta_s=max(etas) if etas else None,
            error=next(
                (f"{name}: {view.error}" for name, view in zip(self.runs, views, strict=True) if view.error),
                "",
            ),
            doing=views[0].doing,
        )

    def _head(self) -> tuple[str, list[str]]:
        view = self._view()
        done = f"{view.state}, {view.done} of {view.total}"
        head = f"{len(self)} harnesses on {view.taskset} · model {view.model} · {done}"
        notes = [
            f"{name}: {error.count} x {error.type}: {error.message}"
            for name, run in self.runs.items()
            for error in run.summary.errors[:2]
        ]
        return head, notes

    def __repr__(self) -> str:
        return f"<Comparison {', '.join(self.runs)} in {self.dir}>"

    def __str__(self) -> str:
        from vfnb.lab.comparison_twin import comparison_text

        head, notes = self._head()
        return comparison_text(head, self.frame(), notes)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from vfnb.lab.comparison_twin import comparison_bundle

        head, notes = self._head()
        return comparison_bundle(head, self.frame(), notes)
