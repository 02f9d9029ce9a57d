"""Which box a task gets: the run's settings where they are set, else the task's, else the defaults."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import TYPE_CHECKING, Any

from vfnb.errors import ConfigError
from vfnb.runtimes import RuntimeConfig, runtime_class

if TYPE_CHECKING:
    from vfnb.tasks import Task, TaskData

__all__ = ["check_placement", "place"]

_CONTAINER = "but runtime {type!r} is no container; pass runtime= one that is"


def place(runtime: RuntimeConfig, data: TaskData) -> RuntimeConfig:
    """The runtime's settings for one task: what the task demands fills what was not set explicitly.

    A setting that was given counts as given even if it equals the default.
    """
    fields, given = type(runtime).model_fields, runtime.model_fields_set
    own = {
        name: value
        for name, value in _demands(data).items()
        if value is not None and name in fields and name not in given
    }
    return runtime.updated(**own) if own else runtime


def check_placement(task: Task[Any, Any, Any], runtime: RuntimeConfig) -> None:
    """Refuse a task whose demands the runtime cannot meet, before any model call.

    Numbers of cores, memory and disk bind in containers only: elsewhere the task has the whole machine.

    Raises:
        ConfigError: it needs a container, an image, an absolute working folder or a closed network, and the runtime
            is no container; or a container of this kind cannot give what it needs.
    """
    data = task.data
    if not runtime_class(runtime.type).IS_CONTAINER:
        demand = _only_in_containers(task)
        if demand is not None:
            raise ConfigError(f"{demand}, {_CONTAINER.format(type=runtime.type)}")
        return
    for name, value in _demands(data).items():
        if value is not None and name not in type(runtime).model_fields:
            raise ConfigError(
                f"task {task.name} demands {name}={value!r}, which runtime {runtime.type!r} cannot give; pass "
                "runtime= one that can"
            )


def _demands(data: TaskData) -> dict[str, Any]:
    """What a task says about its box, by the fields of runtime configs; None where it says nothing."""
    network = data.network.model_dump(mode="json") if data.network.restricts else None
    return {
        "image": data.image,
        "workdir": data.workdir,
        "network": network,
        **data.resources.model_dump(mode="json"),
    }


def _only_in_containers(task: Task[Any, Any, Any]) -> str | None:
    data = task.data
    if task.NEEDS_CONTAINER:
        return f"{type(task).__name__} sets NEEDS_CONTAINER"
    if data.image is not None:
        return f"task {task.name} wants the image {data.image!r}"
    if data.workdir is not None and PurePosixPath(data.workdir).is_absolute():
        return f"task {task.name} works in the absolute folder {data.workdir!r}"
    if data.network.restricts:
        return f"task {task.name} restricts its network"
    return None
