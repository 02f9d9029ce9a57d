"""The set of tasks: loaded lazily, narrowed by views."""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self

from typing_extensions import TypeVar

from vfnb._late import late
from vfnb.errors import ConfigError, EmptySelection, TasksetError
from vfnb.tasks.data import TaskData
from vfnb.tasks.task import KEY_DIGITS, Task, TaskConfig, check_toolsets_method
from vfnb.tasks.views import Filter, FilterConfig, SelectConfig, Shuffle, Skip, Take, View
from vfnb.utils.config import OBJECT, BaseConfig, build
from vfnb.utils.generics import type_argument

if TYPE_CHECKING:
    from collections.abc import Mapping

    from vfnb.tasks.tools.plan import ToolItem

__all__ = ["Taskset", "TasksetConfig"]

Indices = int | str | Sequence[int | str]
Names = str | Sequence[str]


class TasksetConfig(BaseConfig):
    """Settings of loading. Subclass it for a split, a size, a seed; put what each task needs under `task`."""

    id: str = ""
    """Entry point, module or file it was loaded from; empty for a class defined in place."""
    task: TaskConfig = TaskConfig()
    """Settings that each task uses while it runs or is scored."""
    system_prompt: str | None = None
    """Instructions for every task, in place of those that tasks and taskset have; empty for none at all."""


TaskT = TypeVar("TaskT", bound=Task[Any, Any, Any], default=Task[Any, Any, Any])
ConfigT = TypeVar("ConfigT", bound=TasksetConfig, default=TasksetConfig)


class Taskset(Generic[TaskT, ConfigT]):
    """`Taskset[Task, Config]` with a `load` that returns a list or is a generator.

    Iterating yields the tasks in order, each with its `idx` and a unique key, and builds no more of them than are
    taken. Views return a narrowed copy and may be chained in any order.

    Args:
        config: settings, or a mapping of them; None takes the defaults.
        overrides: single settings, as in `AdditionTaskset(num_tasks=10)`.

    Raises:
        ConfigError: an unknown or wrong setting.
    """

    INFINITE: ClassVar[bool] = False
    """Whether `load` never ends."""
    system_prompt: ClassVar[str | None] = None
    """Instructions for tasks that have none of their own in `TaskData.system_prompt`."""

    def __init__(self, config: ConfigT | Mapping[str, Any] | None = None, **overrides: Any) -> None:
        wanted = self.config_type()
        if isinstance(config, TasksetConfig) and not isinstance(config, wanted):
            raise ConfigError(
                f"{type(self).__name__}(config): expected {wanted.__name__}, got {type(config).__name__}"
            )
        checked: ConfigT = build(wanted, config)
        self.config: ConfigT = checked.updated(**overrides) if overrides else checked
        self._views: tuple[View, ...] = ()

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for index, bound in enumerate((Task, TasksetConfig)):
            argument = type_argument(cls, Taskset, index, default=bound)
            if isinstance(argument, type) and not issubclass(argument, bound):
                raise TasksetError(
                    f"class {cls.__name__}(Taskset[...]): argument {index + 1} must be a {bound.__name__}, "
                    f"got {argument.__name__}; the order is Taskset[Task, TasksetConfig]"
                )
        check_toolsets_method(cls)

    @classmethod
    def of(cls, tasks: Iterable[Task[Any, Any, Any] | TaskData], *, name: str = "tasks") -> Taskset[Any, Any]:
        """A taskset of given tasks; a bare TaskData becomes a plain `Task` without rewards."""
        return _Given(list(tasks), name)

    @classmethod
    def task_type(cls) -> type[TaskT]:
        """The task class, from `Taskset[Task]`."""
        return type_argument(cls, Taskset, 0, default=Task)  # type: ignore[no-any-return]

    @classmethod
    def config_type(cls) -> type[ConfigT]:
        """The config class, from `Taskset[Task, Config]`."""
        return type_argument(cls, Taskset, 1, default=TasksetConfig)  # type: ignore[no-any-return]

    @property
    def name(self) -> str:
        """A name for tables and folders: the id it was loaded by (without the module), else the class name."""
        return self.config.id.rpartition(":")[2] or type(self).__name__

    @property
    def views(self) -> tuple[View, ...]:
        """The steps that narrow it, in the order in which they were given."""
        return self._views

    def load(self) -> Iterable[TaskT]:
        """The tasks in order: a list, or a generator that builds them one by one. Keep it deterministic."""
        raise TasksetError(
            f"{type(self).__name__} has no load(); define `def load(self)` that returns or yields tasks"
        )

    @classmethod
    def toolsets(cls, config: ConfigT) -> list[ToolItem]:
        """Toolsets and `vf.McpServer`s that all rollouts of a run share: new ones at each call. None by default."""
        return []

    def has_tools(self) -> bool:
        """Whether the class says anything about shared tools."""
        own = inspect.getattr_static(type(self), "toolsets")
        return own is not inspect.getattr_static(Taskset, "toolsets")

    # Views

    def include(self, idx: Indices = (), ids: Names = (), keys: Names = (), names: Names = ()) -> Self:
        """Keep the tasks that any of the lists names.

        Args:
            idx: positions, or slices of them as text (`"0:100"`, `"100:"`, `"::2"`).
            ids, keys, names: as in TaskData.

        Raises:
            ConfigError: no list, or an entry of `idx` that is neither.
        """
        return self._with(Filter(True, _many(idx), _many(ids), _many(keys), _many(names)))

    def exclude(self, idx: Indices = (), ids: Names = (), keys: Names = (), names: Names = ()) -> Self:
        """Drop the tasks that any of the lists names; arguments as for `include`."""
        return self._with(Filter(False, _many(idx), _many(ids), _many(keys), _many(names)))

    def shuffle(self, seed: int = 0) -> Self:
        """A random order. All tasks before it are built.

        Raises:
            TasksetError: the taskset is infinite and nothing before bounds it.
        """
        if not self.bounded:
            raise TasksetError(
                f"{type(self).__name__} is infinite and cannot be shuffled; bound it first with take(n) "
                "or include(idx=['0:1000'])"
            )
        return self._with(Shuffle(seed))

    def skip(self, n: int) -> Self:
        """All but the first `n` tasks."""
        return self._with(Skip(_count(n, "skip")))

    def take(self, n: int) -> Self:
        """The first `n` tasks; no more than that are built."""
        return self._with(Take(_count(n, "take")))

    def select(self, config: SelectConfig | Mapping[str, Any] | None = None) -> Self:
        """The views of a config in their fixed order: include, exclude, shuffle, skip, limit."""
        chosen = build(SelectConfig, config, path="select")
        view = self
        if chosen.include is not None:
            view = view.include(**_given(chosen.include))
        if chosen.exclude is not None:
            view = view.exclude(**_given(chosen.exclude))
        if chosen.shuffle:
            view = view.shuffle(chosen.seed)
        if chosen.skip:
            view = view.skip(chosen.skip)
        return view.take(chosen.limit) if chosen.limit is not None else view

    def with_config(self, config: ConfigT) -> Self:
        """The same taskset and views with other settings."""
        twin = type(self)(config)
        twin._views = self._views
        return twin

    def _with(self, view: View) -> Self:
        twin = copy.copy(self)
        twin._views = (*self._views, view)
        return twin

    # Iteration

    @property
    def bounded(self) -> bool:
        """Whether iterating ends: a finite taskset, or a view that bounds an infinite one."""
        return not self.INFINITE or any(view.bounds for view in self._views)

    def __iter__(self) -> Iterator[TaskT]:
        tasks: Iterator[TaskT] = self._placed()
        infinite = self.INFINITE
        for view in self._views:
            tasks = view.apply(tasks, infinite=infinite)
            infinite = infinite and not view.bounds
        return tasks

    def resolve(self) -> list[TaskT]:
        """The tasks of a run, all built and checked.

        Raises:
            TasksetError: the taskset is infinite and unbounded, has no tasks, or two with one key or position.
            EmptySelection: the views leave nothing.
        """
        if not self.bounded:
            raise TasksetError(
                f"{type(self).__name__} is infinite; bound the run with take(n), -n, or include(idx=['0:100']) of "
                "closed ranges only"
            )
        tasks = list(self)
        if not tasks:
            chain = ".".join(map(str, self._views))
            raise EmptySelection(f"{self.name}: no task is left after {chain}; widen the selection")
        return tasks

    def _placed(self) -> Iterator[TaskT]:
        """The loaded tasks, checked, with position and unique key."""
        positions: set[int] = set()
        owners: dict[str, int] = {}
        copies: dict[str, int] = {}
        for position, task in enumerate(self._loaded()):
            if not isinstance(task, Task):
                raise TasksetError(
                    f"{type(self).__name__}.load() gave a {type(task).__name__} at position {position}; give Task "
                    f"objects, as in {self.task_type().__name__}(data, self.config.task)"
                )
            idx = position if task.data.idx is None else task.data.idx
            if idx in positions:
                raise TasksetError(
                    f"{self.name}: two tasks have idx {idx}; leave idx out to get load positions"
                )
            positions.add(idx)
            key = task.data.key
            if key is None:
                content = task.data.content_hash()[:KEY_DIGITS]
                copies[content] = copies.get(content, 0) + 1
                key = content if copies[content] == 1 else f"{content}-{copies[content]}"
            if key in owners:
                raise TasksetError(
                    f"{self.name}: tasks {owners[key]} and {idx} have the same key {key!r}; keys are unique"
                )
            owners[key] = idx
            owner = None if isinstance(self, _Given) else self
            yield task.placed(idx, key, self._instructions(task.data), owner)
        if not positions:
            raise TasksetError(
                f"{self.name}: load() gave no tasks; check its source and the config {self.config!r}"
            )

    def _instructions(self, data: TaskData) -> str | None:
        """The system prompt of a task: what the user set, else the task's own, else the taskset's."""
        if self.config.system_prompt is not None:
            return self.config.system_prompt or None
        return data.system_prompt if data.system_prompt is not None else self.system_prompt

    def _loaded(self) -> Iterable[TaskT]:
        tasks = self.load()
        if not isinstance(tasks, Iterable):
            raise TasksetError(
                f"{type(self).__name__}.load() gave {type(tasks).__name__}; return a list of tasks or yield them"
            )
        return tasks

    def __repr__(self) -> str:
        settings = ", ".join(f"{name}={value!r}" for name, value in self.config.explicit().items())
        return f"{type(self).__name__}({settings})" + "".join(f".{view}" for view in self._views)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> Any:
        return late("Taskset.bundle", self)


class _Given(Taskset[Task[Any, Any, Any], TasksetConfig]):
    """The taskset behind `Taskset.of`."""

    def __init__(self, tasks: Sequence[Task[Any, Any, Any] | TaskData], name: str) -> None:
        super().__init__(id=OBJECT + name)
        self._tasks = [Task(task) if isinstance(task, TaskData) else task for task in tasks]

    def with_config(self, config: TasksetConfig) -> Self:
        raise ConfigError(
            "a list of tasks has no settings; define a vf.Taskset whose load() uses self.config"
        )

    def load(self) -> list[Task[Any, Any, Any]]:
        """As given."""
        return self._tasks

    def __repr__(self) -> str:
        return f"Taskset.of({len(self._tasks)} tasks)" + "".join(f".{view}" for view in self._views)


def _many(value: Any) -> tuple[Any, ...]:
    return (value,) if isinstance(value, int | str) else tuple(value)


def _given(config: FilterConfig) -> dict[str, Any]:
    return {name: getattr(config, name) for name in FilterConfig.model_fields}


def _count(n: int, verb: str) -> int:
    if isinstance(n, bool) or not isinstance(n, int) or n < 0:
        raise ConfigError(f"{verb}({n!r}): expected a number of tasks, 0 or more")
    return n
