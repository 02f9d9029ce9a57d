"""A toolset as a program of its own on this machine, or at a URL."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from vfnb.errors import ConfigError
from vfnb.runtimes import SubprocessConfig
from vfnb.runtimes.environ import scrubbed
from vfnb.tasks.state import State
from vfnb.tasks.tools.binding import Binding, snapshot
from vfnb.tasks.tools.connection import Address
from vfnb.tasks.tools.remote import RemoteSource
from vfnb.tasks.tools.toolset import Toolset

__all__ = ["LAUNCH", "hosted_source"]

LAUNCH = "VFNB_TOOLSET"
"""Variable with the path of the JSON file that tells a launched server what to serve."""


def hosted_source(toolset: Toolset[Any, Any]) -> RemoteSource:
    """The source of a toolset whose config names a URL or the subprocess runtime.

    Raises:
        ConfigError: its module cannot be run as a program.
    """
    config = toolset.config
    stateful = toolset.state_type() is not State
    command = () if config.url else _command(type(toolset))

    def address(binding: Binding | None, files: ExitStack) -> Address:
        if config.url is not None:
            return Address(url=config.url)
        folder = Path(files.enter_context(tempfile.TemporaryDirectory(prefix="vfnb-tools-")))
        order = folder / ".vfnb-toolset.json"
        order.write_text(json.dumps(_order(toolset, binding, stateful=stateful)))
        name = type(toolset).__name__
        return Address(
            command=command,
            env=_environment(config.runtime, order),
            cwd=str(folder),
            hint=f'does its module call {name}.run() under `if __name__ == "__main__":`?',
        )

    return RemoteSource(
        toolset.name,
        toolset.TOOL_PREFIX,
        address,
        startup=config.timeout.startup,
        call=config.timeout.call,
        result_limit=config.result_limit,
        stateful=stateful,
    )


def _command(cls: type) -> tuple[str, ...]:
    module = sys.modules[cls.__module__]
    if hasattr(module, "__path__"):
        raise ConfigError(
            f"{cls.__name__} is defined in the package {cls.__module__} itself, which cannot be run as a program; "
            f'move it to a module of the package that calls {cls.__name__}.run() under `if __name__ == "__main__":`'
        )
    if cls.__module__.startswith("vfnb_file_"):  # loaded from a path: there is no name to import
        return (sys.executable, str(module.__file__))
    return (sys.executable, "-m", cls.__module__)


def _order(toolset: Toolset[Any, Any], binding: Binding | None, *, stateful: bool) -> dict[str, Any]:
    order: dict[str, Any] = {
        "class": type(toolset).__qualname__,
        "config": toolset.config.model_dump(mode="json", exclude={"runtime", "url"}, exclude_unset=True),
    }
    if binding is not None:
        kind = type(binding.task)
        order["task"] = {
            "type": f"{kind.__module__}:{kind.__qualname__}",
            "data": binding.task.model_dump(mode="json"),
        }
        if stateful:
            order["state"] = snapshot(binding.holder.state)
    return order


def _environment(runtime: Any, order: Path) -> dict[str, str]:
    assert isinstance(runtime, SubprocessConfig)
    path = os.pathsep.join(entry or str(Path.cwd()) for entry in sys.path)
    return scrubbed(os.environ, runtime.pass_env) | {"PYTHONPATH": path, **runtime.env, LAUNCH: str(order)}
