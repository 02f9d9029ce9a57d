"""Running a task's metrics, rewards and judges, and the hooks around the agent."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any

from vfnb.errors import HookError, HookFailed, ScoringError, StageTimeout, VfnbError
from vfnb.tasks.calling import call_hook, call_plain, parameters_of
from vfnb.tasks.hooks import Hook, plain_spec
from vfnb.tasks.judges import Judge, JudgeScore
from vfnb.trace import Reward, Trace
from vfnb.trace.mending import held
from vfnb.utils.models import bare
from vfnb.utils.plain import encodable
from vfnb.utils.told import raised

if TYPE_CHECKING:
    from vfnb.runtimes import Runtime
    from vfnb.tasks.task import Task

__all__ = [
    "NOTHING",
    "Score",
    "Scores",
    "Scoring",
    "plain_hook",
    "run_finalize",
    "run_setup",
    "run_stage_verifier",
    "run_validate",
    "score",
    "scoring_skipped",
    "unscore",
]

Log = Callable[[str], object]
_ORDER = ("metric", "reward", "judge")
NOTHING: dict[str, float] = {}  # a judge recorded no reward: it stays None


@dataclass(frozen=True)
class Score:
    """One reward. `value` is None until, and unless, its function has given a number."""

    value: float | None
    weight: float = 1.0


@dataclass
class Scores:
    """What scoring found. Every signal starts as None, so a failed one is missing and never zero.

    Attributes:
        rewards: by name.
        metrics: by name.
        notes: warnings about the hooks themselves.
    """

    rewards: dict[str, Score] = field(default_factory=dict)
    metrics: dict[str, float | None] = field(default_factory=dict)
    notes: list[str] = field(default_factory=list)

    @property
    def reward(self) -> float | None:
        """Sum of value times weight; None if there are no rewards or one has no value."""
        values = [item.value for item in self.rewards.values()]
        if not values or None in values:
            return None
        return math.fsum(item.value * item.weight for item in self.rewards.values() if item.value is not None)


def plain_hook(function: Callable[..., Any], kind: str = "reward") -> Hook:
    """A function outside any class as a hook; decorated or not.

    Raises:
        HookError: it is a hook of another kind, or takes a wrong parameter.
    """
    return Hook(plain_spec(function, kind), function)


async def score(
    task: Task[Any, Any, Any],
    trace: Trace,
    runtime: Runtime | None = None,
    *,
    hooks: Sequence[Hook] | None = None,
    timeout: float | None = None,
    log: Log | None = None,
) -> Scores:
    """Run metrics, then rewards, then judges, each kind by priority and order, and record them on the trace.

    All names are checked before the first of them runs.

    Each result is on the trace before the next hook runs. The first failure ends the scoring. A trace that was
    ended by a stop with `skip_scoring` gets no scores; `trace.info["scoring_skipped"]` has the stop's name.

    Args:
        runtime: the box that hooks may ask for; None when there is none any more.
        hooks: what to run instead of the task's own.
        timeout: seconds for each hook.
        log: takes what hooks print.

    Raises:
        ScoringError: a hook raised (its exception is the cause), returned something that is not a finite number,
            gave a name that another one has, or needs a runtime and there is none.
        StageTimeout: a hook took too long.
    """
    if hooks is None:
        if scoring_skipped(task, trace):
            return Scores()
        hooks = [*task.hooks("metric"), *task.hooks("reward"), *task.hooks("judge")]
    hooks = [hook for kind in _ORDER for hook in hooks if hook.spec.kind == kind]
    run = Scoring(task, trace, runtime, hooks)
    for hook in hooks:
        found = await run.call(hook, timeout, log)
        if found is not NOTHING:
            run.record(hook, found)
    return run.scores


def unscore(trace: Trace) -> None:
    """Take away what an earlier scoring left on a trace, to score it anew."""
    trace.rewards.clear()
    trace.metrics.clear()
    trace.judge_calls.clear()
    trace.info.pop("unscored", None)
    if trace.info.pop("dropped_by", None):
        trace.dropped = None
    trace.errors = [error for error in trace.errors if error.boundary != "scoring"]


def scoring_skipped(task: Task[Any, Any, Any], trace: Trace) -> bool:
    """Whether the stop that ended the trace says that it is not to be scored; the trace gets the mark of it."""
    ended = trace.stop_condition
    if ended is None:
        return False
    for hook in task.hooks("stop"):
        if hook.spec.name == ended:
            if hook.spec.skip_scoring:
                trace.info["scoring_skipped"] = ended
                return True
            if trace.info.get("scoring_skipped") == ended:  # an earlier scoring saw it otherwise
                del trace.info["scoring_skipped"]
    return False


class Scoring:
    """The scoring of one trace, hook by hook. Signals of all hooks are None on the trace from the start."""

    def __init__(
        self, task: Task[Any, Any, Any], trace: Trace, runtime: Runtime | None, hooks: Sequence[Hook]
    ) -> None:
        self.trace = trace
        self.scores = Scores()
        self.values = _values(task, trace, runtime)
        self.owners: dict[str, str] = {}
        for hook in hooks:
            name = hook.spec.name
            self._claim(name, _label(hook))
            if runtime is None and "runtime" in parameters_of(hook.function):
                raise ScoringError(f"{_label(hook)} needs a runtime, and this trace has none any more")
            if hook.spec.kind == "metric":
                self.scores.metrics[name] = trace.metrics[name] = None
                continue
            self.scores.rewards[name] = Score(None, hook.spec.weight)
            trace.rewards[name] = _reward(None, hook.spec.weight)
            for signal in _signals(hook):
                self._claim(signal, _label(hook))
                self.scores.metrics[signal] = trace.metrics[signal] = None

    async def call(self, hook: Hook, timeout: float | None, log: Log | None) -> dict[str, float]:
        """The named numbers of one hook; `NOTHING` if a judge gave no reward."""
        label = _label(hook)
        with held(self.trace, label, ScoringError):
            result = await self._call(hook, label, timeout, log)
        return self._read(hook, label, result)

    def call_here(self, hook: Hook) -> dict[str, float]:
        """The same for a function that awaits nothing, in this thread and without a deadline."""
        label = _label(hook)
        with held(self.trace, label, ScoringError):
            try:
                result = call_plain(hook.function, self.values)
            except Exception as error:
                raise _raised(label, error) from error
        return self._read(hook, label, result)

    def _read(self, hook: Hook, label: str, result: Any) -> dict[str, float]:
        """What a hook returned, as named numbers."""
        if isinstance(result, JudgeScore):
            return self._judged(hook, result)
        if isinstance(result, dict):
            return {_name(key, label): _number(value, f"{label}[{key!r}]") for key, value in result.items()}
        return {hook.spec.name: _number(result, label)}

    async def _call(self, hook: Hook, label: str, timeout: float | None, log: Log | None) -> Any:
        try:
            return await call_hook(
                hook.function, self.values, label=label, timeout=timeout, log=log, blocked=self._note
            )
        except StageTimeout:
            raise
        except Exception as error:
            if hook.spec.kind == "judge" and isinstance(error, ScoringError):
                raise  # it names the judge already
            raise _raised(label, error) from error

    def record(self, hook: Hook, found: dict[str, float]) -> None:
        """Put the numbers of a hook on the trace."""
        own, label = hook.spec.name, _label(hook)
        for name in found:
            if name != own:
                self._claim(name, label)
        if hook.spec.kind != "metric":
            if own not in found:
                del self.scores.rewards[own], self.trace.rewards[own]
            for name, value in found.items():
                self.scores.rewards[name] = Score(value, hook.spec.weight)
                self.trace.rewards[name] = _reward(value, hook.spec.weight)
        else:
            if own not in found:
                del self.scores.metrics[own], self.trace.metrics[own]
            self.scores.metrics.update(found)
            self.trace.metrics.update(found)

    def _judged(self, hook: Hook, result: JudgeScore) -> dict[str, float]:
        """Record what a judge gave beside its reward."""
        trace, name, label = self.trace, hook.spec.name, _label(hook)
        for key, value in result.metrics.items():
            if self.owners.get(key) != label:
                self._claim(key, label)
            number = None if value is None else _number(value, f"{label}[{key!r}]")
            self.scores.metrics[key] = trace.metrics[key] = number
        if result.dropped is not None:
            trace.dropped = result.dropped
            trace.info.setdefault("dropped_by", []).append(name)
        if result.value is None:
            if result.dropped is None:
                trace.info.setdefault("unscored", {})[name] = result.unscored or "the judge gave no reward"
            return NOTHING
        return {name: _number(result.value, label)}

    def _claim(self, name: str, label: str) -> None:
        if name in self.owners:
            raise ScoringError(
                f"{label} and {self.owners[name]} both give the score {name!r}; rename one of them"
            )
        self.owners[name] = label

    def _note(self, line: str) -> None:
        self.scores.notes.append(line)
        self.trace.info.setdefault("warnings", []).append(line)


def _reward(value: float | None, weight: float) -> Reward:
    """Both are known to be finite."""
    return bare(Reward, {"value": value, "weight": weight})


def _raised(label: str, error: Exception) -> ScoringError:
    failure = ScoringError(f"{label} raised {raised(error)}")
    failure.retryable = isinstance(error, VfnbError) and error.retryable  # type: ignore[misc]
    return failure


def _values(task: Task[Any, Any, Any], trace: Trace, runtime: Runtime | None) -> dict[str, Any]:
    return {"trace": trace, "runtime": runtime, "task": task.data, "state": trace.state}


def _signals(hook: Hook) -> list[str]:
    judge = getattr(hook.function, "__self__", None)
    return judge.signals() if isinstance(judge, Judge) else []


def _label(hook: Hook) -> str:
    owner = getattr(hook.function, "__self__", None)
    if isinstance(owner, Judge):
        return owner.label
    return f"{hook.spec.kind} {type(owner).__name__ + '.' if owner is not None else ''}{hook.spec.name}"


def _name(key: Any, label: str) -> str:
    if not isinstance(key, str) or not key:
        raise ScoringError(f"{label} returned a dict with the key {key!r}; keys are the scores' names")
    return encodable(key)


def _number(value: Any, label: str) -> float:
    item = getattr(value, "item", None)
    if not isinstance(value, Real) and callable(item) and getattr(value, "shape", None) == ():
        value = item()  # a numpy or torch scalar
    if inspect.iscoroutine(value):
        value.close()
        raise ScoringError(f"{label} returned the coroutine {value.__qualname__}; an `await` is missing")
    if not isinstance(value, Real | Decimal):
        fix = "a `return` is missing" if value is None else "return a float, or a dict of named floats"
        raise ScoringError(f"{label} returned {value!r}, which is not a number; {fix}")
    try:
        number = float(value)
    except (OverflowError, ValueError):  # an integer or Decimal beyond floats, a signalling NaN
        number = math.nan
    if not math.isfinite(number):
        raise ScoringError(
            f"{label} returned {str(value)[:80]}; return a finite number, or raise if there is no score"
        )
    return number


async def run_setup(
    task: Task[Any, Any, Any],
    trace: Trace,
    runtime: Runtime | None = None,
    *,
    timeout: float | None = None,
    log: Log | None = None,
) -> None:
    """Give the trace a fresh state and call the task's `setup`, if it has one. What it raises is passed on."""
    trace.state = task.make_state()
    await _lifecycle("setup", task, trace, runtime, timeout, log)


async def run_finalize(
    task: Task[Any, Any, Any],
    trace: Trace,
    runtime: Runtime | None = None,
    *,
    timeout: float | None = None,
    log: Log | None = None,
) -> None:
    """Call the task's `finalize`, if it has one. What it raises is passed on."""
    await _lifecycle("finalize", task, trace, runtime, timeout, log)


async def run_stage_verifier(
    task: Task[Any, Any, Any],
    trace: Trace,
    runtime: Runtime | None = None,
    *,
    timeout: float | None = None,
    log: Log | None = None,
) -> None:
    """Call the task's `stage_verifier`, if it has one: it prepares the fresh box of isolated scoring."""
    await _lifecycle("stage_verifier", task, trace, runtime, timeout, log)


async def run_validate(
    task: Task[Any, Any, Any],
    runtime: Runtime,
    trace: Trace | None = None,
    *,
    timeout: float | None = None,
    log: Log | None = None,
) -> bool | None:
    """Call the task's gold check: True or False, None if it has none or it cannot tell.

    Args:
        trace: the check's own trace, with the state that `setup` left; a new one if not given.

    Raises:
        HookError: it returned something else.
    """
    if trace is None:
        trace = Trace()
        trace.state = task.make_state()
    result = await _lifecycle("validate", task, trace, runtime, timeout, log)
    if result is not None and not isinstance(result, bool):
        raise HookError(f"{type(task).__name__}.validate returned {result!r}; return True, False or None")
    return result


async def _lifecycle(
    name: str,
    task: Task[Any, Any, Any],
    trace: Trace,
    runtime: Runtime | None,
    timeout: float | None,
    log: Log | None,
) -> Any:
    method = getattr(task, name, None)
    if method is None:
        return None
    label = f"{type(task).__name__}.{name}"

    def note(line: str) -> None:
        trace.info.setdefault("warnings", []).append(line)

    values = _values(task, trace, runtime)
    with held(trace, label, HookFailed):
        return await call_hook(method, values, label=label, timeout=timeout, log=log, blocked=note)
