"""A study as an object: one taskset under many settings, live while it runs, the same from disk afterwards."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from vfnb.errors import ConfigError, StoreError
from vfnb.runs.group import RunGroup
from vfnb.runs.manifest import STUDY, read_manifest
from vfnb.runs.run import Run
from vfnb.store import DATABASE_NAME

if TYPE_CHECKING:
    import pandas as pd

    from vfnb.lab.contrast import Contrasts
    from vfnb.lab.figures import Plot
    from vfnb.lab.grid import Grid
    from vfnb.lab.progress import Progress
    from vfnb.lab.study_cells import StudyCell
    from vfnb.lab.study_compare import Chosen
    from vfnb.lab.study_twin import StudyView

__all__ = ["Study"]


class Study(RunGroup):
    """One taskset under many settings. Before the end, all below is a snapshot (`complete` is False).

    Attributes:
        dir: the common folder.
        runs: the run of each setting, by its name; a setting that has not begun has none.
    """

    WHAT: ClassVar[str] = "setting"

    def __init__(self, dir: Path, runs: Mapping[str, Run], about: Mapping[str, Any]) -> None:
        super().__init__(dir, runs)
        self._about = about

    def __getitem__(self, which: str | int | Mapping[str, Any]) -> Run:
        """The run of a setting, by its name, its position, or values of axes that fit no other."""
        if not isinstance(which, Mapping):
            return super().__getitem__(which)
        from vfnb.lab.study_compare import fitting

        names = fitting(self._cells(), which)[1]
        if len(names) > 1:
            raise KeyError(f"{dict(which)!r} fits {len(names)} settings: {'; '.join(map(repr, names))}")
        return super().__getitem__(names[0])

    @classmethod
    def load(cls, dir: str | Path) -> Study:
        """Open a folder of `vf.study`, finished or not.

        Raises:
            StoreError: there is no study in it, or a run cannot be read.
        """
        root = Path(dir)
        about = read_manifest(root, STUDY)
        if not {"design", "axes", "settings"} <= set(about):
            raise StoreError(f"{dir} has no {STUDY}; name a folder that vf.study has made")
        folders = {one["name"]: root / one["folder"] for one in about["settings"]}
        begun = {name: Run(path) for name, path in folders.items() if (path / DATABASE_NAME).exists()}
        return cls(root, begun, about)

    @property
    def design(self) -> str:
        """`grid`, `list` or `paired`."""
        return str(self._about["design"])

    @property
    def axes(self) -> dict[str, list[str]]:
        """The columns of each axis, by its key."""
        return {axis["key"]: list(axis["columns"]) for axis in self._about["axes"]}

    @property
    def complete(self) -> bool:
        """Whether the run of every setting is."""
        return len(self.runs) == len(self._about["settings"]) and super().complete

    @property
    def settings(self) -> pd.DataFrame:
        """A row per setting.

        Columns `setting`, the axes, `n` (rollouts planned), `scored`, `errors`, `cancelled`, `reward` (mean of the
        scored) with `reward_se`, `reward_low` and `reward_high` (95 %, clustered by task), means per rollout of
        `turns`, `tokens_in`, `tokens_out`, `time_s`, and the sum of `cost` in US dollars.
        """
        from vfnb.lab.study_data import settings_table

        return self._marked(settings_table(self._cells()))

    def frame(
        self, level: str = "rollouts", *, columns: Sequence[str] | None = None, where: str | None = None
    ) -> pd.DataFrame:
        """A row per setting, task and rollout; or one level of all runs, with `setting` and the axes in front.

        Args:
            level: `rollouts`, or as for `Run.frame`: `messages`, `calls`, `errors` and so on. There an axis with
                the name of a column is called `axis_<name>`.
            columns: of another level than `rollouts`: only these.
            where: likewise: SQL over the level's columns.

        Returns:
            With `rollouts`: `setting`, the axes, `task`, `task_idx`, `task_name`, `rollout`, `trace`, `state`,
            `ok`, `stop`, `error`, `reward`, each reward and metric under its own name, `turns`, `tokens_in`,
            `tokens_out`, `cost` (US dollars) and `time_s`. Axes of numbers are numbers. What failed has no reward,
            never 0.

        Raises:
            ConfigError: as `Run.frame`.
        """
        from vfnb.lab.study_data import level_table, rollouts

        if level != "rollouts":
            cells = self._cells()
            parts = {name: run.frame(level, columns=columns, where=where) for name, run in self.runs.items()}
            return self._marked(level_table(cells, parts))
        if columns is not None or where is not None:
            raise ConfigError(
                "study.frame(): columns= and where= need a level, such as study.frame('traces')"
            )
        return self._marked(rollouts(self._cells()))

    def plot(
        self, y: str = "reward", x: str | None = None, color: str | None = None, facet: str | None = None
    ) -> Plot:
        """Means with 95 % intervals over the axes.

        Thin bars are the interval of a mean, clustered by task; thick ones leave out how hard the tasks are, which
        all settings share, and are the ones to compare settings by.

        Args:
            y: `reward`, a reward, a metric, `turns`, `tokens_in`, `tokens_out`, `cost`, `time_s`, or `pass@k`.
            x: an axis, or `setting`; an axis of numbers is drawn to scale.
            color: an axis.
            facet: an axis: a panel for each of its values.

        If none of the three is given, a grid is laid out by itself and other designs by setting; if some are, the
        axes that are left out are averaged over.

        Raises:
            ConfigError: there is no such number or axis, or too much to be told apart.
        """
        from vfnb.lab.study_plot import plot_study

        return plot_study(self._cells(), y, x, color, facet, grid=self.design == "grid")

    def compare(
        self,
        a: Chosen | None = None,
        b: Chosen | Sequence[Chosen] | None = None,
        *,
        y: str = "reward",
        correction: str = "holm",
        level: float = 0.95,
    ) -> Contrasts:
        """The difference of settings, paired by task, with interval, test and what could have been found.

        Args:
            a: what to compare with: a setting's name or position, or values of axes as in `{"temperature": 0}`; the
                first setting by default. Values that fit several settings stand for their mean on each task.
            b: the other side, or a list of them; every other setting by default.
            y: as for `plot`.
            correction: of the p values of several comparisons: `holm`, `bh` (Benjamini-Hochberg) or `none`.
            level: of the intervals; 1 - `level` is the level of the tests.

        Raises:
            ConfigError: no such setting, number or correction, or nothing to compare with.
        """
        from vfnb.lab.study_compare import compare_settings

        return compare_settings(self._cells(), a, b, y=y, correction=correction, level=level)

    def table(self, y: str = "reward", *, correction: str = "holm", level: float = 0.95) -> Grid:
        """The settings as a table for people, each against the first: `.text`, `.html`, `.markdown`, `.latex`.

        Raises:
            ConfigError: no such number or correction.
        """
        from vfnb.lab.study_table import study_table

        return study_table(self._cells(), y, correction=correction, level=level)

    def _marked(self, frame: pd.DataFrame) -> pd.DataFrame:
        frame.attrs["complete"] = self.complete
        return frame

    def _cells(self) -> list[StudyCell]:
        from vfnb.lab.study_cells import StudyCell

        found = []
        for one in self._about["settings"]:
            run = self.runs.get(one["name"])
            rows = [row for row in run._rows() if row.end_state is not None] if run is not None else []
            reader = run._reader if run is not None else None
            found.append(StudyCell(one["name"], one["values"], one["planned"], reader, rows))
        return found

    # displays

    def _progress(self, *, quiet: bool = False) -> Progress:
        from vfnb.lab.progress import Progress, Shown
        from vfnb.lab.study_twin import study_bundle, study_line

        return Progress(self._view, quiet=quiet, shown=Shown(study_bundle, study_line))

    def _view(self) -> StudyView:
        from vfnb.lab.study_cells import unlike_settings
        from vfnb.lab.study_twin import StudyView

        views = {name: run._view() for name, run in self.runs.items()}
        states = {view.state for view in views.values()}
        if len(views) < len(self._about["settings"]):  # the process ended before all had begun
            states.add("cancelled")
        cells = self._cells()
        warning = unlike_settings(cells) if "running" not in states else ""
        etas = [view.eta_s for view in views.values() if view.eta_s is not None]
        times = [view.elapsed_s for view in views.values() if view.elapsed_s is not None]
        return StudyView(
            name=self.dir.name,
            design=self.design,
            taskset=str(self._about.get("taskset", "")),
            axes=tuple(self.axes),
            cells=tuple(cells),
            state=next(
                (one for one in ("running", "failed", "interrupted", "cancelled") if one in states),
                "finished",
            ),
            running=sum(view.running for view in views.values()),
            reused=sum(view.reused for view in views.values()),
            elapsed_s=max(times, default=None),
            eta_s=max(etas, default=None),
            dir=str(self.dir),
            errors=tuple(f"{name}: {view.error}" for name, view in views.items() if view.error),
            notes=tuple(
                dict.fromkeys([*filter(None, [warning]), *(note for v in views.values() for note in v.notes)])
            ),
        )

    def __repr__(self) -> str:
        view = self._view()
        return (
            f"<Study of {len(view.cells)} settings in {self.dir}: {view.state}, {view.done} of {view.total}>"
        )

    def __str__(self) -> str:
        from vfnb.lab.study_twin import study_text

        return study_text(self._view())

    def _ipython_display_(self) -> None:
        from IPython.display import display

        from vfnb.lab.kernel import cell
        from vfnb.lab.study_twin import study_bundle

        if self._shown_in is not None and self._shown_in == cell():
            return  # the cell waited for it and has its view already
        if all(one.done() for one in self._pending()):
            display(study_bundle(self._view()), raw=True)
            return
        self._at_end(self._progress().start())
