"""Digests of a task's code: what decides whether old rollouts and old scores may be reused."""

from __future__ import annotations

import inspect
from typing import Any

from vfnb.tasks.hooks import hooks_of
from vfnb.tasks.task import Task
from vfnb.utils.ids import canonical_json, digest
from vfnb.utils.source import code_hash

__all__ = ["judge_code", "rollout_code", "score_code"]


def rollout_code(cls: type[Task[Any, Any, Any]]) -> str | None:
    """Digest of the code that shapes a rollout: `setup` and the state class. None if a source is unknown."""
    return _digest(cls, ["setup"], cls.state_type())


def score_code(cls: type[Task[Any, Any, Any]]) -> str | None:
    """Digest of the code that scores: `finalize`, metrics and rewards with weights. None if a source is unknown."""
    hooks = [hook for kind in ("metric", "reward") for hook in hooks_of(cls, kind)]
    code = _digest(cls, ["finalize", *(name for name, _ in hooks)])
    return None if code is None else digest(code, *(repr(spec) for _, spec in hooks))


def judge_code(task: Task[Any, Any, Any]) -> str | None:
    """Digest of code, settings, endpoint and prompt of the task's judges. None if a source is unknown."""
    parts: list[str | bytes] = []
    for judge in task.judges():
        code, identity = code_hash(type(judge)), judge.identity()
        if code is None or identity["endpoint"].get("code", "") is None:
            return None
        parts += [code, canonical_json(identity)]
    return digest(*parts)


def _digest(cls: type[Task[Any, Any, Any]], methods: list[str], *classes: type) -> str | None:
    parts: list[str] = []
    for name in methods:
        method = inspect.getattr_static(cls, name, None)
        code = "" if method is None else code_hash(method, owner=cls)
        if code is None:
            return None
        parts += [name, code]
    for extra in classes:
        code = code_hash(extra)
        if code is None:
            return None
        parts.append(code)
    return digest(*parts)
