"""Settings of runtimes and the open table of their kinds."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import PurePath
from typing import Annotated, Any, ClassVar, Literal

from pydantic import AfterValidator, BeforeValidator, Field, SerializeAsAny

from vfnb.errors import ConfigError
from vfnb.runtimes.base import Runtime
from vfnb.runtimes.environ import without_secrets
from vfnb.utils.config import BaseConfig, build, nearest

__all__ = [
    "AnyRuntimeConfig",
    "InProcessConfig",
    "PublicEnv",
    "RuntimeConfig",
    "SubprocessConfig",
    "make_runtime",
    "register_runtime",
    "runtime_class",
    "runtime_config",
]

PublicEnv = Annotated[dict[str, str], AfterValidator(without_secrets)]
"""Variables that a setting gives to programs: saved with the run, so what looks like a secret is refused."""


class RuntimeConfig(BaseConfig):
    """Where programs run; `type` picks the kind and with it the other settings.

    A kind of container may have the fields `image`, `workdir`, `network`, `cpu`, `memory`, `gpu` and `disk`: what a
    task demands then fills those that are not set here.
    """

    SPARSE: ClassVar[bool] = True  # what is not set here may come from the task

    type: str
    """Kind of runtime: `inprocess`, `subprocess`, or a registered one."""

    def model_post_init(self, context: Any, /) -> None:
        self.model_fields_set.add("type")  # a saved config must name it


def _inner(path: str) -> str:
    if PurePath(path).is_absolute() or ".." in PurePath(path).parts:
        raise ValueError("give a path relative to the box, without `..`")
    return path


InnerPath = Annotated[str, AfterValidator(_inner)]


class InProcessConfig(RuntimeConfig):
    """No programs, only files: for harnesses that are Python functions."""

    type: Literal["inprocess"] = "inprocess"
    """Always `inprocess`."""
    workdir: InnerPath | None = None
    """Folder inside the box that relative paths start from; the task's if not given."""
    file_limit: int = Field(default=256 << 20, ge=1)
    """Bytes of the longest file that is read from the box."""


class SubprocessConfig(RuntimeConfig):
    """Programs of this machine in a folder and with a HOME of their own. A tidy box, not a safe one."""

    type: Literal["subprocess"] = "subprocess"
    """Always `subprocess`."""
    workdir: InnerPath | None = None
    """Folder inside the box in which programs start and relative paths begin; the task's if not given."""
    env: PublicEnv = {}
    """Variables set for every program. They are saved with the run: what looks like a secret is refused."""
    pass_env: list[str] = []
    """Names of variables handed on although they look like credentials or user settings."""
    output_limit: int = Field(default=1_000_000, ge=1_000)
    """Bytes kept of each output stream of a program; beyond that its start and its end are kept."""
    file_limit: int = Field(default=256 << 20, ge=1)
    """Bytes of the longest file that is read from the box."""
    grace: float = Field(default=2.0, ge=0)
    """Seconds from SIGTERM to SIGKILL."""


_KINDS: dict[str, tuple[type[RuntimeConfig], type[Runtime]]] = {}


def register_runtime(config: type[RuntimeConfig], runtime: type[Runtime]) -> None:
    """Make a kind of runtime known under `runtime.type`; the same name again replaces it.

    The class is made with its config as the only argument.

    Raises:
        ConfigError: the class has no `type`.
    """
    if not runtime.type:
        raise ConfigError(f"runtime {runtime.__name__} has no name; set the class variable `type`")
    _KINDS[runtime.type] = (config, runtime)


def runtime_class(kind: str) -> type[Runtime]:
    """The class behind a kind's name.

    Raises:
        ConfigError: the kind is unknown; the message has the nearest one.
    """
    return _kind(kind)[1]


def _kind(kind: str) -> tuple[type[RuntimeConfig], type[Runtime]]:
    if kind not in _KINDS:
        match = nearest(kind, _KINDS)
        hint = f"did you mean {match!r}?" if match else f"known: {', '.join(sorted(_KINDS))}"
        raise ConfigError(f"runtime {kind!r} is unknown; {hint}")
    return _KINDS[kind]


def runtime_config(value: Any = None, *, path: str = "runtime") -> RuntimeConfig:
    """A runtime's settings from a name, a mapping with `type`, a config (as it is) or None (in process).

    Raises:
        ConfigError: the kind is unknown or its settings are wrong.
    """
    if isinstance(value, RuntimeConfig):
        return value
    if value is None:
        return InProcessConfig()
    if isinstance(value, str):
        return _kind(value)[0](type=value)
    if isinstance(value, Mapping):
        if not isinstance(value.get("type"), str):
            raise ConfigError(f"{path}.type: required, one of {', '.join(sorted(_KINDS))}")
        return build(_kind(value["type"])[0], value, path=path)
    raise ConfigError(f"{path}: expected a runtime's name, a mapping or a RuntimeConfig, got {value!r}")


AnyRuntimeConfig = Annotated[SerializeAsAny[RuntimeConfig], BeforeValidator(runtime_config)]
"""Field type for config models: takes what `runtime_config` takes and keeps the kind's own fields."""


def make_runtime(config: RuntimeConfig | Mapping[str, Any] | str | None = None) -> Runtime:
    """A new runtime, not started yet, for one rollout.

    Raises:
        ConfigError: the kind is unknown or its settings are wrong.
    """
    checked = runtime_config(config)
    make: Any = _kind(checked.type)[1]
    runtime: Runtime = make(checked)
    return runtime
