"""Starting a fork: a rollout again, replayed up to one of its messages, then live."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, TypeVar

from vfnb.agents.loading import find_harness
from vfnb.clients import AnyModel, ModelClient, Replay, resolve_model
from vfnb.errors import ConfigError, VfnbError
from vfnb.runs.forks import FOLDER, Fork
from vfnb.runs.model import ModelConfig
from vfnb.runs.source import Source, as_taskset
from vfnb.runs.start import prepare, stable_setting
from vfnb.runs.tree import EvalConfig
from vfnb.store import CONFIG_NAME
from vfnb.trace import Trace
from vfnb.types import SamplingConfig
from vfnb.utils.config import OBJECT, build, nearest
from vfnb.utils.ids import canonical_json, digest

if TYPE_CHECKING:
    from vfnb.runs.run import Run
    from vfnb.tasks import Task

__all__ = ["calls_before", "fork"]

T = TypeVar("T")

_SETTINGS = ("runtime", "limits", "timeouts", "scoring", "retries")
_DEFAULTS = {"concurrency": 64, "max_tokens": None, "max_cost": None, "fresh": False}


@dataclass(slots=True)
class _Origin:
    """What the rollouts of a run were made of."""

    tasks: Iterable[Task[Any, Any, Any]]
    harness: Any
    model: ModelClient | None
    sampling: SamplingConfig
    settings: dict[str, Any]


def fork(
    run: Run,
    trace: Trace | str | int,
    node: Any,
    n: int,
    *,
    model: AnyModel | None,
    sampling: SamplingConfig | dict[str, Any] | None,
    harness: Any,
    taskset: Source | None,
    **settings: Any,
) -> Fork:
    """`Run.fork` says what it takes, gives and raises."""
    for name in settings:
        if name not in (*_SETTINGS, *_DEFAULTS):
            match = nearest(name, (*_SETTINGS, *_DEFAULTS))
            raise ConfigError(f"fork() takes no {name!r}" + (f"; did you mean {match!r}?" if match else ""))
    original = _trace(run, trace)
    index = _node(original, node)
    origin = _origin(run, taskset, harness)
    task = _task(origin.tasks, original)
    client = resolve_model(model) if model is not None else origin.model or _loaded(run, "model", _model)
    given = build(SamplingConfig, sampling, path="sampling").given() if sampling is not None else {}
    merged = origin.sampling.model_copy(update=given) if given else origin.sampling
    prepared = prepare(
        [task],
        model=Replay(original, upto=calls_before(original, index), then=client),
        harness=harness if harness is not None else origin.harness,
        rollouts=n,
        n=None,
        sampling=merged,
        dir=None,
        resume=True,
        **_DEFAULTS | origin.settings | settings,
    )
    mark = digest(canonical_json(stable_setting(prepared.agent.identity())), size=4)
    folder = run.dir / FOLDER / f"{original.id[:8]}-{index}-{mark}"
    units = [replace(unit, group=original.group_id or unit.group) for unit in prepared.units]
    told = {"fork": {"trace": original.id, "node": index, "run": run.name}}
    return Fork(run, original, index, replace(prepared, units=units, origin=told).placed(folder).start())


def calls_before(trace: Trace, node: int) -> int:
    """How many calls a fork at a message replays: those through the one that gave it, or before the one that it
    was first said to."""
    found = trace.dag.nodes[node]
    return found.call + 1 if found.sampled else found.call


def _trace(run: Run, trace: Trace | str | int) -> Trace:
    traces = run.traces
    if isinstance(trace, Trace):
        return traces(trace.id)  # refuses one of another run
    if not isinstance(trace, str | int) or isinstance(trace, bool):
        raise ConfigError(f"trace={trace!r} is no trace of run {run.name}, no id and no position")
    if isinstance(trace, str):
        return traces(trace)
    if not -len(traces) <= trace < len(traces):
        raise ConfigError(f"run {run.name} has {len(traces)} traces, none at position {trace}")
    return traces[trace]


def _node(trace: Trace, node: Any) -> int:
    index = getattr(node, "index", node)
    count = len(trace.dag.nodes)
    if not isinstance(index, int) or isinstance(index, bool) or not -count <= index < count:
        raise ConfigError(
            f"node={node!r} is none of the {count} messages of trace {trace.id[:8]}; give one of trace.nodes, "
            "or its index"
        )
    return index % count


def _task(tasks: Iterable[Task[Any, Any, Any]], trace: Trace) -> Task[Any, Any, Any]:
    for task in tasks:
        if task.key == trace.task.key:
            return task
    raise ConfigError(
        f"there is no task {trace.task.key!r}, which trace {trace.id[:8]} is about, in this taskset; give the "
        "taskset= of the run"
    )


def _origin(run: Run, taskset: Source | None, harness: Any) -> _Origin:
    """From the objects that the run was started with, else from its config."""
    prepared = run._prepared
    if prepared is not None:
        agent = prepared.agent
        tasks = [unit.task for unit in prepared.units]
        if taskset is not None:
            tasks = list(as_taskset(taskset).resolve())
        kept = {name: getattr(agent, name) for name in _SETTINGS}
        return _Origin(tasks, agent.harness, agent.client, agent.sampling, kept)
    config = run.config
    tasks = _loaded(run, "taskset", _tasks) if taskset is None else list(as_taskset(taskset).resolve())
    made = harness if harness is not None else _loaded(run, "harness", _harness)
    sampling = build(SamplingConfig, config.get("sampling"), path="sampling")
    settings = {name: config.get(name) for name in _SETTINGS} | {"retries": config.get("retries", 0)}
    return _Origin(tasks, made, None, sampling, settings)


def _loaded(run: Run, what: str, load: Callable[[dict[str, Any]], T]) -> T:
    """A part of a run that another process has started, by its config.

    Raises:
        ConfigError: the config names nothing that can be loaded here.
    """
    try:
        return load(run.config)
    except VfnbError as error:
        raise ConfigError(
            f"{run.dir / CONFIG_NAME} cannot make the run's {what} again: {error}. Give {what}= as an object"
        ) from error


def _tasks(config: dict[str, Any]) -> list[Task[Any, Any, Any]]:
    named = {name: config[name] for name in ("taskset", "select") if name in config}
    return list(EvalConfig.load(**named).make_taskset().resolve())


def _harness(config: dict[str, Any]) -> Any:
    settings = dict(config.get("harness") or {"id": "null"})
    if str(settings["id"]).startswith(OBJECT):
        raise ConfigError(f"it was the Python object {settings['id'].removeprefix(OBJECT)!r}")
    found = find_harness(settings["id"])
    return found(build(found.config_type(), settings, path="harness")) if isinstance(found, type) else found


def _model(config: dict[str, Any]) -> ModelClient:
    made: ModelConfig = build(ModelConfig, config.get("model"), path="model")
    return made.client()
