"""The config of a run that was started from objects: by the names under which they can be loaded again."""

from __future__ import annotations

import platform
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any

from vfnb.agents.function import FunctionHarness
from vfnb.agents.loading import GROUP
from vfnb.runs.model import ModelConfig
from vfnb.runs.tree import EvalConfig, RecordConfig
from vfnb.tasks import SelectConfig, TasksetConfig
from vfnb.tasks.views import Filter, FilterConfig, Shuffle, Skip, Take, View
from vfnb.utils.config import OBJECT

if TYPE_CHECKING:
    from collections.abc import Sequence

    from vfnb.agents import Agent, Harness, HarnessConfig
    from vfnb.clients import ModelClient
    from vfnb.tasks import Task, Taskset

__all__ = ["saved_config"]


def saved_config(
    taskset: Taskset[Any, Any], tasks: Sequence[Task[Any, Any, Any]], agent: Agent, **settings: Any
) -> EvalConfig:
    """The config of a run about to start; what only lives in this process appears as `python:NAME`.

    Args:
        taskset: with its views.
        tasks: the tasks that it gave.
        agent: everything else about a rollout.
        settings: the tree's other keys.
    """
    from vfnb import __version__

    return EvalConfig.model_construct(
        taskset=_taskset(taskset),
        select=_select(taskset, tasks),
        harness=_harness(agent.harness),
        model=_model(agent.client),
        sampling=agent.sampling,
        runtime=agent.runtime,
        limits=agent.limits,
        timeouts=agent.timeouts,
        scoring=agent.scoring,
        retries=agent.retries,
        record=RecordConfig(tasks=len(tasks), vfnb=__version__, python=platform.python_version()),
        **settings,
    )


def _taskset(taskset: Taskset[Any, Any]) -> TasksetConfig:
    config: TasksetConfig = taskset.config
    if config.id:
        return config
    return config.model_copy(update={"id": _path(type(taskset))})


def _harness(harness: Harness[Any]) -> HarnessConfig:
    config: HarnessConfig = harness.config
    if config.id:
        return config
    path = _path(harness.function if isinstance(harness, FunctionHarness) else type(harness))
    names = {point.value: point.name for point in entry_points(group=GROUP)}
    return config.model_copy(update={"id": names.get(path, path)})


def _path(what: Any) -> str:
    """`module:Name` of a class or function, or `python:Name` if it cannot be imported by that."""
    module, name = what.__module__, what.__qualname__
    if module in (None, "__main__") or module.startswith("vfnb_file_") or not name.isidentifier():
        return OBJECT + str(what.__name__)
    return f"{module}:{name}"


def _model(client: ModelClient) -> ModelConfig:
    settings = client.settings()
    if settings is not None:
        return ModelConfig.model_construct(**settings)
    identity = client.identity()
    name = str(identity.get("model") or identity.get("kind") or type(client).__name__)
    return ModelConfig.model_construct(name=OBJECT + name)


def _select(taskset: Taskset[Any, Any], tasks: Sequence[Task[Any, Any, Any]]) -> SelectConfig:
    """The views as a selection; the positions themselves if the views do not come in a selection's order."""
    steps = [_step(view) for view in taskset.views]
    order = ["include", "exclude", "shuffle", "skip", "limit"]
    places = [order.index(name) for name, _ in steps]
    if places != sorted(set(places)):
        return SelectConfig(include=FilterConfig(idx=[int(task.data.idx or 0) for task in tasks]))
    found = dict(steps)
    if "shuffle" in found:
        found |= {"shuffle": True, "seed": found["shuffle"]}
    return SelectConfig(**found)


def _step(view: View) -> tuple[str, Any]:
    match view:
        case Filter():
            given = {"idx": view.idx, "ids": view.ids, "keys": view.keys, "names": view.names}
            lists = {key: list(items) for key, items in given.items() if items}
            return "include" if view.keep else "exclude", FilterConfig(**lists)
        case Shuffle():
            return "shuffle", view.seed
        case Skip():
            return "skip", view.n
        case Take():
            return "limit", view.n
    raise AssertionError(f"unreachable: {view!r} is no view of ours")
