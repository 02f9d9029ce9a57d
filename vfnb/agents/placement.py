"""Whether a runtime can hold a task."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vfnb.errors import ConfigError
from vfnb.runtimes import RuntimeConfig, runtime_class

if TYPE_CHECKING:
    from vfnb.tasks import Task

__all__ = ["check_placement"]


def check_placement(task: Task[Any, Any, Any], runtime: RuntimeConfig) -> None:
    """Refuse a task whose demands the runtime cannot meet, before any model call.

    Raises:
        ConfigError: it needs a container, an image or closed network, and the runtime has none of them.
    """
    if runtime_class(runtime.type).IS_CONTAINER:
        return
    data = task.data
    demand = None
    if task.NEEDS_CONTAINER:
        demand = f"{type(task).__name__} sets NEEDS_CONTAINER"
    elif data.image is not None:
        demand = f"task {task.name} wants the image {data.image!r}"
    elif data.network.allow != ["*"] or data.network.block:
        demand = f"task {task.name} restricts its network"
    if demand is not None:
        raise ConfigError(
            f"{demand}, but runtime {runtime.type!r} is no container; pass runtime= one that is"
        )
