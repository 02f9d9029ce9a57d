"""One problem: its data, what prepares it and what scores it."""

from __future__ import annotations

import copy
import inspect
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self

from pydantic import Field
from typing_extensions import TypeVar

from vfnb._late import late
from vfnb.errors import HookError, TasksetError
from vfnb.tasks.data import TaskData
from vfnb.tasks.hooks import LIFECYCLE, Hook, check_signature, check_spelling, parameters, spec_of
from vfnb.tasks.judges import Judge, Judges, make_judges
from vfnb.tasks.judges.plugged import check_judges, judge_hook
from vfnb.tasks.plugged import MetricConfig, Plugged, RewardConfig, StopConfig, plug
from vfnb.tasks.state import State
from vfnb.utils.config import BaseConfig
from vfnb.utils.generics import type_argument

if TYPE_CHECKING:
    from vfnb.runtimes import Runtime
    from vfnb.tasks.scoring import Scores
    from vfnb.tasks.taskset import Taskset
    from vfnb.tasks.tools.plan import ToolItem
    from vfnb.trace import Trace
    from vfnb.types import Messages

__all__ = ["KEY_DIGITS", "Task", "TaskConfig"]


class TaskConfig(BaseConfig):
    """Settings that each task uses while it runs or is scored, `TasksetConfig.task`."""

    SCORING: ClassVar[tuple[str, ...]] = ("metrics", "rewards", "judges")
    """Fields that matter to scoring only: other values need no new rollouts."""

    stops: dict[str, StopConfig] = {}
    """New or changed stops by name: fn, skip_scoring, priority."""
    metrics: dict[str, MetricConfig] = {}
    """New or changed metrics by name: fn, priority."""
    rewards: dict[str, RewardConfig] = {}
    """New or changed rewards by name: fn, weight, priority."""
    judges: Judges = []
    """Judges that give a reward each, after the task's own rewards: `[[env.taskset.task.judges]]`."""
    max_rewrite_bytes: int | None = Field(default=None, ge=1)
    """Longest text of a rewritten message; the trace says what was cut."""


DataT = TypeVar("DataT", bound=TaskData, default=TaskData)
StateT = TypeVar("StateT", bound=State, default=State)
ConfigT = TypeVar("ConfigT", bound=TaskConfig, default=TaskConfig)

KEY_DIGITS = 12  # of a content hash: enough to tell apart the tasks of one taskset, short enough for tables
_BOUNDS = (("data", TaskData), ("state", State), ("config", TaskConfig))


class Task(Generic[DataT, StateT, ConfigT]):
    """`Task[Data, State, Config]`; later arguments may be left out.

    A subclass may define `setup`, `finalize` and `validate` and methods marked `@vf.reward`, `@vf.metric`,
    `@vf.stop` or `@vf.intercept`, sync or async; each gets what its parameters name. All of them are checked when
    the class is defined.

    Raises:
        TasksetError: the data or the config is not of the declared class.
    """

    NEEDS_CONTAINER: ClassVar[bool] = False
    """Whether the task only works in a container runtime."""

    def __init__(self, data: DataT, config: ConfigT | None = None) -> None:
        self.data: DataT = _checked_data(type(self), data)
        self.config: ConfigT = _checked_config(type(self), config)
        self.taskset: Taskset[Any, Any] | None = None
        """The taskset that yielded it, whose shared tools it uses; None for a task made by hand."""
        self._key: str | None = None
        self._plugged: Plugged | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        _check_arguments(cls)
        _check_hooks(cls)
        check_spelling(cls, LIFECYCLE)
        check_toolsets_method(cls)

    @classmethod
    def data_type(cls) -> type[DataT]:
        """The record class, from `Task[Data]`."""
        return type_argument(cls, Task, 0, default=TaskData)  # type: ignore[no-any-return]

    @classmethod
    def state_type(cls) -> type[StateT]:
        """The state class, from `Task[Data, State]`."""
        return type_argument(cls, Task, 1, default=State)  # type: ignore[no-any-return]

    @classmethod
    def config_type(cls) -> type[ConfigT]:
        """The config class, from `Task[Data, State, Config]`."""
        return type_argument(cls, Task, 2, default=TaskConfig)  # type: ignore[no-any-return]

    @property
    def key(self) -> str:
        """Identity for resuming: the data's own key, else its content hash; independent of the position."""
        if self._key is None:
            self._key = self.data.key or self.data.content_hash()[:KEY_DIGITS]
        return self._key

    @property
    def name(self) -> str:
        """A short name for tables: the data's name or id, else the position, else the start of the key."""
        if self.data.name or self.data.id:
            return self.data.name or self.data.id or ""
        return str(self.data.idx) if self.data.idx is not None else self.key[:8]

    @property
    def prompt(self) -> str | Messages:
        """The data's prompt, as `session.complete` takes it.

        Raises:
            TasksetError: the data has none.
        """
        if self.data.prompt is None:
            raise TasksetError(f"task {self.name} has no prompt; give its data one, or read its own fields")
        return self.data.prompt

    def make_state(self) -> StateT:
        """A fresh state for one rollout.

        Raises:
            TasksetError: a field of the state has no default.
        """
        cls = self.state_type()
        required = [name for name, field in cls.model_fields.items() if field.is_required()]
        if required:
            raise TasksetError(
                f"{cls.__name__}.{required[0]} needs a default: each rollout starts with {cls.__name__}()"
            )
        return cls()

    def hooks(self, kind: str) -> list[Hook]:
        """The task's hooks of one kind, those of its config included, bound, in the order in which they run.

        The kind `judge` gives those of its judges.

        Raises:
            ConfigError: the config names a function that cannot be used, or a hook that is not there.
        """
        if kind == "judge":
            return [judge_hook(judge) for judge in self.judges()]
        plugged = self._plugged or plug(type(self), self.config)
        return [
            Hook(spec, getattr(self, what) if isinstance(what, str) else what) for spec, what in plugged[kind]
        ]

    def with_hooks(self, plugged: Plugged) -> Self:
        """A copy whose hooks stay as they are now, whatever becomes of the files of its config."""
        twin = copy.copy(self)
        twin._plugged = plugged
        return twin

    @classmethod
    def toolsets(cls, config: ConfigT) -> list[ToolItem]:
        """Toolsets and `vf.McpServer`s that each rollout has for itself: new ones at each call. None by default."""
        return []

    def has_tools(self) -> bool:
        """Whether the class or its taskset says anything about tools."""
        return _own_toolsets(type(self)) or (self.taskset is not None and self.taskset.has_tools())

    def judges(self) -> list[Judge[Any, Any]]:
        """The judges of its config, in the order in which they run."""
        module = sys.modules.get(type(self).__module__)
        file = getattr(module, "__file__", None)
        return make_judges(self.config.judges, [Path(file).parent] if file else [])

    def check(self) -> None:
        """Refuse what cannot be scored, before any model call.

        Raises:
            ConfigError: a judge has no endpoint, no file, or no field to read.
            ScoringError: two scores have one name.
        """
        if self.config.judges:
            check_judges(self)

    async def score(self, trace: Trace, runtime: Runtime | None = None) -> Scores:
        """Run metrics, rewards and judges, and record them on the trace; see `vfnb.tasks.score`."""
        from vfnb.tasks.scoring import score

        return await score(self, trace, runtime)

    def placed(
        self, idx: int, key: str, system_prompt: str | None, taskset: Taskset[Any, Any] | None = None
    ) -> Self:
        """A copy at a position of a taskset, under a unique key, with the instructions that it has there."""
        twin = copy.copy(self)
        twin.taskset = taskset if taskset is not None else self.taskset
        if (self.data.idx, self.data.system_prompt) != (idx, system_prompt):
            twin.data = self.data.model_copy(update={"idx": idx, "system_prompt": system_prompt})
        twin._key = key
        return twin

    def __repr__(self) -> str:
        prompt = self.data.prompt_text
        prompt = prompt if len(prompt) <= 60 else prompt[:57] + "..."
        return f"{type(self).__name__}(idx={self.data.idx}, name={self.name!r}, prompt={prompt!r})"

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return late("Task.bundle", self)


def check_toolsets_method(cls: type) -> None:
    """Refuse a `toolsets` that is no class method.

    Raises:
        HookError: it needs an object; tools are looked up before there is one.
    """
    if not isinstance(inspect.getattr_static(cls, "toolsets"), classmethod):
        raise HookError(
            f"{cls.__name__}.toolsets must be a class method: write `@classmethod def toolsets(cls, config)`"
        )


def _own_toolsets(cls: type[Task[Any, Any, Any]]) -> bool:
    return inspect.getattr_static(cls, "toolsets") is not inspect.getattr_static(Task, "toolsets")


def _check_arguments(cls: type[Task[Any, Any, Any]]) -> None:
    for index, (what, bound) in enumerate(_BOUNDS):
        argument = type_argument(cls, Task, index, default=bound)
        if isinstance(argument, type) and not issubclass(argument, bound):
            raise TasksetError(
                f"class {cls.__name__}(Task[...]): argument {index + 1}, the {what} class, must be a "
                f"{bound.__name__}, got {argument.__name__}; the order is Task[Data, State, Config]"
            )


def _check_hooks(cls: type) -> None:
    for name, allowed in LIFECYCLE.items():
        method = inspect.getattr_static(cls, name, None)
        if method is not None:
            _check_method(cls, name, method, name, allowed)
    inherited: dict[str, str] = {}
    for level in reversed(cls.__mro__):
        for name, value in vars(level).items():
            spec = spec_of(value)
            if spec is not None and name in vars(Task):
                raise HookError(
                    f"{level.__name__}.{name}: every task has a `{name}` of its own; "
                    f"give the {spec.kind} another name"
                )
            if spec is not None:
                inherited[name] = spec.kind
                _check_method(level, name, value, spec.kind, parameters(spec))
            elif name in inherited and callable(value):
                raise HookError(
                    f"{level.__name__}.{name} replaces a {inherited[name]} and is none itself; "
                    f"decorate it with @{inherited[name]}, or write `{name} = None` to drop the {inherited[name]}"
                )


def _check_method(cls: type, name: str, value: Any, kind: str, allowed: tuple[str, ...]) -> None:
    bound_by_python = not isinstance(value, staticmethod)
    function = getattr(value, "__func__", value)
    if not callable(function):
        raise HookError(f"{cls.__name__}.{name} must be a method, got {value!r}")
    check_signature(function, kind, allowed, method=bound_by_python, owner=cls.__name__)


def _checked_data(cls: type[Task[Any, Any, Any]], data: Any) -> Any:
    wanted = cls.data_type()
    if not isinstance(data, wanted):
        raise TasksetError(
            f"{cls.__name__}(data): expected {wanted.__name__}, got {type(data).__name__}; "
            f"write {cls.__name__}({wanted.__name__}(...))"
        )
    return data


def _checked_config(cls: type[Task[Any, Any, Any]], config: Any) -> Any:
    wanted = cls.config_type()
    if config is None:
        return wanted()
    if isinstance(config, wanted):
        return config
    if isinstance(config, TaskConfig) and issubclass(wanted, type(config)):
        return wanted(**{name: getattr(config, name) for name in config.model_fields_set})
    raise TasksetError(
        f"{cls.__name__}(..., config): expected {wanted.__name__}, got {type(config).__name__}; "
        f"declare `task: {wanted.__name__} = {wanted.__name__}()` on the TasksetConfig and pass self.config.task"
    )
