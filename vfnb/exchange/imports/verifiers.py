"""Episode records of verifiers (0.4.0 and the version that prime-rl pins), one JSON object per line.

The format is that of its own writer, `traces.jsonl`: episodes with traces, whose nodes are a tree of messages.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from vfnb.exchange.imports.build import Episode, Lost, checked, ended, span
from vfnb.exchange.imports.fields import UNREADABLE, BadField, fault, get, message, need, numbers, seconds
from vfnb.exchange.imports.report import Fault
from vfnb.exchange.records import task_hash
from vfnb.trace import ErrorInfo, JudgeCall, MessageGraph, ModelCall, Reward, TaskInfo, Trace
from vfnb.trace.identity import content
from vfnb.trace.records import NodeRecord, TokenRecord
from vfnb.types import Message, Usage
from vfnb.utils.plain import decode_json

__all__ = ["read_lines"]

_BOUNDARIES = {
    "ProviderError": "model",
    "HarnessError": "harness",
    "ToolsetError": "tool",
    "SandboxError": "runtime",
    "EnvError": "lifecycle",
    "TaskError": "user",
}
_STAGES = ("boot", "setup", "agent", "finalize", "scoring")
_NO_PLACE = {
    "advantages": "advantages (run.samples() computes them from the rewards)",
    "reference_logprobs": "reference logprobs",
    "trainer_logprobs": "logprobs of the trainer",
    "entropies": "entropies of the trainer",
    "loss_weights": "loss weights",
}


def read_lines(path: Path, name: str, lost: Lost) -> Iterator[Episode | Fault]:
    """The episodes of a file; for each record that is damaged, what is wrong with it.

    Args:
        path: the file.
        name: how faults call it.
        lost: counts what has no place in a run.
    """
    seen: set[str] = set()
    rollouts = Counter[tuple[str, str]]()
    with path.open("rb") as file:
        for number, line in enumerate(file, 1):
            if not line.strip():
                continue
            try:
                record = decode_json(line)
            except ValueError as error:
                yield Fault(name, f"is no JSON: {error}", number, fix="the line may be cut; write it again")
                continue
            yield from _episode(record, name, number, seen, rollouts, lost)


def _episode(
    record: Any, name: str, line: int, seen: set[str], rollouts: Counter[tuple[str, str]], lost: Lost
) -> Iterator[Episode | Fault]:
    if not isinstance(record, dict):
        yield Fault(name, "is no JSON object", line)
        return
    if "nodes" in record and "traces" not in record:  # a bare trace, as early writers have it
        record = {"id": record.get("id"), "task": record.get("task"), "traces": [record]}
        record["ok"] = record["traces"][0].get("ok", False)
    try:
        id = need(record, "id", str)
        group = need(record["group"], "id", str, "group") if record.get("group") else ""
        whole = get(record, "ok", bool, False)
        errors = _errors(record, "")
        entries = need(record, "traces", list)
        if not entries:
            entries = [_nothing(record, id, errors)]
        env = get(record, "env", dict, {})
    except UNREADABLE as error:
        yield fault(name, error, line)
        return
    episode = Episode(id, [], group, str(env.get("name") or env.get("id") or ""), {})
    if errors:
        episode.info["errors"] = [error.model_dump(mode="json") for error in errors]
    for place, entry in enumerate(entries):
        where = f"traces[{place}]"
        try:
            if not isinstance(entry, dict):
                raise BadField(where, "is no object")
            trace = checked(_trace(entry, where, lost))
            if trace.id in seen:
                raise BadField(f"{where}.id", f"{trace.id!r} is the id of an earlier trace")
        except UNREADABLE as error:
            yield fault(name, error, line)
            continue
        seen.add(trace.id)
        trace.episode_id, trace.group_id = id, group or None
        trace.ok = bool(trace.ok) and (whole or (len(entries) == 1 and not errors))
        trace.errors += [error for error in errors if error not in trace.errors]
        key = (trace.task.key, trace.agent)
        if "vfnb" not in get(entry, "info", dict, {}, where):
            trace.rollout = rollouts[key]
        rollouts[key] += 1
        episode.traces.append(trace)
    if episode.traces:
        yield episode


def _nothing(record: dict[str, Any], id: str, errors: list[ErrorInfo]) -> dict[str, Any]:
    """The trace of an episode that never had one."""
    task = need(record, "task", dict)
    return {"id": id, "task": task, "nodes": [], "ok": False, "is_completed": bool(errors)}


def _trace(record: dict[str, Any], path: str, lost: Lost) -> Trace:
    info = dict(get(record, "info", dict, {}, path))
    ours = info.pop("vfnb", None)
    ours = ours if isinstance(ours, dict) else {}
    trace = Trace(
        id=need(record, "id", str, path),
        task=_task(need(record, "task", dict, path), ours, f"{path}.task"),
        agent=get(get(record, "agent", dict, {}, path), "name", str, "agent", f"{path}.agent"),
        answer=get(record, "root_reply", str, "", path) or None,
        rollout=get(ours, "rollout", int, 0, f"{path}.info.vfnb"),
        info=info,
        tags=[str(tag) for tag in get(ours, "tags", list, [], path)],
        notes=[str(note) for note in get(ours, "notes", list, [], path)],
    )
    trace._dag = _graph(record, path, lost)
    trace.rewards = {
        str(name): _reward(value, f"{path}.rewards.{name}")
        for name, value in get(record, "rewards", dict, {}, path).items()
    }
    for name in (metrics := get(record, "metrics", dict, {}, path)):
        trace.metrics[name] = None if metrics[name] is None else need(metrics, name, float, f"{path}.metrics")
    trace.errors = _errors(record, path)
    _timing(trace, get(record, "timing", dict, {}, path), f"{path}.timing")
    _judges(trace, record, path)
    _end(trace, record, path)
    if ours.get("end_state") in ("completed", "stopped", "error", "cancelled", "dropped"):
        trace.end_state = ours["end_state"]
        trace.dropped = get(ours, "dropped", str, "", f"{path}.info.vfnb") or None
        trace.stop_condition = get(record, "stop_condition", str, "", path) or None
    for what in ("request_rewrites", "response_rewrites"):
        lost.add("what intercepts changed (only their names are on record)", len(record.get(what) or []))
    return trace


def _end(trace: Trace, record: dict[str, Any], path: str) -> None:
    stop = get(record, "stop_condition", str, "", path)
    done = get(record, "is_completed", bool, False, path)
    if get(record, "ok", bool, False, path):
        named = {"agent_completed": "", "agent_timeout": "timeout"}.get(stop, stop)
        ended(trace, stop=named or None)
    elif trace.errors or done:
        if not trace.errors:
            trace.errors = [
                ErrorInfo(type=stop or "Unknown", boundary="lifecycle", message=f"ended by {stop!r}")
            ]
        ended(trace, failed=True)
    else:
        ended(trace, cancelled=True)


def _task(record: dict[str, Any], ours: Mapping[str, Any], path: str) -> TaskInfo:
    data = need(record, "data", dict, path)
    hash = get(record, "hash", str, "", path)
    if hash and task_hash(data) != hash:
        raise BadField(
            f"{path}.hash", "is not that of the data: the record was changed, or saved by another version"
        )
    key = ours.get("task_key") or get(record, "key", str, "", path) or hash or task_hash(data)
    name = data.get("name")
    idx = data.get("idx")
    return TaskInfo(
        idx=idx if isinstance(idx, int) else 0,
        name=None if name is None else str(name),
        key=str(key),
        data=data,
    )


def _reward(value: Any, path: str) -> Reward:
    if value is None:
        return Reward(value=None)
    if not isinstance(value, dict):
        raise BadField(path, "is no object of score and weight")
    try:
        return Reward(value=need(value, "score", float, path), weight=get(value, "weight", float, 1.0, path))
    except ValueError as error:
        raise BadField(path, "is not finite") from error


def _errors(record: dict[str, Any], path: str) -> list[ErrorInfo]:
    where = f"{path}.errors" if path else "errors"
    return [_error(entry, f"{where}[{at}]") for at, entry in enumerate(get(record, "errors", list, [], path))]


def _error(entry: Any, path: str) -> ErrorInfo:
    if not isinstance(entry, dict):
        raise BadField(path, "is no object")
    kind = need(entry, "type", str, path)
    return ErrorInfo(
        type=kind,
        boundary=_BOUNDARIES.get(kind, "vfnb"),
        message=get(entry, "message", str, "", path),
        status=get(entry, "status_code", int, 0, path) or None,
        traceback=get(entry, "traceback", str, "", path) or None,
    )


def _timing(trace: Trace, record: dict[str, Any], path: str) -> None:
    for name in _STAGES:
        entry = get(record, name, dict, {}, path)
        start, end = (seconds(entry.get(key), f"{path}.{name}.{key}") for key in ("start", "end"))
        if (found := span(start, end)) is not None:
            trace.timing[name] = found


def _judges(trace: Trace, record: dict[str, Any], path: str) -> None:
    calls = trace.info.get("judge_calls")
    for entry in calls if isinstance(calls, list) else ():
        answer = entry.get("response") if isinstance(entry, dict) else None
        if isinstance(answer, dict) and isinstance(answer.get("message"), dict):
            trace.judge_calls.append(
                JudgeCall(
                    judge=str(entry.get("name", "")),
                    prompt=str(entry.get("request", "")),
                    reply=str(answer["message"].get("content") or ""),
                    usage=_usage(answer["usage"], path) if isinstance(answer.get("usage"), dict) else None,
                )
            )
    if not trace.judge_calls:
        for usage in get(record, "extra_usage", list, [], path):
            trace.judge_calls.append(JudgeCall(judge="", usage=_usage(usage, f"{path}.extra_usage")))


# The graph


def _graph(record: dict[str, Any], path: str, lost: Lost) -> MessageGraph:
    entries = get(record, "nodes", list, [], path)
    calls = [
        _call(entry, f"{path}.calls[{at}]", len(entries))
        for at, entry in enumerate(get(record, "calls", list, [], path))
    ]
    parents: list[int] = []
    sampled: list[bool] = []
    contents: dict[bytes, bytes] = {}
    keys: list[bytes] = []
    tokens: list[TokenRecord] = []
    for at, entry in enumerate(entries):
        where = f"{path}.nodes[{at}]"
        if not isinstance(entry, dict):
            raise BadField(where, "is no object")
        parent = get(entry, "parent", int, -1, where)
        if not -1 <= parent < at:
            raise BadField(f"{where}.parent", f"is {parent}, expected an earlier node")
        parents.append(parent)
        sampled.append(get(entry, "sampled", bool, False, where))
        said = _message(need(entry, "message", dict, where), f"{where}.message")
        if sampled[-1] and said.role != "assistant":
            raise BadField(f"{where}.sampled", f"is true on a message of role {said.role}")
        key, contents[key] = content(said)
        keys.append(key)
        if entry.get("token_ids"):
            tokens.append(_tokens(entry, at, where, sampled=sampled[-1]))
        for name, what in _NO_PLACE.items():
            lost.add(what, entry.get(name) is not None)
        lost.add("links between calls (kept under info)", len(entry.get("semantic_parents") or []))
    for at, call in enumerate(calls):
        if call.reply_node is not None and not sampled[call.reply_node]:
            raise BadField(f"{path}.calls[{at}].node", f"is {call.reply_node}, which no model sampled")
    lost.add("digits of logprobs after the fourth, which its writer rounds off", _rounded(record, entries))
    calls = _with_replies(calls, [at for at, one in enumerate(sampled) if one], parents)
    owner = _owners(
        parents, {call.reply_node: at for at, call in enumerate(calls) if call.reply_node is not None}
    )
    nodes = [
        NodeRecord(at, parents[at], keys[at], owner[at], sampled=sampled[at]) for at in range(len(entries))
    ]
    graph = MessageGraph()
    tools = get(record, "tools", list, [], path)
    digest = graph.add_tools([tool for tool in tools if isinstance(tool, dict) and "name" in tool])
    for at, call in enumerate(calls):
        call.index, call.tools = at, digest if call.reply_node is not None else None
    listed = {bytes.fromhex(name): raw for name, raw in graph.tools.items()}
    return MessageGraph.restore(nodes, contents, calls, tokens, listed)


def _rounded(record: dict[str, Any], entries: list[Any]) -> int:
    """How many replies have logprobs of at most four decimals from a writer that rounds."""
    version = record.get("verifiers")
    if not isinstance(version, dict) or str(version.get("version", "")).startswith("vfnb"):
        return 0
    values = [entry.get("logprobs") for entry in entries]
    return sum(bool(each) and all(round(value, 4) == value for value in each) for each in values)


def _message(record: dict[str, Any], path: str) -> Message:
    kept = {key: value for key, value in record.items() if value is not None}
    return message(kept, path)


def _call(entry: Any, path: str, nodes: int) -> ModelCall:
    if not isinstance(entry, dict):
        raise BadField(path, "is no object")
    node = get(entry, "node", int, -1, path)
    if node >= nodes:
        raise BadField(f"{path}.node", f"is {node}, but there are {nodes} nodes")
    time = get(entry, "time", dict, {}, path)
    usage = entry.get("usage")
    return ModelCall(
        model=get(entry, "model", str, "", path),
        dialect=_dialect(get(entry, "endpoint", str, "", path)),
        sampling_sent={
            key: value for key, value in get(entry, "sampling", dict, {}, path).items() if value is not None
        },
        finish_reason=get(entry, "finish_reason", str, "", path) or None,
        start=seconds(time.get("start"), f"{path}.time.start"),
        end=seconds(time.get("end"), f"{path}.time.end"),
        reply_node=node if node >= 0 else None,
        usage=_usage(usage, f"{path}.usage") if usage is not None else None,
        error=_error(entry["error"], f"{path}.error") if entry.get("error") is not None else None,
        status=_status(entry),
        replayed=get(entry, "replayed", bool, False, path),
    )


def _status(entry: dict[str, Any]) -> int:
    error = entry.get("error")
    status = error.get("status_code") if isinstance(error, dict) else None
    return status if isinstance(status, int) else 502 if error else 200


def _dialect(endpoint: str) -> str:
    for name in ("chat", "responses", "messages"):
        if name in endpoint:
            return name
    return endpoint


def _usage(record: Any, path: str) -> Usage:
    """Its prompt tokens leave out the cached ones, ours do not."""
    if not isinstance(record, dict):
        raise BadField(path, "is no object")
    cached = get(record, "cached_input_tokens", int, 0, path)
    return Usage(
        prompt_tokens=get(record, "prompt_tokens", int, 0, path) + cached,
        completion_tokens=get(record, "completion_tokens", int, 0, path),
        cached_tokens=cached,
        reasoning_tokens=get(record, "reasoning_tokens", int, 0, path),
        cost=get(record, "cost", float, 0.0, path) if record.get("cost") is not None else None,
    )


def _with_replies(calls: list[ModelCall], sampled: list[int], parents: list[int]) -> list[ModelCall]:
    """The calls with their prompts, and one for each reply that has none, in the order of the replies."""
    known = {call.reply_node for call in calls}
    for node in sampled:
        if node not in known:
            later = (
                at for at, one in enumerate(calls) if one.reply_node is not None and one.reply_node > node
            )
            calls.insert(next(later, len(calls)), ModelCall(reply_node=node))
    for call in calls:
        if call.reply_node is not None:
            call.prompt_node = parents[call.reply_node]
    return calls


def _owners(parents: list[int], replies: Mapping[int | None, int]) -> list[int]:
    """The call that brought each node: a reply's own, else that of the first reply below it, else the one above."""
    owner = [replies.get(at, -1) for at in range(len(parents))]
    for at in range(len(parents) - 1, -1, -1):
        above = parents[at]
        if above >= 0 and owner[at] >= 0 and above not in replies:
            owner[above] = owner[at] if owner[above] < 0 else min(owner[above], owner[at])
    for at, above in enumerate(parents):
        if owner[at] < 0:
            owner[at] = owner[above] if above >= 0 else 0
    return owner


def _tokens(entry: dict[str, Any], node: int, path: str, *, sampled: bool) -> TokenRecord:
    import numpy as np

    from vfnb.trace.tokens import flips_of

    ids = numbers(entry, "token_ids", "int32", path)
    mask = numbers(entry, "mask", "bool", path)
    if not len(mask):
        mask = np.zeros(len(ids), np.bool_)
    if len(mask) != len(ids):
        raise BadField(f"{path}.mask", f"has {len(mask)} values for {len(ids)} tokens")
    trained = np.flatnonzero(mask)
    if len(trained) and not sampled:
        raise BadField(f"{path}.mask", "is true on a message that the model did not sample")
    given = numbers(entry, "logprobs", "float32", path)
    if len(given) != len(trained):
        raise BadField(f"{path}.logprobs", f"has {len(given)} values for {len(trained)} sampled tokens")
    if not np.isfinite(given).all():
        raise BadField(f"{path}.logprobs", "has a value that is not finite")
    lead = int(trained[0]) if len(trained) else len(ids)
    logprobs = np.zeros(len(ids) - lead, np.float32)
    logprobs[trained - lead] = given
    inside = mask[lead:]
    body = numbers(entry, "is_content", "bool", path)
    if len(body) not in (0, len(ids)):
        raise BadField(f"{path}.is_content", f"has {len(body)} values for {len(ids)} tokens")
    return TokenRecord(
        node=node,
        lead=lead,
        ids=ids.tobytes(),
        logprobs=logprobs.tobytes(),
        mask=None if inside.all() else inside.tobytes(),
        content=np.asarray(flips_of(body if len(body) else mask), np.int32).tobytes(),
    )
