"""Errors of the interception itself."""

from __future__ import annotations

import msgspec

from vfnb.dialects.faults import RequestError
from vfnb.errors import HarnessError, ModelError

__all__ = ["CallCancelled", "SessionClosed", "SessionStopped", "bad_request"]


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


def bad_request(error: Exception) -> Exception:
    """The fault of a request that could not be read; bad UTF-8 and endless nesting are the program's."""
    if isinstance(error, RecursionError):
        return RequestError("The request is nested too deeply.")
    if isinstance(error, msgspec.DecodeError | UnicodeError):
        return RequestError(f"The request is not valid JSON: {error}.")
    return error
