"""Where and whether rollouts are scored: in the agent's box, or in a fresh one that gets the artifacts alone."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any, Literal

from pydantic import Field

from vfnb.agents.placement import check_placement, place
from vfnb.errors import ConfigError, RuntimeFault, ScoringError, TooLarge
from vfnb.runtimes import Archive, Runtime, runtime_class
from vfnb.runtimes.config import AnyRuntimeConfig
from vfnb.tasks import run_stage_verifier, scoring_skipped
from vfnb.utils.config import BaseConfig

if TYPE_CHECKING:
    from collections.abc import Callable

    from vfnb.runtimes import RuntimeConfig
    from vfnb.tasks import Task, TaskData
    from vfnb.trace import Trace

__all__ = ["Artifacts", "ScoringConfig", "start_verifier"]

SKIPS = ("skip_on_truncated", "skip_on_timeout")
TRIES = 3  # of a verifier's box, if it fails by an accident of the box; the agent's work is paid for


class ScoringConfig(BaseConfig):
    """How a rollout is scored after its agent has ended."""

    placement: Literal["shared", "isolated"] = "shared"
    """`shared`: metrics, rewards and judges work in the agent's box. `isolated`: in a fresh one, into which only
    the task's declared artifacts are carried; `finalize` still runs in the agent's box, before that."""
    runtime: AnyRuntimeConfig | None = None
    """The fresh box of `isolated`; the same as the agent's if not given."""
    artifact_limit: int = Field(default=64 << 20, ge=0)
    """Bytes of all artifacts of one rollout together; more is an error of its scoring."""
    skip_on_truncated: bool = False
    """Do not score a rollout that a limit on turns, tokens or context ended, or whose last reply hit its token
    limit: its reward is 0 and shown apart."""
    skip_on_timeout: bool = False
    """The same for a rollout whose agent ran out of time."""

    def skip(self, task: Task[Any, Any, Any], trace: Trace) -> bool:
        """Whether a rollout is not scored, by these settings or by the stop that ended it.

        The reason goes into `trace.info["scoring_skipped"]`: the setting's name, or the stop's.
        """
        if trace.info.get("scoring_skipped") in SKIPS:
            del trace.info["scoring_skipped"]  # of an earlier scoring, under other settings
        if scoring_skipped(task, trace):
            return True
        timeout = trace.stop_condition == "timeout"
        if self.skip_on_timeout and timeout:
            trace.info["scoring_skipped"] = "skip_on_timeout"
        elif self.skip_on_truncated and trace.is_truncated and not timeout:
            trace.info["scoring_skipped"] = "skip_on_truncated"
        else:
            return False
        return True

    def verifier(self, agent: RuntimeConfig, data: TaskData) -> RuntimeConfig:
        """The fresh box's settings for one task."""
        return place(self.runtime if self.runtime is not None else agent, data)

    def check(self, task: Task[Any, Any, Any], agent: RuntimeConfig) -> None:
        """Refuse what cannot work, before any model call.

        Raises:
            ConfigError: the task does not fit the verifier's runtime, or its artifacts cannot be carried there.
        """
        if self.placement == "shared":
            if self.runtime is not None:
                raise ConfigError("scoring.runtime has no meaning without scoring.placement='isolated'")
            return
        check_placement(task, self.verifier(agent, task.data))
        for kind in (agent, self.verifier(agent, task.data)):
            absolute = [path for path in task.data.artifacts if PurePosixPath(path).is_absolute()]
            if absolute and not runtime_class(kind.type).IS_CONTAINER:
                raise ConfigError(
                    f"task {task.name}: artifact {absolute[0]!r} is an absolute path, and runtime {kind.type!r} is "
                    "no container; name it relative to the working folder"
                )


class Artifacts:
    """A task's declared files, on their way from the agent's box to the verifier's."""

    def __init__(self, parts: dict[str, Archive]) -> None:
        self.parts = parts

    @classmethod
    async def collect(cls, box: Runtime, data: TaskData, limit: int) -> Artifacts:
        """Read them. Those that are missing are noted, not an error: the agent may have made none.

        Raises:
            ScoringError: they are larger than `limit` bytes.
            RuntimeFault: the box failed.
        """
        paths: dict[str, list[str]] = {}
        for path in data.artifacts:
            pure = PurePosixPath(path)
            base = "/" if pure.is_absolute() else "."
            paths.setdefault(base, []).append(str(pure.relative_to("/")) if base == "/" else str(pure))
        parts: dict[str, Archive] = {}
        for base, names in paths.items():
            try:
                parts[base] = await box.pack(names, base=base, limit=limit)
            except TooLarge as error:
                raise ScoringError(
                    f"artifacts are too large ({error}); the limit is scoring.artifact_limit"
                ) from error
            limit -= parts[base].size
        return cls(parts)

    async def restore(self, box: Runtime) -> None:
        """Write them where they were."""
        for base, archive in self.parts.items():
            await box.unpack(archive, base=base)

    def summary(self) -> dict[str, Any]:
        """What `trace.info["artifacts"]` says."""
        parts = [("/" if base == "/" else "", part) for base, part in self.parts.items()]
        return {
            "files": sum(part.files for _, part in parts),
            "bytes": sum(part.size for _, part in parts),
            "missing": [base + path for base, part in parts for path in part.missing],
            "left_out": [base + path for base, part in parts for path in part.left_out],
        }


async def start_verifier(
    box: Runtime,
    artifacts: Artifacts,
    task: Task[Any, Any, Any],
    trace: Trace,
    *,
    log: Callable[[str], object] | None = None,
) -> None:
    """Start a fresh box, carry the artifacts into it, then let the task's `stage_verifier` prepare it.

    Raises:
        RuntimeFault: the box cannot be had, after several tries where an accident may pass.
    """
    for attempt in range(1, TRIES + 1):
        try:
            await box.start()
            await artifacts.restore(box)
            break
        except RuntimeFault as error:
            if not error.retryable or attempt == TRIES:
                raise
            await box.stop()
    await run_stage_verifier(task, trace, box, log=log)
