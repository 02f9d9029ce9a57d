"""Episode records: one JSON object per line, full precision, as prime-rl and verifiers read them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vfnb.exchange.records import NodeRow, task_record
from vfnb.utils.plain import decode_json, plain

if TYPE_CHECKING:
    from vfnb.trace import ErrorInfo, ModelCall, Trace

__all__ = ["episode_record"]

STAGES = ("boot", "setup", "agent", "finalize", "scoring")


def episode_record(
    episode: str,
    traces: Sequence[tuple[Trace, list[NodeRow]]],
    *,
    env: str,
    advantages: Mapping[str, float],
    agents: Sequence[str] | None,
    whole: bool = True,
) -> dict[str, Any]:
    """The record of one episode, keys with null left out.

    Args:
        episode: its id.
        traces: its traces with their nodes.
        env: the environment's name.
        advantages: by trace, as far as known.
        agents: roles under training; None for all.
        whole: whether all its traces are there; without, it is not `ok`.
    """
    first = traces[0][0]
    task = task_record(first)
    records = [
        _trace(trace, rows, task, advantages.get(trace.id), agents is None or trace.agent in agents)
        for trace, rows in traces
    ]
    return _thin(
        {
            "id": episode,
            "env": {"id": env, "name": env},
            "task": task,
            "group": {"id": first.group_id} if first.group_id else None,
            "ok": whole and all(trace.ok is True for trace, _ in traces),
            "errors": [],
            "traces": records,
        }
    )


def _trace(
    trace: Trace, rows: list[NodeRow], task: Mapping[str, Any], advantage: float | None, trainable: bool
) -> dict[str, Any]:
    from vfnb import __version__

    calls = trace.calls
    return _thin(
        {
            "version": 1,
            "id": trace.id,
            "verifiers": {"version": f"vfnb {__version__}"},
            "task": task,
            "agent": {
                "config": {},
                "name": trace.agent,
                "trainable": trainable and trace.dropped is None,
            },
            "root_reply": trace.answer,
            "tools": _tools(trace),
            "nodes": [_node(row, calls, advantage) for row in rows],
            "calls": [_call(call) for call in calls if call.reply_node is not None or call.error is not None],
            "rewards": {
                name: None if reward.value is None else {"score": reward.value, "weight": reward.weight}
                for name, reward in trace.rewards.items()
            },
            "metrics": dict(trace.metrics),
            "info": {**plain(trace.info), "vfnb": _ours(trace, __version__)},
            "is_completed": trace.is_completed,
            "ok": trace.ok is True,
            "stop_condition": trace.stop_condition,
            "errors": [_error(error) for error in trace.errors],
            "timing": _timing(trace),
        }
    )


def _ours(trace: Trace, version: str) -> dict[str, Any]:
    """What the format has no place for."""
    return {
        "version": version,
        "rollout": trace.rollout,
        "task_key": trace.task.key,
        "end_state": trace.end_state,
        "dropped": trace.dropped,
        "tags": trace.tags,
        "notes": trace.notes,
    }


def _node(row: NodeRow, calls: Sequence[ModelCall], advantage: float | None) -> dict[str, Any]:
    call = calls[row.call] if row.call < len(calls) else None
    node: dict[str, Any] = {
        "parent": row.parent,
        "message": _message(row),
        "sampled": row.sampled,
        "timestamp": None if call is None else call.end if row.sampled else call.start,
    }
    if row.ids is not None:
        logprobs = row.logprobs.tolist()
        node |= {"token_ids": row.ids.tolist(), "mask": row.mask.tolist(), "logprobs": logprobs}
        if advantage is not None and logprobs:
            node["advantages"] = [advantage] * len(logprobs)
    return _thin(node)


def _message(row: NodeRow) -> dict[str, Any]:
    """In the flat form: `tool_calls[{id, name, arguments}]`."""
    record = _thin(decode_json(row.raw))
    if record["role"] == "assistant":
        calls = record.pop("tool_calls", None)
        if calls:
            record["tool_calls"] = [
                {"id": one["id"], "name": one["name"], "arguments": one.get("arguments", "")} for one in calls
            ]
        if isinstance(record.get("content"), list):
            record["content"] = row.message.text
    return record


def _call(call: ModelCall) -> dict[str, Any]:
    usage = call.usage
    return _thin(
        {
            "node": call.reply_node,
            "model": call.model,
            "sampling": dict(call.sampling_sent),
            "endpoint": call.dialect,
            "finish_reason": call.finish_reason,
            "usage": None
            if usage is None
            else _thin(
                {
                    "prompt_tokens": usage.prompt_tokens - usage.cached_tokens,  # as theirs counts
                    "completion_tokens": usage.completion_tokens,
                    "cached_input_tokens": usage.cached_tokens,
                    "reasoning_tokens": usage.reasoning_tokens,
                    "cost": usage.cost,
                }
            ),
            "time": {"start": call.start, "end": call.end},
            "error": None if call.error is None else _error(call.error),
            "replayed": call.replayed or None,  # ours: readers pass over keys that they do not know
        }
    )


def _error(error: ErrorInfo) -> dict[str, Any]:
    fields = {
        "type": error.type,
        "message": error.message,
        "status_code": error.status,
        "traceback": error.traceback,
    }
    return _thin(fields)


def _tools(trace: Trace) -> list[dict[str, Any]]:
    """Every tool that some call had, each once; a later form of the same name counts."""
    found: dict[str, dict[str, Any]] = {}
    for raw in trace.dag.tools.values():
        for tool in decode_json(raw):
            record = {name: tool.get(name) for name in ("name", "description", "parameters", "strict")}
            found[str(tool.get("name"))] = _thin(record)
    return list(found.values())


def _timing(trace: Trace) -> dict[str, Any]:
    spans = {name: trace.timing[name] for name in STAGES if name in trace.timing}
    timing: dict[str, Any] = {
        name: _thin({"start": span.start, "end": span.end}) for name, span in spans.items()
    }
    starts = [span.start for span in spans.values()]
    return {"start": min(starts) if starts else 0.0, **timing}


def _thin(record: dict[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in record.items() if value is not None}
