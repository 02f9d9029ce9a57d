"""How patient a session is."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Settings"]


@dataclass(slots=True, frozen=True)
class Settings:
    """Times in seconds, sizes in bytes."""

    keepalive_after: float = 10.0
    """Silence of the upstream after which a streaming client gets its first keepalive."""
    keepalive_every: float = 5.0
    """Pause between keepalives until the first byte of the answer."""
    finish_within: float = 120.0
    """How long an upstream call may go on after its client hung up."""
    keep_for: float = 300.0
    """How long an answer that nobody received waits for its retry."""
    keep_bytes: int = 8 << 20
    """Most bytes of such answers per session; the oldest go first."""
    max_failures: int = 30
    """Failed upstream calls in a row after which the upstream counts as down for good: the session ends."""
