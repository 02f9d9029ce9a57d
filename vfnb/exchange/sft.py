"""Rows for supervised fine-tuning: chat messages in forms that Arrow cannot bend."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from vfnb.exchange.records import task_record
from vfnb.trace.samples import unused_compaction
from vfnb.utils.plain import decode_json, plain

if TYPE_CHECKING:
    from vfnb.trace import Branch, Trace
    from vfnb.types import Message

__all__ = ["Unfit", "sft_rows", "unsampled_replies"]


class Unfit(Exception):
    """A message that has no place in a row; `args` are the reason and the node."""


def sft_rows(trace: Trace) -> list[dict[str, Any]]:
    """One row of the main line, and one of each other branch that shares no reply with the rows before it.

    Every reply in a row is trained, so that one that stood in two rows would count twice. All `content` is a
    string; arguments of tool calls and the list of tools are JSON strings: as objects, Arrow would add the keys of
    other rows.

    Raises:
        Unfit: a message cannot be written so.
    """
    rows, taken = [], set[int]()
    for branch in _in_order(trace):
        path = _up_to_last_reply(branch)
        replies = {node for node in path if _role(branch, node) == "assistant"}
        if not replies or replies & taken or unused_compaction(branch):
            continue
        taken |= replies
        rows.append(plain(_row(trace, branch, path)))  # lone surrogates have no place in Arrow
    return rows


def unsampled_replies(trace: Trace) -> int | None:
    """The first assistant message that no model sampled; None if there is none."""
    for node in trace.dag.nodes:
        if not node.sampled and not node.partial and node.message.role == "assistant":
            return node.index
    return None


def _in_order(trace: Trace) -> Iterator[Branch]:
    main = trace.main
    if main is not None:
        yield main
        yield from (branch for branch in trace.branches if branch.id != main.id)


def _role(branch: Branch, node: int) -> str:
    return branch.graph.nodes[node].message.role


def _up_to_last_reply(branch: Branch) -> list[int]:
    path = list(branch.path)
    while path and _role(branch, path[-1]) != "assistant":
        path.pop()
    return path


def _row(trace: Trace, branch: Branch, path: list[int]) -> dict[str, Any]:
    task = task_record(trace)
    return {
        "messages": [_message(branch.graph.nodes[node].message, node) for node in path],
        "tools": _tools(branch),
        "reward": trace.reward,
        "trace_id": trace.id,
        "task_key": trace.task.key,
        "task_hash": task["hash"],
        "branch": branch.id,
    }


def _message(message: Message, node: int) -> dict[str, Any]:
    role = message.role
    if role not in ("system", "user", "assistant", "tool"):
        raise Unfit(f"a message of role {role!r} has no place in the chat form", node)
    content = getattr(message, "content", None)
    if isinstance(content, list) and any(part.type not in ("text", "reasoning") for part in content):
        raise Unfit("content that is not text cannot stand in a column of strings", node)
    record: dict[str, Any] = {"role": role, "content": message.text}
    if role == "assistant":
        record["reasoning_content"] = getattr(message, "reasoning_content", None)
        record["tool_calls"] = [_tool_call(call, node) for call in getattr(message, "tool_calls", [])] or None
    if role == "tool":
        record["tool_call_id"] = getattr(message, "tool_call_id", None)
    return {key: value for key, value in record.items() if value is not None}


def _tool_call(call: Any, node: int) -> dict[str, Any]:
    arguments = call.arguments if call.arguments.strip() else "{}"
    try:
        json.loads(arguments)
    except ValueError:
        raise Unfit(f"the arguments of tool call {call.name!r} are not valid JSON", node) from None
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": arguments}}


def _tools(branch: Branch) -> str | None:
    """The tools of the branch's last call that had some, as one JSON text."""
    digests = [call.tools for call in branch.calls if call.tools]
    if not digests:
        return None
    tools = [
        {
            "type": "function",
            "function": {
                key: tool[key] for key in ("name", "description", "parameters", "strict") if key in tool
            },
        }
        for tool in decode_json(branch.graph.tools[digests[-1]])
    ]
    return json.dumps(tools, ensure_ascii=False, sort_keys=True)
