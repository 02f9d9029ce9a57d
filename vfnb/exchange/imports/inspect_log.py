"""Logs of Inspect (`.eval` and `.json`, log version 2): one sample, one trace.

The graph is made of the model events, each with its whole input; those of scorers become judge calls.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vfnb.exchange.imports.build import Episode, Lost, Recording, checked, ended, span
from vfnb.exchange.imports.fields import UNREADABLE, BadField, fault, get, need, seconds
from vfnb.exchange.imports.inspect_messages import Pool
from vfnb.exchange.imports.inspect_scores import take_scores
from vfnb.exchange.imports.inspect_spans import Spans
from vfnb.exchange.imports.report import Fault
from vfnb.exchange.imports.zips import Archive, header_of
from vfnb.trace import ErrorInfo, JudgeCall, ModelCall, TaskInfo, Trace
from vfnb.types import AssistantMessage, Usage
from vfnb.utils.plain import decode_json

__all__ = ["read_log"]

_FINISH = {"max_tokens": "length", "model_length": "length", "unknown": None}
_LIMITS = {
    "message": "max_turns",
    "turn": "max_turns",
    "time": "timeout",
    "working": "timeout",
    "token": "max_total_tokens",
    "cost": "max_cost",
    "context": "context_length",
}
_LONGEST = 16384  # characters of an error's message


def read_log(file: Path, name: str, lost: Lost) -> Iterator[Episode | Fault]:
    """A trace for each sample.

    Raises:
        ImportRefused: the file is no whole archive.
    """
    header = header_of(file)
    spec: dict[str, Any] = {}
    order: dict[str, int] = {}
    expected = 0
    try:
        spec = get(header, "eval", dict, {})
        dataset = get(spec, "dataset", dict, {}, "eval")
        epochs = get(get(spec, "config", dict, {}, "eval"), "epochs", int, 1, "eval.config")
        expected = get(dataset, "samples", int, 0, "eval.dataset") * epochs
        order = {str(id): at for at, id in enumerate(get(dataset, "sample_ids", list, [], "eval.dataset"))}
    except BadField as error:  # the samples can be read without
        yield fault(name, error)
    seen: set[str] = set()
    for where, record in _samples(file, name):
        if isinstance(record, Fault):
            yield record
            continue
        try:
            trace = checked(_sample(record, spec, order, lost))
            if trace.id in seen:
                raise BadField("uuid", f"{trace.id!r} is the id of an earlier sample")
        except UNREADABLE as error:
            yield fault(where, error)
            continue
        seen.add(trace.id)
        yield Episode(trace.id, [trace], trace.group_id or "", str(spec.get("task") or ""))
    if header.get("status") != "success":
        missing = expected - len(seen)
        lost.add(f"samples that are not in the log (its status is {header.get('status')!r})", max(0, missing))


def _samples(file: Path, name: str) -> Iterator[tuple[str, dict[str, Any] | Fault]]:
    if file.suffix != ".eval":
        record = decode_json(file.read_bytes())
        samples = record.get("samples") or ()
        if not isinstance(samples, list | tuple):
            yield name, Fault(name, "is no list", field="samples")
            return
        for at, sample in enumerate(samples):
            yield (
                name,
                sample if isinstance(sample, dict) else Fault(name, "is no object", field=f"samples[{at}]"),
            )
        return
    archive = Archive(file)
    for member in archive.names:
        if not (member.startswith("samples/") and member.endswith(".json")):
            continue
        where = f"{name}/{member}"
        try:
            sample = decode_json(archive.read(member))
        except ValueError as error:
            yield where, Fault(where, str(error), fix="the log may be cut; fetch it again")
            continue
        yield where, sample if isinstance(sample, dict) else Fault(where, "is no object")


def _sample(record: dict[str, Any], spec: dict[str, Any], order: dict[str, int], lost: Lost) -> Trace:
    id, epoch = record.get("id"), get(record, "epoch", int, 1)
    if not isinstance(id, str | int):
        raise BadField("id", "is missing, expected a string or a number")
    pool = Pool(record, lost)
    given = pool.resolved(record.get("input"))
    data = {
        "prompt": given if isinstance(given, str) else None,
        "input": None if isinstance(given, str) else given,
        **{key: pool.resolved(record.get(key)) for key in ("target", "choices", "metadata", "files")},
    }
    trace = Trace(
        id=get(record, "uuid", str, "")
        or f"{spec.get('eval_id') or spec.get('run_id') or 'eval'}-{id}-{epoch}",
        task=TaskInfo(
            idx=order.get(str(id), 0),
            name=str(id),
            key=str(id),
            data={key: value for key, value in data.items() if value not in (None, [], {})},
        ),
        rollout=max(0, epoch - 1),
        group_id=f"{spec.get('task', 'task')}/{id}",
    )
    spans = Spans(record)
    _calls(trace, record, pool, spans, lost)
    take_scores(trace, get(record, "scores", dict, {}), lost)
    _end(trace, record)
    started, completed = (seconds(record.get(key), key) for key in ("started_at", "completed_at"))
    scoring = spans.scoring_began or completed
    for stage, found in (
        ("agent", span(started, scoring)),
        ("scoring", span(spans.scoring_began, completed)),
    ):
        if found is not None:
            trace.timing[stage] = found
    for what in ("store", "timelines"):
        lost.add(f"the sample's {what}", bool(record.get(what)))
    return trace


def _calls(trace: Trace, record: dict[str, Any], pool: Pool, spans: Spans, lost: Lost) -> None:
    recording = Recording(trace)
    events = get(record, "events", list, [])
    for at, event in enumerate(events):
        path = f"events[{at}]"
        if not isinstance(event, dict) or event.get("event") != "model" or event.get("pending"):
            continue
        history = pool.history(event, path)
        reply, choice = _reply(event, pool, path, lost)
        call = _call(event, choice, path)
        scorer = spans.scorer(at)
        if scorer is not None:
            trace.judge_calls.append(_judge(call, history, reply, scorer))
            continue
        call.markers = spans.markers(at)
        tools = [
            pool.resolved(tool) for tool in get(event, "tools", list, [], path) if isinstance(tool, dict)
        ]
        recording.call(history, reply, call, tools=[_tool(tool) for tool in tools], path=path)
    final = [pool.said(one, f"messages[{at}]") for at, one in enumerate(get(record, "messages", list, []))]
    if not events:
        lost.add("model events of samples (calls are made from the messages)")
        for at, (message, _) in enumerate(final):
            if isinstance(message, AssistantMessage):
                recording.call(final[:at], message, ModelCall(), path=f"messages[{at}]")
    if trace.dag.calls and not recording.rest(final, anywhere=False):
        lost.add("final messages of samples that continue no recorded call")
    lost.add(
        "events other than model calls", max(0, len(events) - len(trace.dag.calls) - len(trace.judge_calls))
    )


def _reply(
    event: dict[str, Any], pool: Pool, path: str, lost: Lost
) -> tuple[AssistantMessage | None, dict[str, Any]]:
    output = get(event, "output", dict, {}, path)
    choices = [one for one in get(output, "choices", list, [], f"{path}.output") if isinstance(one, dict)]
    if event.get("error") is not None or not choices:
        return None, {}
    lost.add("further choices of a call", len(choices) - 1)
    lost.add("logprobs without token ids", choices[0].get("logprobs") is not None)
    where = f"{path}.output.choices[0].message"
    made, _ = pool.said(need(choices[0], "message", dict, f"{path}.output.choices[0]"), where)
    if not isinstance(made, AssistantMessage):
        raise BadField(where, f"has the role {made.role!r}, expected 'assistant'")
    return made, choices[0]


def _call(event: dict[str, Any], choice: dict[str, Any], path: str) -> ModelCall:
    output = get(event, "output", dict, {}, path)
    finish = choice.get("stop_reason")
    start = seconds(event.get("timestamp"), f"{path}.timestamp")
    call = ModelCall(
        model=get(event, "model", str, "", path),
        served_model=get(output, "model", str, "", f"{path}.output"),
        start=start,
        end=seconds(event.get("completed"), f"{path}.completed") or start,
        finish_reason=_FINISH.get(finish, finish) if isinstance(finish, str) else None,
        sampling_sent={
            key: value for key, value in get(event, "config", dict, {}, path).items() if value is not None
        },
        usage=_usage(output.get("usage"), f"{path}.output.usage"),
    )
    if event.get("error") is not None:
        message = str(event["error"])[:_LONGEST]
        call.error = ErrorInfo(type="ModelError", boundary="model", message=message, at=call.end)
        call.status, call.delivered = 502, False
    return call


def _usage(record: Any, path: str) -> Usage | None:
    """Providers count cached input in or out; the total always has it."""
    if not isinstance(record, dict):
        return None
    output = get(record, "output_tokens", int, 0, path)
    total = get(record, "total_tokens", int, 0, path)
    return Usage(
        prompt_tokens=max(get(record, "input_tokens", int, 0, path), total - output),
        completion_tokens=output,
        cached_tokens=get(record, "input_tokens_cache_read", int, 0, path),
        reasoning_tokens=get(record, "reasoning_tokens", int, 0, path),
        cost=record.get("total_cost") if isinstance(record.get("total_cost"), int | float) else None,
    )


def _judge(call: ModelCall, history: list[Any], reply: AssistantMessage | None, scorer: str) -> JudgeCall:
    return JudgeCall(
        judge=scorer,
        model=call.model,
        served_model=call.served_model,
        start=call.start,
        end=call.end,
        prompt="\n\n".join(message.text for message, _ in history)[:_LONGEST],
        reply="" if reply is None else reply.text[:_LONGEST],
        usage=call.usage,
        error=call.error,
    )


def _tool(tool: dict[str, Any]) -> dict[str, Any]:
    parameters = tool.get("parameters")
    return {
        "name": str(tool.get("name", "")),
        "description": str(tool.get("description") or ""),
        "parameters": parameters if isinstance(parameters, dict) else {},
    }


def _end(trace: Trace, record: dict[str, Any]) -> None:
    error = get(record, "error", dict, {})
    for retried in get(record, "error_retries", list, []):
        if isinstance(retried, dict):
            trace.attempts.append({"errors": [_error(retried).model_dump(mode="json")]})
    invalid = record.get("invalidation")
    if isinstance(invalid, dict):
        trace.dropped = str(invalid.get("reason") or "invalidated")
    if error:
        trace.errors = [_error(error)]
        ended(trace, failed=True)
        return
    limit = get(record, "limit", dict, {})
    kind = get(limit, "type", str, "", "limit")
    if limit:
        trace.info["limit"] = limit
    ended(trace, stop=_LIMITS.get(kind, kind) or None)


def _error(record: dict[str, Any]) -> ErrorInfo:
    message = str(record.get("message") or "")
    kind = message.partition("(")[0]
    known = kind.isidentifier() and len(kind) < 60
    return ErrorInfo(
        type=kind if known else "SampleError",
        boundary="model" if "Model" in kind and known else "vfnb",
        message=message[:_LONGEST],
        traceback=str(record["traceback"])[-4096:] if record.get("traceback") else None,
    )
