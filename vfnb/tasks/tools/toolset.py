"""`Toolset`: tools of a task, written as methods."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from typing_extensions import TypeVar

from vfnb.errors import ConfigError, HookError, TasksetError
from vfnb.tasks.hooks import check_spelling
from vfnb.tasks.state import State
from vfnb.tasks.tools.binding import current_state
from vfnb.tasks.tools.config import SharedToolsetConfig, in_process
from vfnb.tasks.tools.marks import tool_methods, tool_name
from vfnb.tasks.tools.registry import Registry
from vfnb.utils.config import build
from vfnb.utils.generics import type_argument
from vfnb.utils.source import code_hash

if TYPE_CHECKING:
    from collections.abc import Mapping

__all__ = ["Toolset"]

ConfigT = TypeVar("ConfigT", bound=SharedToolsetConfig, default=SharedToolsetConfig)
StateT = TypeVar("StateT", bound=State, default=State)


class Toolset(Generic[ConfigT, StateT]):
    """`Toolset[Config, State]` with methods marked `@vf.tool`.

    `Taskset.toolsets(config)` gives toolsets that all rollouts of a run share, `Task.toolsets(config)` those that
    each rollout has for itself. When it starts, `setup()` runs, then `setup_task(task)` (not if it is shared),
    then `register(mcp)`; when it ends, `teardown()`. All but `register` may be sync or async.

    `self.state` is the rollout's state, the same object as `trace.state`. Calls of one rollout run one after
    another if the class names a State of its own, so that no update is lost; else they run in parallel.

    Args:
        config: settings, or a mapping of them; None takes the defaults.

    Raises:
        ConfigError: wrong settings, or a place where this class cannot run.
        HookError: a tool whose parameters have no JSON schema.
    """

    TOOL_PREFIX: ClassVar[str] = ""
    """Put before each tool's name, with `_` between; also the name of the MCP server that programs see."""

    def __init__(self, config: ConfigT | Mapping[str, Any] | None = None) -> None:
        wanted = self.config_type()
        if isinstance(config, SharedToolsetConfig) and not isinstance(config, wanted):
            raise ConfigError(
                f"{type(self).__name__}(config): expected {wanted.__name__}, got {type(config).__name__}; "
                f"declare the field as `tools: {wanted.__name__} = {wanted.__name__}()`"
            )
        self.config: ConfigT = build(wanted, config)
        _check_place(type(self), self.config)
        Toolset.register(
            self, Registry(self.name)
        )  # checks the methods; an override may need what setup makes

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if cls.TOOL_PREFIX:
            tool_name(cls.TOOL_PREFIX)
        for index, bound in enumerate((SharedToolsetConfig, State)):
            argument = type_argument(cls, Toolset, index, default=bound)
            if isinstance(argument, type) and not issubclass(argument, bound):
                raise TasksetError(
                    f"class {cls.__name__}(Toolset[...]): argument {index + 1} must be a {bound.__name__}, "
                    f"got {argument.__name__}; the order is Toolset[ToolsetConfig, State]"
                )
        tool_methods(cls)
        check_spelling(cls, {"setup": (), "setup_task": ("task",)})

    @classmethod
    def config_type(cls) -> type[ConfigT]:
        """The config class, from `Toolset[Config]`."""
        return type_argument(cls, Toolset, 0, default=SharedToolsetConfig)  # type: ignore[no-any-return]

    @classmethod
    def state_type(cls) -> type[StateT]:
        """The state class, from `Toolset[Config, State]`."""
        return type_argument(cls, Toolset, 1, default=State)  # type: ignore[no-any-return]

    @property
    def name(self) -> str:
        """The server's name: the prefix, else the class name in words (`CounterToolset` is `counter`)."""
        if self.TOOL_PREFIX:
            return self.TOOL_PREFIX
        plain = type(self).__name__.removesuffix("Toolset") or type(self).__name__
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain).lower().strip("_") or "tools"

    @property
    def state(self) -> StateT:
        """The state of the rollout whose call runs here.

        Raises:
            HookError: no call of a rollout runs here.
        """
        state: StateT = current_state(type(self).__name__)
        return state

    async def setup(self) -> None:
        """Open what the tools need: an index, a client. Once per server."""

    async def setup_task(self, task: Any) -> None:
        """Prepare for one rollout, given its TaskData. Not called on shared toolsets."""

    async def teardown(self) -> None:
        """Close what `setup` opened."""

    def register(self, mcp: Any) -> None:
        """Offer the tools. An override may add some, `mcp.add_tool(function)`, after `super().register(mcp)`."""
        for attribute, spec in tool_methods(type(self)).items():
            mcp.add_tool(
                getattr(self, attribute),
                name=spec.name or attribute,
                description=spec.description,
                timeout=spec.timeout,
            )

    def registry(self) -> Registry:
        """The tools as registered now.

        Raises:
            HookError: one cannot be a tool, or two have one name.
        """
        registry = Registry(self.name)
        self.register(registry)
        return registry

    @classmethod
    def run(cls, config: Any = None) -> None:
        """Serve the toolset as a program of its own; for `if __name__ == "__main__":` of its module.

        Launched by a run, it talks to it. By hand, it is a streamable-HTTP server: `--host`, `--port`,
        `--path`; give its address to others as `url`.
        """
        from vfnb.tasks.tools.program import main

        main(cls, config)

    def identity(self) -> dict[str, Any]:
        """What decides, with the task, whether an old rollout may be reused."""
        return {
            "name": self.name,
            "prefix": self.TOOL_PREFIX,
            "config": self.config.model_dump(mode="json", exclude={"timeout": {"startup"}}),
            "code": code_hash(type(self)),
        }

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"


def _check_place(cls: type, config: SharedToolsetConfig) -> None:
    """Refuse a place to which the class cannot go, when the toolset is made."""
    if in_process(config.runtime):
        return
    assert config.runtime is not None
    cell = cls.__module__ == "__main__"
    if cell or "<locals>" in cls.__qualname__:
        where = "a notebook cell or the main script" if cell else "a function"
        raise ConfigError(
            f"{cls.__name__} is defined in {where} and cannot run in a runtime of its own "
            f"({config.runtime.type!r}): leave `runtime` out to run it in this process, or move the class to a "
            f'module that calls {cls.__name__}.run() under `if __name__ == "__main__":`'
        )


def lifecycle(toolset: Toolset[Any, Any], name: str) -> Callable[..., Any] | None:
    """A life-cycle method, None if the class leaves it as it is.

    Raises:
        HookError: it is no method.
    """
    method = getattr(toolset, name)
    if not callable(method):
        raise HookError(f"{type(toolset).__name__}.{name} must be a method, got {method!r}")
    return None if getattr(type(toolset), name) is getattr(Toolset, name) else method
