"""What a run's store says, as tables and numbers: the part of `Run` that only reads."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pandas as pd
    import pyarrow as pa

    from vfnb.lab.calibration import Calibration
    from vfnb.lab.rows import Row
    from vfnb.lab.stats import Summary
    from vfnb.store import RunReader

__all__ = ["Tables"]


class Tables(ABC):
    """The tables of one run in one score version."""

    _reader: RunReader
    _version: int | None

    @property
    @abstractmethod
    def complete(self) -> bool:
        """Whether every planned rollout has ended."""

    @abstractmethod
    def _rows(self) -> list[Row]:
        """The ended rollouts as plain records."""

    @abstractmethod
    def _planned(self) -> int:
        """How many rollouts there are to be."""

    def _marked(self, frame: pd.DataFrame) -> pd.DataFrame:
        frame.attrs["complete"] = self.complete
        return frame

    @property
    def rewards(self) -> pd.DataFrame:
        """A row per rollout: a column per reward and metric, and `reward, task, rollout, ok, stop, error`."""
        from vfnb.lab.frames import rewards

        return self._marked(rewards(self._reader, self._version))

    @property
    def tasks(self) -> pd.DataFrame:
        """A row per task: scored rollouts, errors, mean reward, its error and variance, pass rate."""
        from vfnb.lab.tables import task_table

        return self._marked(task_table(self._rows()))

    @property
    def summary(self) -> Summary:
        """Mean reward with standard error and interval, pass@k, and errors apart."""
        return self.summarise()

    def summarise(self, *, threshold: float = 1.0, level: float = 0.95) -> Summary:
        """The summary with another reward that counts as a pass, or another level of the intervals."""
        from vfnb.lab.stats import summarise

        return summarise(self._rows(), planned=self._planned(), threshold=threshold, level=level)

    def frame(
        self, level: str = "traces", *, columns: Sequence[str] | None = None, where: str | None = None
    ) -> pd.DataFrame:
        """One level of the run as a table.

        Args:
            level: `runs`, `episodes`, `traces`, `branches`, `messages`, `calls`, `tokens`, `errors` or `judges`.
            columns: only these; `vf.schema(level)` lists them.
            where: SQL over those columns, such as `"reward < 0.5 AND turns > 3"`.

        Raises:
            ConfigError: an unknown level or column, or a condition that is not one.
        """
        from vfnb.lab.frames import frame

        return self._marked(frame(self._reader, level, columns, where, version=self._version))

    def arrow(
        self, level: str = "traces", *, columns: Sequence[str] | None = None, where: str | None = None
    ) -> pa.Table:
        """The same as an Arrow table, for polars, DuckDB or a Parquet file.

        Raises:
            MissingExtra: pyarrow is not installed.
            ConfigError: as `frame`.
        """
        from vfnb.lab.arrow import arrow_table

        return arrow_table(self.frame(level, columns=columns, where=where))

    def labels(self) -> pd.DataFrame:
        """The labels that traces were given (`trace.label`): a row for each trace and name, the last value."""
        from vfnb.lab.labelled import label_table

        return self._marked(label_table(self._reader))

    def calibrate(self, score: str, label: str, *, threshold: float | None = None) -> Calibration:
        """How far a reward, a metric or a judge agrees with a label.

        Args:
            score: a column of `rewards`, or `reward`.
            label: the name of a label, truth values or numbers.
            threshold: the score (and the label, if it is no truth value) counts as yes from here on; 0.5 for truth
                values, None compares numbers as they are.

        Raises:
            ConfigError: there is no such score or label, or no trace has both.
        """
        from vfnb.lab.calibration import calibrate

        return calibrate(self.rewards, self.labels(), score, label, threshold)

    @property
    def version(self) -> int:
        """The score version that is shown: the newest one, or the one that `use` has chosen."""
        return self._reader.newest() if self._version is None else self._version

    @property
    def scores(self) -> pd.DataFrame:
        """The score versions, oldest first: label, time, traces, errors, mean reward, weights."""
        from vfnb.lab.versions import version_table

        return self._marked(version_table(self._reader))
