"""Scoring stored rollouts: tasks made of what was stored, hooks that find no runtime any more."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from pydantic import ConfigDict, ValidationError

from vfnb.errors import ConfigError, HookError, ScoringError, TasksetError, VfnbError
from vfnb.tasks.calling import is_plain, parameters_of
from vfnb.tasks.data import TaskData
from vfnb.tasks.hooks import Hook, check_signature, parameters, plain_spec, spec_of
from vfnb.tasks.judges import Judge
from vfnb.tasks.judges.base import plugged_problem
from vfnb.tasks.judges.plugged import PARAMETERS, judge_hook
from vfnb.tasks.plugged import plug
from vfnb.tasks.scoring import NOTHING, Scoring
from vfnb.tasks.state import State
from vfnb.tasks.task import Task, TaskConfig
from vfnb.tasks.taskset import Taskset
from vfnb.trace import ErrorInfo, Trace, error_info
from vfnb.utils.plain import encodable

__all__ = ["Found", "StoredHooks", "StoredTasks", "all_plain", "score_here", "score_there"]

_KINDS = ("metric", "reward", "judge")


class StoredData(TaskData):
    """The record of a task whose class is not at hand: its fields as they were stored."""

    model_config = ConfigDict(extra="allow")


class StoredTasks:
    """Tasks of stored rollouts.

    Args:
        source: a Task or Taskset class, or an object of one, whose config is used then; None takes the fields
            as they were stored.

    Raises:
        ConfigError: it is something else.
    """

    def __init__(self, source: Any = None) -> None:
        self.kind: type[Task[Any, Any, Any]] | None = None
        self.config: TaskConfig | None = None
        if isinstance(source, Taskset):
            self.kind, self.config = source.task_type(), source.config.task
        elif isinstance(source, Task):
            self.kind, self.config = type(source), source.config
        elif isinstance(source, type) and issubclass(source, Taskset):
            self.kind, self.config = source.task_type(), source.config_type()().task
        elif isinstance(source, type) and issubclass(source, Task):
            self.kind = source
        elif source is not None:
            raise ConfigError(
                f"task={source!r:.80} is no Task or Taskset; give the class, or an object with its config"
            )
        self._plugged = None if self.kind is None else plug(self.kind, self.config)
        self._judges: list[Hook] | None = None
        self._state: type[State] = State if self.kind is None else self.kind.state_type()

    def make(self, data: Mapping[str, Any]) -> Task[Any, Any, Any]:
        """The task of a stored record.

        Raises:
            TasksetError: the record does not fit the class.
        """
        if self.kind is None:
            try:
                return Task(StoredData.model_validate(data))
            except ValidationError:  # of another program, whose fields of our names are not ours
                return Task(StoredData.model_construct(**data))
        try:
            task = self.kind(self.kind.data_type().model_validate(data), self.config)
            return task if self._plugged is None else task.with_hooks(self._plugged)
        except (ValidationError, TasksetError) as error:
            raise TasksetError(
                f"the stored record does not fit {self.kind.data_type().__name__}: {error}"
            ) from error

    def hooks(self, task: Task[Any, Any, Any]) -> list[Hook]:
        """The class's own scoring: metrics, rewards and judges; none without a class."""
        if self.kind is None:
            return []
        if self._judges is None:  # of the config, the same for all tasks
            self._judges = task.hooks("judge")
        return [*task.hooks("metric"), *task.hooks("reward"), *self._judges]

    def state(self, stored: Any) -> Any:
        """The final state of a rollout, as it was stored or fresh.

        Raises:
            TasksetError: what was stored does not fit the class.
        """
        try:
            return self._state.model_validate(stored) if stored else self._state()
        except ValidationError as error:
            raise TasksetError(
                f"the stored state of a rollout does not fit {self._state.__name__}: {error}\n"
                "Give its new fields a default, or score without task="
            ) from error


class StoredHooks:
    """What scores stored rollouts: functions, methods of a task class, judges.

    Args:
        rewards: functions, marked by `@vf.reward` or `@vf.metric` or not, by name or in a list; also methods of
            the class that `tasks` has. None with such a class: all of its metrics, rewards and judges.
        judges: judges; one that is given several times is asked so often.

    Raises:
        HookError: a function takes something that no hook can get.
        ConfigError: something cannot be used here, or two give one score.
    """

    def __init__(self, tasks: StoredTasks, rewards: Any = None, judges: Any = None) -> None:
        self.tasks = tasks
        self.whole = rewards is None and tasks.kind is not None
        """Whether they are all that there is: scores of others are not kept."""
        self.repeats: dict[str, int] = {}
        self._fixed: list[Hook] = []
        self._methods: list[str] = []
        for name, function in _listed(rewards, "rewards"):
            self._add(name, function)
        for name, judge in _listed(judges, "judges"):
            self._ask(name, judge)

    def _add(self, name: str | None, function: Any) -> None:
        if isinstance(function, Judge):
            raise ConfigError(f"{function.label} stands in rewards=; give it in judges=")
        if not callable(function) or isinstance(function, type):
            raise ConfigError(f"rewards= takes functions, got {function!r:.80}")
        spec = spec_of(function)
        if spec is not None and not inspect.ismethod(function) and _takes_self(function):
            kind = self.tasks.kind
            if kind is None or inspect.getattr_static(kind, spec.name, None) is not function:
                owner = getattr(function, "__qualname__", "").rpartition(".")[0] or "the class"
                raise ConfigError(
                    f"{spec.kind} {spec.name} is a method of {owner}; give that class too: task={owner}"
                )
            self._methods.append(spec.name)
            return
        kind_of = "metric" if spec is not None and spec.kind == "metric" else "reward"
        self._put(Hook(plain_spec(function, kind_of, name), function), repeated=False)

    def _ask(self, name: str | None, judge: Any) -> None:
        if not isinstance(judge, Judge):
            raise ConfigError(f"judges= takes judges, got {judge!r:.80}; a function belongs into rewards=")
        problem = plugged_problem(type(judge))
        if problem:
            raise ConfigError(problem)
        hook = judge_hook(judge)
        check_signature(hook.function, "judge", PARAMETERS, method=False, owner=type(judge).__name__)
        judge.check()
        self._put(hook if name is None else Hook(replace(hook.spec, name=name), hook.function), repeated=True)

    def _put(self, hook: Hook, *, repeated: bool) -> None:
        name = hook.spec.name
        if encodable(name) != name:
            raise ConfigError(f"a score cannot be called {name!r}: it is no text that can be stored or shown")
        known = next((one for one in self._fixed if one.spec.name == name), None)
        if known is None:
            self._fixed.append(hook)
            self.repeats[name] = 1
        elif repeated and getattr(known.function, "__self__", None) is getattr(hook.function, "__self__", 0):
            self.repeats[name] += 1
        else:
            raise ConfigError(
                f"two of the new scores are called {name!r}; give them names: {{'{name}': ..., '{name}_2': ...}}"
            )

    def of(self, task: Task[Any, Any, Any]) -> list[Hook]:
        """The hooks for a task, metrics first, then rewards, then judges."""
        own = self.tasks.hooks(task)
        if not self.whole:
            own = [hook for hook in own if hook.spec.name in self._methods]
        names = {hook.spec.name for hook in self._fixed}
        hooks = [*(hook for hook in own if hook.spec.name not in names), *self._fixed]
        return [hook for kind in _KINDS for hook in hooks if hook.spec.kind == kind]

    @property
    def names(self) -> list[str]:
        """The names of those that were given one by one."""
        times = self.repeats
        fixed = [hook.spec.name for hook in self._fixed]
        return self._methods + [f"{name} x {times[name]}" if times[name] > 1 else name for name in fixed]


def _listed(given: Any, what: str) -> Iterable[tuple[str | None, Any]]:
    if given is None:
        return []
    if isinstance(given, Mapping):
        return [(str(name), one) for name, one in given.items()]
    if callable(given) or isinstance(given, Judge):
        return [(None, given)]
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise ConfigError(f"{what}= takes one, a list or a dict by name, got {given!r:.80}")
    return [(None, one) for one in given]


def _takes_self(function: Callable[..., Any]) -> bool:
    """Whether a function stands in a class and takes its object first."""
    spec = spec_of(function)
    names = parameters_of(function)
    return bool(names) and spec is not None and names[0] not in parameters(spec)


@dataclass(slots=True)
class Found:
    """What hooks gave for one rollout. A hook that failed has a signal without a value, and its error here."""

    rewards: dict[str, tuple[float | None, float]] = field(default_factory=dict)
    """By name: value and weight."""
    metrics: dict[str, float | None] = field(default_factory=dict)
    errors: list[ErrorInfo] = field(default_factory=list)
    silent: int = 0
    """Repeated questions that got no verdict while others of the same judge did."""

    def take(self, hook: Hook, scored: Sequence[Scoring], error: Exception | None) -> None:
        """Add what a hook gave, the mean over its repetitions."""
        if error is not None:
            self.errors.append(error_info(error, stage="scoring"))
        names = dict.fromkeys(name for one in scored for name in (*one.scores.rewards, *one.scores.metrics))
        for name in names:
            if name in self.rewards or name in self.metrics:
                self.errors.append(
                    error_info(
                        ScoringError(f"{hook.spec.kind} {hook.spec.name} gives {name!r} a second time")
                    )
                )
                continue
            both = [one.scores for one in scored]
            if any(name in scores.rewards for scores in both):
                values = [scores.rewards[name].value for scores in both if name in scores.rewards]
                self.rewards[name] = _mean(values), hook.spec.weight
                if len(scored) > 1:
                    self.metrics[f"{name}_se"] = _error(values)
            else:
                self.metrics[name] = _mean([scores.metrics.get(name) for scores in both])


def _mean(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return math.fsum(known) / len(known) if known else None


def _error(values: Sequence[float | None]) -> float | None:
    """Standard error of the mean of repeated answers, s / sqrt(n)."""
    known = [value for value in values if value is not None]
    if len(known) < 2:
        return None
    mean = math.fsum(known) / len(known)
    return math.sqrt(math.fsum((value - mean) ** 2 for value in known) / (len(known) - 1) / len(known))


def all_plain(hooks: Sequence[Hook], repeats: Mapping[str, int]) -> bool:
    """Whether `score_here` can run them."""
    return all(is_plain(hook.function) and repeats.get(hook.spec.name, 1) == 1 for hook in hooks)


def score_here(task: Task[Any, Any, Any], trace: Trace, hooks: Sequence[Hook]) -> Found:
    """Score a trace by functions that await nothing, in this thread. A failure of one leaves the others."""
    found = Found()
    for hook in hooks:
        run = Scoring(task, trace, None, [hook])
        error: Exception | None = None
        try:
            run.record(hook, run.call_here(hook))
        except (VfnbError, HookError) as failure:
            error = failure
        found.take(hook, [run], error)
    return found


async def score_there(
    task: Task[Any, Any, Any], trace: Trace, hooks: Sequence[Hook], repeats: Mapping[str, int]
) -> Found:
    """The same for any hooks, those of `repeats` several times at once."""
    found = Found()
    for hook in hooks:
        times = repeats.get(hook.spec.name, 1)
        traces = [trace] if times == 1 else [_twin(trace) for _ in range(times)]
        runs = [Scoring(task, one, None, [hook]) for one in traces]
        answers = await asyncio.gather(*(_one(run, hook) for run in runs), return_exceptions=True)
        failed = [one for one in answers if isinstance(one, BaseException)]
        for failure in failed:
            if not isinstance(failure, Exception):
                raise failure
        good = [run for run, one in zip(runs, answers, strict=True) if not isinstance(one, BaseException)]
        first = next((one for one in failed if isinstance(one, Exception)), None)
        found.silent += len(failed) if good else 0
        found.take(hook, good or runs[:1], None if good else first)
        if times > 1:
            trace.judge_calls += [call for one in traces for call in one.judge_calls]
            trace.dropped = next((one.dropped for one in traces if one.dropped), trace.dropped)
    return found


def _twin(trace: Trace) -> Trace:
    """The same trace for one of several scorings at once: each is held to leave it as it was."""
    own = {"rewards": dict(trace.rewards), "metrics": dict(trace.metrics), "judge_calls": []}
    return trace.model_copy(update=own)


async def _one(run: Scoring, hook: Hook) -> None:
    answer = await run.call(hook, None, None)
    if answer is not NOTHING:
        run.record(hook, answer)
