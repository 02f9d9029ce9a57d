"""The whole configuration of a run as one tree, the same in Python, in TOML and on the command line."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from pydantic import Field, SerializeAsAny

from vfnb.agents.base import Harness, HarnessConfig
from vfnb.agents.limits import Timeouts
from vfnb.agents.scoring import ScoringConfig
from vfnb.errors import ConfigError
from vfnb.interception.limits import Limits
from vfnb.runs.model import ModelConfig
from vfnb.runtimes.config import AnyRuntimeConfig, InProcessConfig
from vfnb.tasks import SelectConfig, Taskset, TasksetConfig
from vfnb.types import SamplingConfig
from vfnb.utils.config import BaseConfig

if TYPE_CHECKING:
    from vfnb.runs.run import Run

__all__ = ["EvalConfig", "RecordConfig"]


class RecordConfig(BaseConfig):
    """Facts of the run that saved a config. They set nothing."""

    tasks: int | None = None
    """Number of tasks that the run had."""
    vfnb: str = ""
    """Version of this library."""
    python: str = ""
    """Version of Python."""


class EvalConfig(BaseConfig):
    """Everything that decides what a run does. Make one with `EvalConfig.load`.

    The types of `taskset`, `harness` and `runtime` are those of the classes that their `id` or `type` names.
    """

    model: ModelConfig | None = None
    """Which model answers."""
    sampling: SamplingConfig = SamplingConfig()
    """Overrides of what the program asks for."""
    taskset: SerializeAsAny[TasksetConfig]
    """The tasks: `id` and the taskset's own settings."""
    select: SelectConfig = SelectConfig()
    """Which of the tasks; `n` is short for `select.limit`."""
    harness: SerializeAsAny[HarnessConfig] = HarnessConfig(id="null")
    """The agent program: `id` and the harness's own settings."""
    runtime: AnyRuntimeConfig = InProcessConfig()
    """Where programs run: `type` and its settings; what the harness works in if not given."""
    limits: Limits = Limits()
    """Bounds of one rollout."""
    timeouts: Timeouts = Timeouts()
    """Seconds for each stage of a rollout."""
    scoring: ScoringConfig = ScoringConfig()
    """Where rollouts are scored, and which are not."""
    retries: int = Field(default=0, ge=0)
    """Further attempts of a rollout after an error that may pass."""
    rollouts: int = Field(default=1, ge=1)
    """Samples per task."""
    concurrency: int = Field(default=64, ge=1)
    """Rollouts under way at a time."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Bound on the tokens of the whole run; reaching it stops the run, a larger one resumes it."""
    max_cost: float | None = Field(default=None, gt=0)
    """Bound on its cost in US dollars."""
    dir: str | None = None
    """The run's folder; `runs/<taskset>-<hash>` if not given."""
    resume: bool = True
    """Go on with what the folder has; false refuses a folder that has rollouts."""
    fresh: bool = False
    """Set an earlier run in the folder aside and run everything."""
    record: RecordConfig | None = None
    """Facts of the run that saved this config; they set nothing."""

    taskset_type: ClassVar[type[Taskset[Any, Any]] | None] = None
    harness_type: ClassVar[type[Harness[Any]] | Harness[Any] | None] = None

    @classmethod
    def load(cls, *files: str | Path, **settings: Any) -> EvalConfig:
        """A config from TOML files, later ones over earlier ones, and settings over all files.

        Args:
            files: paths.
            settings: the tree's keys, tables as dicts: `load("a.toml", model="m", taskset={"num_tasks": 3})`.

        Raises:
            ConfigError: a file cannot be read, a key is unknown, a value wrong, or a pair impossible.
            TasksetError: the taskset cannot be found.
        """
        from vfnb.runs.layers import Layer, read_layer
        from vfnb.runs.resolve import resolve

        return resolve([*(read_layer(Path(file)) for file in files), Layer(data=settings)])

    def make_taskset(self) -> Taskset[Any, Any]:
        """The taskset with its selection."""
        taskset: Taskset[Any, Any] = _loaded(self.taskset_type)(self.taskset)
        return taskset.select(self.select)

    def make_harness(self) -> Harness[Any]:
        """The agent program."""
        found = _loaded(self.harness_type)
        if isinstance(found, Harness):
            found.config = self.harness
            return found
        made: Harness[Any] = found(self.harness)
        return made

    def evaluate(self) -> Run:
        """Start the run; `vf.evaluate` says what it returns and raises."""
        from vfnb.runs.start import evaluate

        if self.model is None:
            raise ConfigError('model: required; give -m NAME, or model = "NAME" in a file')
        names = "sampling runtime limits timeouts scoring retries rollouts concurrency max_tokens max_cost"
        settings: dict[str, Any] = {name: getattr(self, name) for name in f"{names} dir resume fresh".split()}
        return evaluate(
            self.make_taskset(), model=self.model.client(), harness=self.make_harness(), **settings
        )


def _loaded(found: Any) -> Any:
    if found is None:
        raise ConfigError(
            "this config knows its taskset and harness by name only; make it with EvalConfig.load"
        )
    return found
