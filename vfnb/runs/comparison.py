"""Several runs of one taskset as one object: live while they execute, the same from disk afterwards."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from vfnb.errors import ConfigError, StoreError
from vfnb.runs.group import RunGroup
from vfnb.runs.manifest import COMPARISON, read_manifest
from vfnb.runs.run import Run
from vfnb.store import DATABASE_NAME

if TYPE_CHECKING:
    import pandas as pd

    from vfnb.lab.contrast import Contrasts
    from vfnb.lab.figures import Plot
    from vfnb.lab.progress import Progress
    from vfnb.lab.views import RunView

__all__ = ["Comparison"]


class Comparison(RunGroup):
    """One taskset under several harnesses. Before the end, all below is a snapshot (`complete` is False).

    Attributes:
        dir: the common folder.
        runs: the run of each harness, by name.
    """

    WHAT: ClassVar[str] = "harness"

    @classmethod
    def load(cls, dir: str | Path) -> Comparison:
        """Open a folder of `vf.compare`, finished or not, with the names that the harnesses were given.

        Raises:
            StoreError: there are no runs in it, or one cannot be read.
        """
        root = Path(dir)
        folders = {path.parent.name for path in root.glob(f"*/{DATABASE_NAME}")}
        if not folders:
            raise StoreError(f"{dir} has no runs in its folders; name a folder that vf.compare has made")
        names = read_manifest(root, COMPARISON).get("harnesses", {})
        given = {str(name): str(folder) for name, folder in names.items() if folder in folders}
        others = {folder: folder for folder in sorted(folders - set(given.values()))}
        return cls(root, {name: Run(root / folder) for name, folder in (given | others).items()})

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
        from vfnb.lab.trace_figures import plot_traces

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

    def compare(
        self,
        a: str | int | None = None,
        b: str | int | Sequence[str | int] | None = None,
        *,
        y: str = "reward",
        correction: str = "holm",
        level: float = 0.95,
    ) -> Contrasts:
        """The difference of harnesses, paired by task; by default of each to the first. See `Study.compare`.

        Raises:
            ConfigError: no such harness, number or correction, or nothing to compare with.
        """
        from vfnb.lab.study_cells import StudyCell
        from vfnb.lab.study_compare import compare_settings

        cells = [
            StudyCell(name, {"harness": name}, run._planned(), run._reader, run._rows())
            for name, run in self.runs.items()
        ]
        return compare_settings(cells, a, b, y=y, correction=correction, level=level)

    def _progress(self, *, quiet: bool = False) -> Progress:
        from vfnb.lab.progress import Progress

        return Progress(self._view, quiet=quiet)

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
                (state for state in ("running", "failed", "interrupted", "cancelled") if state in states),
                "finished",
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
