"""How long the stages of a rollout may take."""

from __future__ import annotations

from pydantic import Field

from vfnb.utils.config import BaseConfig

__all__ = ["Timeouts"]


class Timeouts(BaseConfig):
    """Limits in seconds; None waits for ever. The agent's is a stop (scored), the others are errors."""

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
