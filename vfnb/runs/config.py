"""The settings of a run as they are saved beside it."""

from __future__ import annotations

import platform
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vfnb.agents import Agent, Timeouts
from vfnb.interception import Limits
from vfnb.runtimes.config import AnyRuntimeConfig
from vfnb.types import SamplingConfig
from vfnb.utils.config import BaseConfig

if TYPE_CHECKING:
    from vfnb.tasks import Taskset

__all__ = ["RunConfig", "read_config", "write_config"]


class RunConfig(BaseConfig):
    """What was run. Written to `config.toml` of the run's folder; objects appear by their names."""

    taskset: dict[str, Any]
    """`id` (registered or class name) and the taskset's own settings."""
    harness: dict[str, Any]
    """`id` and the harness's own settings."""
    model: dict[str, Any]
    """Kind, name and endpoint of the model; never a key."""
    sampling: SamplingConfig = SamplingConfig()
    """Overrides of what the program asks for."""
    runtime: AnyRuntimeConfig
    """Where programs run."""
    limits: Limits = Limits()
    """Bounds of one rollout."""
    timeouts: Timeouts = Timeouts()
    """Seconds per stage."""
    tasks: int
    """Number of tasks."""
    rollouts: int
    """Samples per task."""
    concurrency: int
    """Rollouts under way at a time."""
    retries: int = 0
    """Further attempts after an error."""
    max_tokens: int | None = None
    """Bound on tokens of the run."""
    max_cost: float | None = None
    """Bound on cost of the run, US dollars."""
    versions: dict[str, str] = {}
    """Software that ran it."""

    @classmethod
    def of(cls, taskset: Taskset[Any, Any], agent: Agent, **numbers: Any) -> RunConfig:
        """The config of a run about to start."""
        from vfnb import __version__

        identity = agent.identity()
        return cls(
            taskset={**taskset.config.model_dump(mode="json"), "id": taskset.name},
            harness={**identity["harness"]["config"], "id": agent.harness.name},
            model=identity["model"],
            sampling=agent.sampling,
            runtime=agent.runtime,
            limits=agent.limits,
            timeouts=agent.timeouts,
            retries=agent.retries,
            versions={"vfnb": __version__, "python": platform.python_version()},
            **numbers,
        )

    def headline(self) -> dict[str, Any]:
        """The facts that tables of runs show."""
        return {
            "taskset": self.taskset["id"],
            "harness": self.harness["id"],
            "model": str(self.model.get("model") or self.model.get("kind") or ""),
            "tasks": self.tasks,
            "rollouts": self.rollouts,
        }


def write_config(path: Path, config: RunConfig) -> None:
    """Save a config as TOML; what is None is left out."""
    import tomli_w

    path.write_text(tomli_w.dumps(_plain(config.model_dump(mode="json"))), encoding="utf-8")


def read_config(path: Path) -> dict[str, Any]:
    """A saved config as plain values; `{}` if there is none."""
    import tomllib

    return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}


def _plain(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_plain(item) for item in value if item is not None]
    return value
