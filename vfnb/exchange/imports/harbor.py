"""Trials of Harbor: rewards and errors from `result.json`, messages from the ATIF documents beside it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vfnb.exchange.imports.atif import Documents, fill
from vfnb.exchange.imports.build import Episode, Lost, checked, ended, span
from vfnb.exchange.imports.fields import UNREADABLE, BadField, fault, get, need, seconds
from vfnb.exchange.imports.finding import Found
from vfnb.exchange.imports.report import Fault
from vfnb.trace import ErrorInfo, Reward, TaskInfo, Trace
from vfnb.utils.plain import decode_json

__all__ = ["read_trials"]

_STAGES = {
    "boot": "environment_setup",
    "setup": "agent_setup",
    "agent": "agent_execution",
    "scoring": "verifier",
}
_VALID = {"AgentTimeoutError", "NonZeroAgentExitCodeError", "ContextWindowExceededError"}
"""Errors of the agent after which the verifier's rewards count (Harbor 0.26), if the record does not say."""


def read_trials(found: Found, lost: Lost) -> Iterator[Episode | Fault]:
    """A trace for each trial."""
    rollouts = Counter[str]()
    seen: set[str] = set()
    for file in found.files:
        if file.name != "result.json" or (record := _record(file)) is None:
            continue
        name = found.name(file)
        if isinstance(record, Fault):
            yield record
            continue
        try:
            trace = _trial(record)
            if trace.id in seen:
                raise BadField("id", f"{trace.id!r} is the id of an earlier trial")
            yield from _messages(trace, file.parent, found, lost)
            checked(trace)
        except UNREADABLE as error:
            yield fault(name, error)
            continue
        seen.add(trace.id)
        trace.rollout = rollouts[trace.task.key]
        rollouts[trace.task.key] += 1
        yield Episode(trace.id, [trace], trace.task.key, str(record.get("source") or ""))


def _record(file: Path) -> dict[str, Any] | Fault | None:
    """A trial's record; None for that of a job."""
    try:
        record = decode_json(file.read_bytes())
    except ValueError as error:
        return Fault(file.parent.name + "/" + file.name, f"is no JSON: {error}")
    return record if isinstance(record, dict) and "trial_name" in record else None


def _trial(record: dict[str, Any]) -> Trace:
    task = need(record, "task_name", str)
    data = {
        "task_id": record.get("task_id"),
        "source": record.get("source"),
        "checksum": record.get("task_checksum"),
    }
    trace = Trace(
        id=get(record, "id", str, "") or need(record, "trial_name", str),
        task=TaskInfo(
            key=task, name=task, data={key: value for key, value in data.items() if value is not None}
        ),
        info={
            "trial": need(record, "trial_name", str),
            **{name: record[name] for name in ("agent_info", "agent_result") if record.get(name) is not None},
        },
    )
    trace.group_id = task
    steps = [step for step in get(record, "step_results", list, []) if isinstance(step, dict)]
    if steps:
        trace.info["steps"] = steps
    trace.errors = [error for part in (record, *steps) if (error := _error(part)) is not None]
    _rewards(trace, get(get(record, "verifier_result", dict, {}), "rewards", dict, {}, "verifier_result"))
    for stage, name in _STAGES.items():
        times = get(record, name, dict, {})
        found = span(
            seconds(times.get("started_at"), f"{name}.started_at"),
            seconds(times.get("finished_at"), f"{name}.finished_at"),
        )
        if found is not None:
            trace.timing[stage] = found
    _end(trace, record)
    return trace


def _rewards(trace: Trace, values: dict[str, Any]) -> None:
    """The key `reward`, or the only key, is the reward; the other keys are metrics."""
    main = "reward" if "reward" in values else next(iter(values)) if len(values) == 1 else None
    for name in values:
        value = None if values[name] is None else need(values, name, float, "verifier_result.rewards")
        if name == main:
            trace.rewards[name] = Reward(value=value)
        else:
            trace.metrics[name] = value


def _error(record: dict[str, Any]) -> ErrorInfo | None:
    found = get(record, "exception_info", dict, {})
    if not found:
        return None
    kind = get(found, "exception_type", str, "Exception", "exception_info")
    return ErrorInfo(
        type=kind,
        boundary="harness"
        if "Agent" in kind
        else "scoring"
        if "Verifier" in kind or "Reward" in kind
        else "runtime",
        message=get(found, "exception_message", str, "", "exception_info"),
        traceback=get(found, "exception_traceback", str, "", "exception_info") or None,
        at=seconds(found.get("occurred_at"), "exception_info.occurred_at"),
    )


def _end(trace: Trace, record: dict[str, Any]) -> None:
    kinds = {error.type for error in trace.errors}
    scored = bool(trace.rewards or trace.metrics)
    valid = get(record, "reward_valid", bool, scored and kinds <= _VALID)
    stop = (
        "timeout"
        if "AgentTimeoutError" in kinds
        else "context_length"
        if "ContextWindowExceededError" in kinds
        else None
    )
    if valid:
        ended(trace, stop=stop)
    elif trace.errors or record.get("finished_at"):
        if not trace.errors:
            trace.errors = [
                ErrorInfo(type="NoReward", boundary="scoring", message="the verifier gave no valid reward")
            ]
        ended(trace, failed=True)
    else:
        ended(trace, cancelled=True)


def _messages(trace: Trace, folder: Path, found: Found, lost: Lost) -> Iterator[Fault]:
    """What the agent said, if it wrote it down; a damaged document does not cost the trial its rewards."""
    files = [
        file for file in found.files if file.is_relative_to(folder) and file.name.startswith("trajectory")
    ]
    documents = Documents(found.root, lost)
    for file in files:
        documents.add(file)
    yield from documents.faults
    for file in documents.roots():
        try:
            fill(trace, documents, file, documents.read(file))
        except UNREADABLE as error:
            yield fault(found.name(file), error, fix="the trial is there without these messages")
    if not files:
        lost.add("messages of trials whose agent wrote no trajectory.json")
