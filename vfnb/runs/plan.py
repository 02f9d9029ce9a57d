"""What a run has to do: every task, every sample, each with the hashes that decide about reuse."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vfnb.clients import ModelClient
from vfnb.store import TaskRow
from vfnb.tasks import judge_code, plug, rollout_code, score_code, shapes_rollout, tools_identity
from vfnb.tasks.plugged import Plugged
from vfnb.utils.config import BaseConfig
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
    placing = canonical_json(agent.scoring.model_dump(mode="json"))
    toolsets = _Toolsets()
    judged: dict[tuple[type, int], str | None] = {}  # by class and config object, which tasks share
    units = []
    for task, code in _codes(tasks):
        content = task.data.content_hash()
        tools = toolsets.of(task, code.scoring)
        if code.rollout is None or tools is None or not setting_known:
            rollout_hash = new_id()
        else:
            rollout_hash = digest(
                content, canonical_json(setting), code.rollout, task.key, code.settings, *tools
            )
        place = type(task), id(task.config)
        if place not in judged:
            judged[place] = judge_code(task)
        judges = judged[place]
        if code.score is None or judges is None:
            score_hash = new_id()
        else:
            score_hash = digest(code.score, code.scoring, judges, placing)
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


@dataclass(slots=True, frozen=True)
class _Code:
    """Digests of a task class's code, with what its config brings, and its settings as JSON."""

    rollout: str | None
    score: str | None
    settings: bytes
    """What the settings matter to the rollout: nothing if no code of the task runs before its end."""
    scoring: bytes


def _codes(tasks: Sequence[Task[Any, Any, Any]]) -> Iterator[tuple[Task[Any, Any, Any], _Code]]:
    """Each task, with hooks that stay as they are now, and its code."""
    known: dict[tuple[type, int], tuple[Plugged, _Code]] = {}
    for task in tasks:
        kind, config = type(task), task.config
        if (kind, id(config)) not in known:
            plugged = plug(kind, config)
            early = config.model_dump(mode="json", exclude={*config.SCORING, "stops"})  # see rollout_code
            models = dict(_models(config, "task"))
            late = config.model_dump(mode="json", exclude={"judges"})  # see judge_code
            known[kind, id(config)] = (
                plugged,
                _Code(
                    rollout=rollout_code(kind, plugged),
                    score=score_code(kind, plugged) if _known(models) else None,
                    settings=canonical_json(early) if shapes_rollout(kind, plugged) else b"",
                    scoring=canonical_json([late, models]),
                ),
            )
        plugged, code = known[kind, id(config)]
        yield task.with_hooks(plugged), code


def _models(config: BaseConfig, path: str) -> Iterator[tuple[str, Any]]:
    """Identities of the model objects in a task's settings (a judge's client), which no dump of them has."""
    for name, value in config:
        if isinstance(value, BaseConfig):
            yield from _models(value, f"{path}.{name}")
        elif isinstance(value, ModelClient):
            yield f"{path}.{name}", value.identity()


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
