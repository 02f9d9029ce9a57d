"""What goes into the store and comes out of its headline tables, as plain records.

Times are unix seconds, durations seconds, digests 16 bytes.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec

__all__ = [
    "EpisodeRow",
    "ScoreRow",
    "ScoreVersion",
    "TaskRow",
    "TraceHead",
    "TraceRow",
    "TraceState",
    "Unit",
]

TraceState = Literal["running", "completed", "stopped", "error", "cancelled", "dropped"]


class TaskRow(msgspec.Struct, frozen=True, kw_only=True):
    """A task, stored once per content. `data` is its JSON."""

    digest: bytes
    idx: int
    key: str
    name: str | None = None
    data: bytes = b"{}"


class EpisodeRow(msgspec.Struct, frozen=True, kw_only=True):
    """One episode: the rollouts that belong together. `group` joins episodes of one task."""

    id: str
    group: str = ""
    env: str = ""
    started: float | None = None
    ended: float | None = None
    info: dict[str, Any] = {}


class TraceRow(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of a rollout when it starts. `task` is the digest of a stored `TaskRow`."""

    id: str
    episode: str
    group: str = ""
    role: str = ""
    task: bytes = b""
    task_idx: int = 0
    task_key: str = ""
    task_name: str | None = None
    rollout: int = 0
    attempt: int = 0
    rollout_hash: str = ""
    score_hash: str = ""
    started: float | None = None


class TraceHead(TraceRow, frozen=True, kw_only=True):
    """The headline of a stored rollout, without a message. `reward` is of the score version asked for."""

    num: int
    superseded: int = 0
    """1: a later attempt replaced it; 2: set aside, the run as defined now does not contain it."""
    state: str = "running"
    stop: str | None = None
    ok: bool | None = None
    dropped: str | None = None
    reward: float | None = None
    error: str | None = None
    error_boundary: str | None = None
    error_message: str | None = None
    errors: int = 0
    calls: int | None = None
    turns: int | None = None
    nodes: int | None = None
    branches: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    cached_tokens: int | None = None
    reasoning_tokens: int | None = None
    cost: float | None = None
    model: str | None = None
    ended: float | None = None
    boot_s: float | None = None
    setup_s: float | None = None
    agent_s: float | None = None
    finalize_s: float | None = None
    scoring_s: float | None = None


class ScoreVersion(msgspec.Struct, frozen=True, kw_only=True):
    """One version of the scores. Version 0 is what the run itself scored (`kind="live"`)."""

    version: int = -1
    created: float = 0.0
    kind: str = "rescore"
    label: str = ""
    weights: dict[str, float] = {}


class ScoreRow(msgspec.Struct, frozen=True, kw_only=True):
    """The scores of one trace in one version.

    `reward` is the weighted sum, None when there is none; `rewards` maps names to (value, weight).
    """

    trace: str
    reward: float | None
    rewards: dict[str, tuple[float | None, float]] = {}
    metrics: dict[str, float | None] = {}
    score_hash: str = ""
    error: str | None = None


class Unit(msgspec.Struct, frozen=True, kw_only=True):
    """An ended rollout that may be reused. `scored`: the newest version by score hash."""

    trace: str
    rollout_hash: str
    rollout: int
    attempt: int
    state: str
    ok: bool | None
    task_key: str
    scored: dict[str, int] = {}
