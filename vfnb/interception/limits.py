"""What one rollout may spend on the model."""

from __future__ import annotations

from typing import Protocol

from pydantic import ConfigDict, Field

from vfnb.utils.config import BaseConfig

__all__ = ["Counters", "Limits"]


class Counters(Protocol):
    """The running counts of a message graph; each sampled node counts once, whatever branches share it."""

    turns: int
    prompt_tokens: int
    completion_tokens: int


class Limits(BaseConfig):
    """Upper bounds that are checked before each model call; None is no bound.

    The call that crosses a token bound is answered; the one after it gets the stop reply.
    """

    model_config = ConfigDict(frozen=True)

    max_turns: int | None = Field(default=None, ge=1)
    """Answered model calls."""
    max_input_tokens: int | None = Field(default=None, ge=1)
    """Prompt tokens, summed over calls as the provider counts them."""
    max_output_tokens: int | None = Field(default=None, ge=1)
    """Sampled tokens, each sampled message once."""
    max_total_tokens: int | None = Field(default=None, ge=1)
    """Input plus output."""

    def reached(self, counters: Counters) -> str | None:
        """Name of the first bound that is used up, None if there is room for a call."""
        if self.max_turns is not None and counters.turns >= self.max_turns:
            return "max_turns"
        if self.max_input_tokens is not None and counters.prompt_tokens >= self.max_input_tokens:
            return "max_input_tokens"
        if self.max_output_tokens is not None and counters.completion_tokens >= self.max_output_tokens:
            return "max_output_tokens"
        if self.max_total_tokens is not None:
            total = counters.prompt_tokens + counters.completion_tokens
            if total >= self.max_total_tokens:
                return "max_total_tokens"
        return None
