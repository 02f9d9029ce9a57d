"""Forks of a rollout as an object: live while they run, the same from disk afterwards."""

from __future__ import annotations

from collections.abc import Generator
from typing import TYPE_CHECKING, Any

from vfnb.errors import StoreError
from vfnb.lab.intervals import difference, estimate
from vfnb.lab.scored_by import scored_by, unlike
from vfnb.store import DATABASE_NAME, RunReader

if TYPE_CHECKING:
    import pandas as pd

    from vfnb.exchange.credit import Advantage
    from vfnb.exchange.training import SampleList
    from vfnb.lab.fork_twin import ForkView
    from vfnb.lab.intervals import Estimate
    from vfnb.runs.run import Run
    from vfnb.trace import Trace

__all__ = ["FOLDER", "Fork", "forks_of"]

FOLDER = "forks"


class Fork:
    """Rollouts that went on anew from one message of another one.

    Attributes:
        origin: the run of the forked rollout.
        trace: the forked rollout.
        node: index of the message in `trace.nodes` up to which the forks are the same.
        run: the forks, a run like any other; `run.traces`, `run.samples()` and the rest work on it.
    """

    def __init__(self, origin: Run, trace: Trace, node: int, run: Run) -> None:
        self.origin, self.trace, self.node, self.run = origin, trace, node, run

    def wait(self, timeout: float | None = None, *, quiet: bool = False) -> Fork:
        """Block until the forks have ended; as `Run.wait`."""
        self.run.wait(timeout, quiet=quiet)
        return self

    def __await__(self) -> Generator[Any, None, Fork]:
        yield from self.run.__await__()
        return self

    def cancel(self) -> Fork:
        """Stop the forks; as `Run.cancel`."""
        self.run.cancel()
        return self

    @property
    def complete(self) -> bool:
        """Whether all forks have ended."""
        return self.run.complete

    @property
    def value(self) -> Estimate:
        """Mean reward of the scored forks, with standard error and interval: how good it is to be here."""
        return estimate(self._rewards(self.run))

    @property
    def group(self) -> Estimate:
        """Mean reward of the task's rollouts in the original run: how good it is to begin."""
        return estimate(self._rewards(self._likened()[0]))

    @property
    def change(self) -> Estimate:
        """`value` minus `group`: what the turns up to the message were worth, with Welch's interval.

        Forks are scored by the taskset. If the original run was scored anew since, its version with the same
        rewards is compared; without one there is nothing to compare (None) until both are scored alike.
        """
        return difference(self._rewards(self.run), self._rewards(self._likened()[0]))

    def frame(self) -> pd.DataFrame:
        """The forked rollout and its forks: the columns of `run.rewards` after `kind` (`original` or `fork`)."""
        import pandas as pd

        own = (self._likened()[0] or self.origin).rewards
        own = own[own.index == self.trace.id]
        forks = self.run.rewards
        kinds = ["original"] * len(own) + ["fork"] * len(forks)
        made = pd.concat([own, forks]) if len(forks) else own.copy()
        made.insert(0, "kind", pd.Series(kinds, index=made.index, dtype="string"))
        made.attrs = {"complete": self.complete}
        return made

    def samples(self, advantage: Advantage | None = "grpo", *, partial: bool = False) -> SampleList:
        """Training samples of the forks, as `Run.samples`; what was replayed is masked."""
        return self.run.samples(advantage, partial=partial)

    def _likened(self) -> tuple[Run | None, str]:
        """The original run with scores by the same rewards as those of the forks, and what to know of that."""
        forks = scored_by(self.run._reader, self.run.version)
        shown = scored_by(self.origin._reader, self.origin.version)
        if forks is None or shown is None or forks == shown:
            return self.origin, ""
        for one in reversed(self.origin._reader.versions()):
            if scored_by(self.origin._reader, one.version) == forks:
                return self.origin.use(one.version), (
                    f"the run shows version {self.origin.version} ({shown}); the forks have the rewards of version "
                    f"{one.version} ({forks}), which is compared here"
                )
        return None, f"not compared: {unlike({'the run': shown, 'the forks': forks})}"

    def _rewards(self, run: Run | None) -> list[float]:
        if run is None:
            return []
        key = self.trace.task.key
        return [
            row.reward
            for row in run._rows()
            if row.task == key and row.outcome == "scored" and row.reward is not None
        ]

    def _view(self) -> ForkView:
        from vfnb.clients.recorded import shown
        from vfnb.lab.fork_twin import ForkView

        view = self.run._view()
        likened, note = self._likened()
        forks, group = self._rewards(self.run), self._rewards(likened)
        errors = view.summary.errors if view.summary is not None else ()
        return ForkView(
            head=f"forks of trace {self.trace.id[:8]} at message {self.node} · {view.state}, "
            f"{view.done} of {view.total}",
            message=shown(self.trace.dag.nodes[self.node].message),
            original=next(
                (row.reward for row in (likened or self.origin)._rows() if row.trace == self.trace.id), None
            ),
            value=estimate(forks),
            group=estimate(group),
            change=difference(forks, group),
            rows=self.run._rows(),
            notes=[
                *filter(None, [note]),
                *(f"{error.count} x {error.type}: {error.message}" for error in errors),
            ],
        )

    def __repr__(self) -> str:
        return f"<Fork of trace {self.trace.id[:8]} at message {self.node} in {self.run.dir}>"

    def __str__(self) -> str:
        from vfnb.lab.fork_twin import fork_text

        return fork_text(self._view())

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from vfnb.lab.fork_twin import fork_bundle

        return fork_bundle(self._view())


def forks_of(run: Run) -> list[Fork]:
    """The forks in a run's folder, oldest first; those that cannot be read or whose trace is gone are left out."""
    from vfnb.runs.run import Run as Opened

    found: list[tuple[float, Fork]] = []
    for path in run.dir.glob(f"{FOLDER}/*/{DATABASE_NAME}"):
        try:
            with RunReader(path.parent) as reader:
                meta = reader.meta()
            told = meta.get("fork") or {}
            trace = run.traces(told["trace"])
        except (KeyError, StoreError):
            continue
        found.append((meta.get("created", 0.0), Fork(run, trace, int(told["node"]), Opened(path.parent))))
    return [fork for _, fork in sorted(found, key=lambda pair: pair[0])]
