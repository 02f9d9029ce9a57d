"""What a run has to do: every task, every sample, each with the hashes that decide about reuse."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vfnb.store import TaskRow
from vfnb.tasks import judge_code, rollout_code, score_code, tools_identity
from vfnb.utils.ids import canonical_json, digest, new_id

if TYPE_CHECKING:
    from vfnb.agents import Agent
    from vfnb.tasks import Task
    from vfnb.trace import TaskInfo

__all__ = ["Unit", "plan", "task_row"]


@dataclass(slots=True, frozen=True, kw_only=True)
class Unit:
    """One rollout to do, or to find done."""

    task: Task[Any, Any, Any]
    rollout: int
    """Sample index within the task."""
    group: str
    """Joins the samples of one task under one setting."""
    rollout_hash: str
    """Equal: an old rollout is the same experiment. Random when some code has no source: never equal."""
    score_hash: str
    """Equal: its scores are the same too."""


def plan(tasks: Sequence[Task[Any, Any, Any]], agent: Agent, rollouts: int) -> list[Unit]:
    """The units of a run, task by task."""
    setting = agent.identity()
    setting_known = _known(setting)
    codes: dict[type, tuple[str | None, str | None]] = {}
    toolsets = _Toolsets()
    judged: dict[tuple[type, int], str | None] = {}  # by class and config object, which tasks share
    units = []
    for task in tasks:
        kind = type(task)
        if kind not in codes:
            codes[kind] = rollout_code(kind), score_code(kind)
        code, scoring = codes[kind]
        config = canonical_json(task.config.model_dump(mode="json", exclude={"judges"}))  # see judge_code
        content = task.data.content_hash()
        tools = toolsets.of(task, config)
        if code is None or tools is None or not setting_known:
            rollout_hash = new_id()
        else:
            # A task's settings matter to the rollout only if some of its code runs before it.
            rollout_hash = digest(
                content,
                canonical_json(setting),
                code,
                task.key,
                config if hasattr(kind, "setup") else b"",
                *tools,
            )
        if (kind, id(task.config)) not in judged:
            judged[kind, id(task.config)] = judge_code(task)
        judges = judged[kind, id(task.config)]
        score_hash = new_id() if scoring is None or judges is None else digest(scoring, config, judges)
        group = digest(rollout_hash, task.key, size=8)
        units += [
            Unit(task=task, rollout=i, group=group, rollout_hash=rollout_hash, score_hash=score_hash)
            for i in range(rollouts)
        ]
    return units


class _Toolsets:
    """What tasks' toolsets add to the rollout hash; worked out once for tasks of one class and config."""

    def __init__(self) -> None:
        self._found: dict[tuple[Any, ...], tuple[bytes, ...] | None] = {}

    def of(self, task: Task[Any, Any, Any], config: bytes) -> tuple[bytes, ...] | None:
        """Parts for the digest: none without tools, None if some code has no source."""
        if not task.has_tools():
            return ()
        place = type(task), config, id(task.taskset.config) if task.taskset is not None else None
        if place not in self._found:
            items = tools_identity(task)
            known = all(_known(item) for item in items)
            self._found[place] = (canonical_json(items),) if known and items else () if known else None
        return self._found[place]


def _known(setting: dict[str, Any]) -> bool:
    """Whether every piece of code in the setting has a source."""
    return all(
        _known(value) if isinstance(value, dict) else not (name == "code" and value is None)
        for name, value in setting.items()
    )


def task_row(task: TaskInfo) -> TaskRow:
    """A task as the store keeps it, by the digest of its content."""
    data = canonical_json(task.data)
    key = bytes.fromhex(digest(data, task.key))
    return TaskRow(digest=key, idx=task.idx, key=task.key, name=task.name, data=data)
