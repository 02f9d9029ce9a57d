"""Judges of a task's config as hooks, and what is checked about them before anything runs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vfnb.errors import ConfigError, ScoringError
from vfnb.tasks.hooks import Hook, HookSpec, check_signature, hooks_of
from vfnb.tasks.judges.base import Judge
from vfnb.tasks.judges.config import TaskJudgeConfig
from vfnb.tasks.judges.views import check_fields

if TYPE_CHECKING:
    from vfnb.tasks.task import Task

__all__ = ["PARAMETERS", "check_judges", "judge_hook"]

PARAMETERS = ("trace", "runtime", "task", "state")
"""What `score` of a judge may ask for by name; `task` is the TaskData."""


def judge_hook(judge: Judge[Any, Any]) -> Hook:
    """A judge as a hook of the kind `judge`."""
    config = judge.config
    score: Any = judge.score  # type: ignore[attr-defined]  # made sure of when it was found by its id
    return Hook(HookSpec("judge", judge.name, weight=config.weight, priority=config.priority), score)


def check_judges(task: Task[Any, Any, Any]) -> None:
    """Refuse judges that cannot work for a task.

    Raises:
        ConfigError: no key, no prompt, a missing file or a field that the record has not.
        HookError: its `score` takes an unknown parameter.
        ScoringError: two scores have one name.
    """
    owners = {
        spec.name: f"{spec.kind} {name}"
        for kind in ("metric", "reward")
        for name, spec in hooks_of(type(task), kind)
    }
    for judge in task.judges():
        check_signature(
            judge_hook(judge).function, "judge", PARAMETERS, method=False, owner=type(judge).__name__
        )
        if isinstance(judge.config, TaskJudgeConfig):
            try:
                check_fields(type(task.data), judge.config.question_field, judge.config.answer_field)
            except ConfigError as error:
                raise ConfigError(f"{judge.label}: {error}") from error
        judge.check()
        for name in (judge.name, *judge.signals()):
            if name in owners:
                raise ScoringError(
                    f"{judge.label} and {owners[name]} both give the score {name!r}; set `name` on the judge"
                )
            owners[name] = judge.label
