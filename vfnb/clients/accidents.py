"""Injected accidents of a scripted model: typed errors at a rate, the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from typing import Any

from vfnb.errors import (
    ConfigError,
    ContextLengthError,
    ModelError,
    UpstreamConnection,
    UpstreamCut,
    UpstreamMalformed,
    UpstreamRateLimited,
    UpstreamServerError,
    UpstreamTimeout,
)

__all__ = ["KINDS", "Accidents"]

KINDS: dict[str, Callable[[str], ModelError]] = {
    "connection": UpstreamConnection,
    "cut": UpstreamCut,
    "malformed": UpstreamMalformed,
    "overflow": ContextLengthError,
    "rate_limit": lambda text: UpstreamRateLimited(text, retry_after=0.0),
    "server_error": lambda text: UpstreamServerError(text, status=500),
    "timeout": UpstreamTimeout,
}


class Accidents:
    """Which calls fail, and how.

    Args:
        faults: `kind` (one of `KINDS` or a list of them), `rate` (share of calls, default 1) and `seed`
            (default 0). None for no accidents.
    """

    def __init__(self, faults: Mapping[str, Any] | None) -> None:
        faults = dict(faults or {"rate": 0.0, "kind": []})
        kind = faults.pop("kind", "server_error")
        self._kinds: list[str] = [kind] if isinstance(kind, str) else list(kind)
        self._rate = float(faults.pop("rate", 1.0))
        self._seed = faults.pop("seed", 0)
        unknown = [*faults, *(name for name in self._kinds if name not in KINDS)]
        if unknown:
            raise ConfigError(
                f"faults: unknown {', '.join(map(repr, unknown))}; keys are kind, rate and seed, "
                f"kinds are {', '.join(KINDS)}"
            )
        if not 0 <= self._rate <= 1:
            raise ConfigError(f"faults: rate={self._rate} must be between 0 and 1")

    def draw(self, number: int) -> str | None:
        """What happens to call `number`, None for nothing. The same for the same seed and number."""
        if not self._kinds or not self._rate:
            return None
        chance = random.Random(f"{self._seed}:{number}")
        return chance.choice(self._kinds) if chance.random() < self._rate else None

    def error(self, kind: str) -> ModelError:
        """The error of an accident."""
        return KINDS[kind](f"the scripted model failed with {kind!r} (injected fault)")
