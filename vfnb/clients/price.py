"""What a call costs."""

from __future__ import annotations

from typing import NamedTuple

from vfnb.errors import ConfigError
from vfnb.types import Usage

__all__ = ["Price", "price_of"]


class Price(NamedTuple):
    """US dollars per million tokens."""

    prompt: float
    completion: float
    cached: float | None = None
    """For prompt tokens from the provider's cache; None = as other prompt tokens."""

    def cost(self, usage: Usage) -> float:
        """US dollars of one call."""
        cached = min(usage.cached_tokens, usage.prompt_tokens)
        rate = self.prompt if self.cached is None else self.cached
        fresh = usage.prompt_tokens - cached
        return (fresh * self.prompt + cached * rate + usage.completion_tokens * self.completion) / 1e6


def price_of(value: Price | tuple[float, ...] | None) -> Price | None:
    """A price from `(prompt, completion)` or `(prompt, completion, cached)`.

    Raises:
        ConfigError: if it is neither.
    """
    if value is None or isinstance(value, Price):
        return value
    try:
        price = Price(*(float(number) for number in value))
    except (TypeError, ValueError) as error:
        raise ConfigError(
            f"price={value!r}: give (prompt, completion) or (prompt, completion, cached) "
            "in US dollars per million tokens"
        ) from error
    if min(number for number in price if number is not None) < 0:
        raise ConfigError(f"price={value!r}: a price cannot be negative")
    return price
