"""Errors of the interception itself."""

from __future__ import annotations

from vfnb.errors import HarnessError, ModelError

__all__ = ["CallCancelled", "SessionClosed", "SessionStopped"]


class CallCancelled(ModelError):
    """A model call was ended from our side before its answer was complete."""


class SessionStopped(HarnessError):
    """The rollout has been stopped; its program may not call the model any more.

    Attributes:
        reason: name of the stop.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(f"the rollout has been stopped: {reason}")
        self.reason = reason


class SessionClosed(HarnessError):
    """The rollout is over; its session answers no more calls."""
