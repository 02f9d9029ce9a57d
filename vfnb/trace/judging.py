"""The record of one call to a judge. Such calls are no part of the message graph."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict

from vfnb.trace.calls import ErrorInfo
from vfnb.types import Usage

__all__ = ["JudgeCall"]


class JudgeCall(BaseModel):
    """What a judge was asked and what it said. Times are Unix seconds."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    judge: str
    """The judge's name."""
    model: str = ""
    """The model that was asked for."""
    served_model: str = ""
    """The name that the endpoint answered with."""
    endpoint: str = ""
    """Its URL without secrets, or the kind of client."""
    start: float = 0.0
    """When it had its turn at the endpoint."""
    end: float = 0.0
    prompt: str = ""
    """The messages as text, long ones shortened in the middle."""
    reply: str = ""
    """What it said, shortened likewise."""
    verdict: Any = None
    """What was read from the reply, as JSON; None if nothing could be read."""
    usage: Usage | None = None
    """Tokens and cost; they do not count as the rollout's own."""
    failed_tries: int = 0
    """Tries that failed before the answer."""
    error: ErrorInfo | None = None
    """Why there is no verdict."""

    @property
    def seconds(self) -> float:
        """Time from its turn to the end of the answer."""
        return max(0.0, self.end - self.start)
