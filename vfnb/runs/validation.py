"""What the checks of a taskset found, as an object that shows itself."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vfnb.lab.validation_twin import validation_bundle, validation_text

if TYPE_CHECKING:
    import pandas as pd

    from vfnb.tasks import Task

__all__ = ["Check", "Validation"]

_CLOSE = 1e-9  # rewards are sums of floats


@dataclass(slots=True, frozen=True, kw_only=True)
class Check:
    """What the checks of one task found."""

    task: Task[Any, Any, Any]
    error: str | None = None
    """Why its setup or its gold check failed, `Type: message`."""
    setup: bool = True
    """Whether setup went well."""
    gold: bool | None = None
    """Its gold check's verdict; None if it has none, or cannot tell."""
    noop: float | None = None
    """Its reward when nobody has worked on it; None if it has no rewards or they could not be computed."""
    full: float | None = None
    """The reward if every one were 1."""
    noop_error: str | None = None
    """Why it cannot be scored untouched: an agent that does nothing then gives an error instead of a zero."""
    seconds: float = 0.0

    @property
    def problem(self) -> str | None:
        """Why the task is not fit to be run, None if it is."""
        if self.error is not None:
            return self.error
        if self.gold is False:
            return "its gold check says False"
        if self.noop is not None and self.full and self.noop >= self.full - _CLOSE:
            return f"untouched, it already scores {self.noop:g} of {self.full:g}"
        return None

    @property
    def failed(self) -> bool:
        """Whether this task is not fit to be run."""
        return self.problem is not None


class Validation(Sequence[Check]):
    """The checks of a taskset, in the order of its tasks.

    Attributes:
        name: of the taskset.
        checks: one for each task.
        only_setup: whether only setup was tried.
    """

    def __init__(self, name: str, checks: Sequence[Check], *, only_setup: bool = False) -> None:
        self.name = name
        self.checks = tuple(checks)
        self.only_setup = only_setup

    @property
    def ok(self) -> bool:
        """Whether every task is fit to be run."""
        return not self.failed

    @property
    def failed(self) -> list[Check]:
        """Those of tasks that are not fit."""
        return [check for check in self.checks if check.failed]

    def frame(self) -> pd.DataFrame:
        """A row per task: `task` (key), `idx`, `name`, `ok`, `setup`, `gold`, `noop` and `full` (rewards),
        `seconds`, `problem`, `noop_error`. What is missing is `<NA>`."""
        import pandas as pd

        rows = self.checks
        columns: dict[str, Any] = {
            "task": pd.array([check.task.key for check in rows], dtype="string"),
            "idx": pd.array([check.task.data.idx for check in rows], dtype="Int64"),
            "name": pd.array([check.task.name for check in rows], dtype="string"),
            "ok": pd.array([not check.failed for check in rows], dtype="boolean"),
            "setup": pd.array([check.setup for check in rows], dtype="boolean"),
            "gold": pd.array([check.gold for check in rows], dtype="boolean"),
            "noop": pd.array([check.noop for check in rows], dtype="Float64"),
            "full": pd.array([check.full for check in rows], dtype="Float64"),
            "seconds": pd.array([check.seconds for check in rows], dtype="Float64"),
            "problem": pd.array([check.problem for check in rows], dtype="string"),
            "noop_error": pd.array([check.noop_error for check in rows], dtype="string"),
        }
        return pd.DataFrame(columns)

    def __len__(self) -> int:
        return len(self.checks)

    def __getitem__(self, index: Any) -> Any:
        return self.checks[index]

    def __iter__(self) -> Iterator[Check]:
        return iter(self.checks)

    def __str__(self) -> str:
        return validation_text(self)

    __repr__ = __str__

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        return validation_bundle(self)
