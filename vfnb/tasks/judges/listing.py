"""`Judges`: the list of judges in a task's config, from tables or from config objects."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from pydantic import (
    AfterValidator,
    SerializeAsAny,
    ValidationError,
    ValidatorFunctionWrapHandler,
    WrapValidator,
)
from pydantic_core import InitErrorDetails

from vfnb.errors import ConfigError
from vfnb.tasks.judges.config import JudgeConfig
from vfnb.tasks.judges.registry import judge_class, judges
from vfnb.utils.config import hidden, nearest

if TYPE_CHECKING:
    from vfnb.tasks.judges.base import Judge

__all__ = ["Judges", "make_judges"]


def _entry(value: Any, handler: ValidatorFunctionWrapHandler) -> Any:
    """One entry with the config class that its `id` means."""
    if isinstance(value, JudgeConfig):
        if not value.id:
            raise ValueError(
                f"{type(value).__name__} has no id; a judge of a task is one of {', '.join(judges())}"
            )
        judge_class(value.id)
        return value
    if not isinstance(value, Mapping):
        return handler(value)
    id = value.get("id")
    if not isinstance(id, str) or not id:
        raise ValueError(f"the entry needs an id: {', '.join(judges())}")
    config = judge_class(id).config_type()
    try:
        return config.model_validate(dict(value))
    except ValidationError as error:
        raise _located(config, error) from None


def _located(config: type[JudgeConfig], error: ValidationError) -> ValidationError:
    """The same problems; unknown keys with the nearest key of this judge's config."""
    lines: list[InitErrorDetails] = []
    for problem in error.errors(include_url=False):
        kind: Any = problem["type"]
        if kind == "extra_forbidden" and len(problem["loc"]) == 1:
            match = nearest(str(problem["loc"][0]), config.model_fields)
            hint = (
                f"did you mean {match}?" if match else f"known keys: {', '.join(sorted(config.model_fields))}"
            )
            text = f"unknown key of {config.__name__}; {hint}"
            kind = hidden(text)
        elif kind == "hidden":
            kind = hidden(problem["msg"])
        lines.append(
            InitErrorDetails(
                type=kind, loc=problem["loc"], input=problem["input"], ctx=problem.get("ctx", {})
            )
        )
    return ValidationError.from_exception_data(config.__name__, lines)


def _distinct(configs: list[JudgeConfig]) -> list[JudgeConfig]:
    names: dict[str, int] = {}
    for index, judge in enumerate(make_judges(configs)):
        if judge.name in names:
            raise ValueError(
                f"judges {names[judge.name]} and {index} both give the reward {judge.name!r}; "
                "set a distinct `name` on one of them"
            )
        names[judge.name] = index
    return configs


Judges = Annotated[
    list[Annotated[SerializeAsAny[JudgeConfig], WrapValidator(_entry)]], AfterValidator(_distinct)
]
"""The judges of a task, `TaskConfig.judges`: tables with an `id`, or objects such as `vf.RubricJudgeConfig`."""


def make_judges(configs: Sequence[JudgeConfig], folders: Sequence[Path] = ()) -> list[Judge[Any, Any]]:
    """The judges of a list, those with a higher priority first.

    Args:
        folders: where their relative files are looked for, after the working folder.

    Raises:
        ConfigError: an entry has no id, or there is no judge with that id.
    """
    made = []
    for config in configs:
        if not config.id:
            raise ConfigError(
                f"{type(config).__name__} among a task's judges has no id: {', '.join(judges())}"
            )
        judge = judge_class(config.id)(config)
        judge.folders = tuple(folders)
        made.append(judge)
    return sorted(made, key=lambda judge: -judge.config.priority)
