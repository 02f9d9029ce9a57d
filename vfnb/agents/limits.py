"""How long the stages of a rollout may take."""

from __future__ import annotations

from typing import TYPE_CHECKING, ClassVar, Self

from pydantic import Field

from vfnb.utils.config import BaseConfig

if TYPE_CHECKING:
    from vfnb.tasks import TaskTimeout

__all__ = ["Timeouts"]


class Timeouts(BaseConfig):
    """Limits in seconds; None waits for ever. The agent's is a stop (scored), the others are errors."""

    SPARSE: ClassVar[bool] = True  # what is not set here may come from the task

    boot: float | None = Field(default=600.0, gt=0)
    """Starting the runtime."""
    setup: float | None = Field(default=600.0, gt=0)
    """Task setup and harness setup together."""
    agent: float | None = Field(default=3600.0, gt=0)
    """The agent program itself."""
    finalize: float | None = Field(default=600.0, gt=0)
    """Task finalize."""
    scoring: float | None = Field(default=600.0, gt=0)
    """All metrics, rewards and judges together."""
    grace: float = Field(default=5.0, ge=0)
    """From a stop reply, or the agent's limit, until the program is ended by force."""

    def with_task(self, task: TaskTimeout) -> Self:
        """These limits for one task: what was set here wins over the task's own, the task's over defaults."""
        own = {
            name: value
            for name, value in task.model_dump(exclude_none=True).items()
            if name not in self.model_fields_set
        }
        return self.model_copy(update=own) if own else self
