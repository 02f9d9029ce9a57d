"""Digests of a task's code: what decides whether old rollouts and old scores may be reused."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import Any

from vfnb.tasks.hooks import HookSpec
from vfnb.tasks.plugged import Plugged, plug
from vfnb.tasks.task import Task
from vfnb.utils.ids import canonical_json, digest
from vfnb.utils.source import code_hash

__all__ = ["judge_code", "rollout_code", "score_code", "shapes_rollout"]


def rollout_code(cls: type[Task[Any, Any, Any]], plugged: Plugged | None = None) -> str | None:
    """Digest of the code that shapes a rollout: `setup`, stops, intercepts and the state class.

    Args:
        plugged: the hooks, those of a config included; the class's own if not given.

    Returns:
        None if a source is unknown.
    """
    hooks = _of(cls, plugged, "stop", "intercept")
    code = _digest(cls, ["setup", *(what for _, what in hooks)], cls.state_type())
    specs = [f"{spec.kind} {spec.name} {spec.on} {spec.priority}" for spec, _ in hooks]
    return None if code is None else digest(code, *specs)


def score_code(cls: type[Task[Any, Any, Any]], plugged: Plugged | None = None) -> str | None:
    """Digest of the code that scores: `finalize`, metrics and rewards with weights, stops that skip the scoring.

    Arguments and result as for `rollout_code`.
    """
    hooks = _of(cls, plugged, "metric", "reward")
    code = _digest(cls, ["finalize", "stage_verifier", *(what for _, what in hooks)])
    skips = [f"skip {spec.name}" for spec, _ in _of(cls, plugged, "stop") if spec.skip_scoring]
    return None if code is None else digest(code, *(repr(spec) for spec, _ in hooks), *skips)


def judge_code(task: Task[Any, Any, Any]) -> str | None:
    """Digest of code, settings, endpoint and prompt of the task's judges. None if a source is unknown."""
    parts: list[str | bytes] = []
    for judge in task.judges():
        code, identity = code_hash(type(judge)), judge.identity()
        if code is None or identity["endpoint"].get("code", "") is None:
            return None
        parts += [code, canonical_json(identity)]
    return digest(*parts)


def shapes_rollout(cls: type[Task[Any, Any, Any]], plugged: Plugged) -> bool:
    """Whether code of the task runs before the agent has ended, so that the task's settings matter to it."""
    return hasattr(cls, "setup") or bool(_of(cls, plugged, "stop", "intercept"))


def _of(cls: type, plugged: Plugged | None, *kinds: str) -> list[tuple[HookSpec, str | Callable[..., Any]]]:
    found = plug(cls) if plugged is None else plugged
    return [hook for kind in kinds for hook in found[kind]]


def _digest(
    cls: type[Task[Any, Any, Any]], functions: Sequence[str | Callable[..., Any]], *classes: type
) -> str | None:
    """Of methods, by their names, and of plain functions."""
    parts: list[str] = []
    for what in functions:
        if isinstance(what, str):
            method = inspect.getattr_static(cls, what, None)
            code = "" if method is None else code_hash(method, owner=cls)
        else:
            code = code_hash(what)
        if code is None:
            return None
        parts += [what if isinstance(what, str) else "plugged", code]
    for extra in classes:
        code = code_hash(extra)
        if code is None:
            return None
        parts.append(code)
    return digest(*parts)
