"""Where a tool server runs, and how long things may take."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar, Self

from pydantic import Field, SerializeAsAny, field_validator, model_validator

from vfnb.errors import ConfigError
from vfnb.runtimes import RuntimeConfig, SubprocessConfig, runtime_class, runtime_config
from vfnb.utils.config import BaseConfig

__all__ = ["SharedToolsetConfig", "ToolsetConfig", "ToolsetTimeout", "in_process"]


class ToolsetTimeout(BaseConfig):
    """Limits in seconds; None waits for ever."""

    startup: float | None = Field(default=600.0, gt=0)
    """From launch, or `setup`, until the tools are there. Running over it is an error of the rollout."""
    call: float | None = Field(default=120.0, gt=0)
    """One tool call. Running over it is a tool error that the model sees."""


class SharedToolsetConfig(BaseConfig):
    """A toolset that the rollouts of a run share, as `Taskset.toolsets` gives it.

    By default it runs in this process, whether its class is in a module or in a cell.
    """

    runtime: SerializeAsAny[RuntimeConfig] | None = None
    """`{type = "subprocess"}` launches `python -m <the class's module>` on this machine; None runs in process."""
    url: str | None = None
    """Use a server that already runs, by its streamable-HTTP URL, in place of the class's own tools."""
    timeout: ToolsetTimeout = ToolsetTimeout()
    """Limits of start and calls."""
    result_limit: int = Field(default=1_000_000, ge=1_000)
    """Bytes of text that one result may have; a larger one becomes a tool error."""

    PLACES: ClassVar[tuple[str, ...]] = ("runtime", "url")

    @field_validator("runtime", mode="before")
    @classmethod
    def _known_runtime(cls, value: Any) -> Any:
        if value is None or isinstance(value, RuntimeConfig):
            return value
        kind = value.get("type") if isinstance(value, Mapping) else value
        try:
            return runtime_config(value)
        except ConfigError as error:
            raise ValueError(f"no tool server can run in {kind!r}: {error}") from None

    @field_validator("url")
    @classmethod
    def _http(cls, url: str | None) -> str | None:
        if url is not None and not url.startswith(("http://", "https://")):
            raise ValueError('write the whole URL, for example "http://127.0.0.1:8000/mcp"')
        return url

    @model_validator(mode="after")
    def _one_place(self) -> Self:
        given = [name for name in self.PLACES if getattr(self, name)]
        if len(given) > 1:
            raise ValueError(f"{' and '.join(given)} exclude each other; a server runs in one place")
        if self.runtime is not None and not in_process(self.runtime):
            kind = self.runtime.type
            if runtime_class(kind).IS_CONTAINER or not isinstance(self.runtime, SubprocessConfig):
                raise ValueError(
                    f"a runtime of type {kind!r} cannot hold a tool server yet; use "
                    '{type = "subprocess"}, or the url of a server that you start there'
                )
        return self


class ToolsetConfig(SharedToolsetConfig):
    """A toolset that each rollout has for itself, as `Task.toolsets` gives it."""

    colocated: bool = False
    """Run the server inside the agent's own container, so that its tools see the agent's files."""
    service: str | None = None
    """Run the server inside a named virtual machine of the task's services."""

    PLACES: ClassVar[tuple[str, ...]] = ("runtime", "url", "colocated", "service")

    @model_validator(mode="after")
    def _no_containers_yet(self) -> Self:
        for name in ("colocated", "service"):
            if getattr(self, name):
                raise ValueError(
                    f"{name} needs a container runtime, and there is none in this version; leave it out for a "
                    'toolset in this process, or set runtime = {type = "subprocess"}'
                )
        return self


def in_process(runtime: RuntimeConfig | None) -> bool:
    """Whether a `runtime` setting means this process."""
    return runtime is None or runtime.type == "inprocess"
