"""Frame levels below the headlines: messages, calls, tokens, branches, judges, read from the traces' packs."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import msgspec
import numpy as np

from vfnb.errors import StoreError
from vfnb.store.headline import branch_rows
from vfnb.store.reader import RunReader
from vfnb.store.skim import Skim
from vfnb.utils.plain import encodable

__all__ = ["DEEP_LEVELS", "Part", "parts"]

Part = tuple[int, dict[str, Any] | StoreError]
"""Number of a trace and its values by column (sequences or arrays), or why it cannot be read."""


class _PartOfContent(msgspec.Struct):
    type: str = "text"
    text: str = ""


class _Message(msgspec.Struct):
    role: str
    content: str | list[_PartOfContent] | None = None
    reasoning_content: str | None = None
    tool_calls: list[msgspec.Raw] = []
    tool_call_id: str | None = None

    @property
    def text(self) -> str:
        if isinstance(self.content, str):
            return self.content
        return "".join(part.text for part in self.content or () if part.type == "text")


_message_decoder = msgspec.json.Decoder(_Message)
_MESSAGES: dict[str, Callable[[Skim, list[_Message]], list[Any]]] = {
    "node": lambda skim, _: list(range(len(skim.raws))),
    "parent": lambda skim, _: skim.parent,
    "call": lambda skim, _: skim.call,
    "sampled": lambda skim, _: [index in skim.sampled for index in range(len(skim.raws))],
    "partial": lambda skim, _: [index in skim.partial for index in range(len(skim.raws))],
    "tokens": lambda skim, _: [skim.tokens.get(index) for index in range(len(skim.raws))],
    "role": lambda _, messages: [message.role for message in messages],
    "text": lambda _, messages: [message.text for message in messages],
    "reasoning": lambda _, messages: [message.reasoning_content for message in messages],
    "tool_calls": lambda _, messages: [len(message.tool_calls) for message in messages],
    "tool_call_id": lambda _, messages: [message.tool_call_id for message in messages],
    "chars": lambda _, messages: [len(message.text) for message in messages],
}
_FROM_TEXT = {"role", "text", "reasoning", "tool_calls", "tool_call_id", "chars"}


def _decode(raw: bytes) -> _Message:
    try:
        return _message_decoder.decode(raw)
    except msgspec.MsgspecError:  # parts or lone surrogates that only the full type can hold
        from vfnb.trace.identity import decode_content

        message = decode_content(raw)
        reasoning = getattr(message, "reasoning_content", None)
        return _Message(
            role=encodable(message.role),
            content=encodable(message.text),
            reasoning_content=None if reasoning is None else encodable(reasoning),
            tool_calls=[msgspec.Raw(b"{}")] * len(getattr(message, "tool_calls", ())),
            tool_call_id=getattr(message, "tool_call_id", None),
        )


def _messages(reader: RunReader, numbers: list[int], names: set[str]) -> Iterator[Part]:
    for num, skim in reader.skim(numbers, tokens="tokens" in names):
        if isinstance(skim, StoreError):
            yield num, skim
            continue
        messages = [_decode(raw) for raw in skim.raws] if names & _FROM_TEXT else []
        yield num, {name: get(skim, messages) for name, get in _MESSAGES.items() if name in names}


def _usage(name: str) -> Callable[[dict[str, Any]], Any]:
    """A number of a call's usage: None without usage, 0 where the provider's default was left out."""
    default = None if name == "cost" else 0

    def get(call: dict[str, Any]) -> Any:
        usage = call.get("usage")
        return None if usage is None else usage.get(name, default)

    return get


def _error(name: str) -> Callable[[dict[str, Any]], Any]:
    return lambda call: (call.get("error") or {}).get(name)


def _plain(name: str, default: Any = None) -> Callable[[dict[str, Any]], Any]:
    return lambda call: call.get(name, default)


def _after_start(name: str) -> Callable[[dict[str, Any]], Any]:
    def get(call: dict[str, Any]) -> float | None:
        at, start = call.get(name), call.get("start")
        return None if at is None or start is None else float(at - start)

    return get


_CALLS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "call": _plain("index", -1),
    "id": _plain("id"),
    "dialect": _plain("dialect"),
    "model": _plain("model"),
    "served_model": _plain("served_model"),
    "started": _plain("start"),
    "time_s": _after_start("end"),
    "ttft_s": _after_start("first_token"),
    "status": _plain("status", 200),
    "finish_reason": _plain("finish_reason"),
    "stream": _plain("stream", False),
    "delivered": _plain("delivered", True),
    "retry_of": _plain("retry_of"),
    "prompt_node": _plain("prompt_node", -1),
    "reply_node": _plain("reply_node"),
    "tokens_in": _usage("prompt_tokens"),
    "tokens_out": _usage("completion_tokens"),
    "tokens_cached": _usage("cached_tokens"),
    "tokens_reasoning": _usage("reasoning_tokens"),
    "cost": _usage("cost"),
    "error": _error("type"),
    "error_message": _error("message"),
}


def _calls(reader: RunReader, numbers: list[int], names: set[str]) -> Iterator[Part]:
    for num, skim in reader.skim(numbers):
        if isinstance(skim, StoreError):
            yield num, skim
        else:
            yield (
                num,
                {name: [get(call) for call in skim.calls] for name, get in _CALLS.items() if name in names},
            )


def _tokens(reader: RunReader, numbers: list[int], names: set[str]) -> Iterator[Part]:
    ids = dict(reader.query("SELECT id, num FROM traces"))
    wanted = set(numbers)
    for trace_id, trace in reader.read_traces([key for key, num in ids.items() if num in wanted]):
        num = ids[trace_id]
        if isinstance(trace, StoreError):
            yield num, trace
            continue
        columns = trace.dag.columns
        nodes = [node for node in trace.dag.nodes if node.has_tokens]
        if columns is None or not nodes:
            continue
        nodes.sort(key=lambda node: node.start)
        length = np.array([node.end - node.start for node in nodes])
        starts = np.repeat(np.array([node.start for node in nodes]), length)
        at = np.arange(len(starts)) - np.repeat(np.cumsum(length) - length, length)
        where = starts + at
        sampled = columns.mask[where]
        yield (
            num,
            {
                "node": np.repeat(np.array([node.index for node in nodes], np.int64), length),
                "position": at.astype(np.int64),
                "token": columns.ids[where].astype(np.int64),
                "sampled": sampled,
                "logprob": np.where(sampled, columns.logprobs[where].astype(np.float64), np.nan),
            },
        )


_BRANCH = ("branch", "first_node", "leaf", "cause", "fork_index", "messages", "turns", "tokens")
_BRANCH_COLUMNS = (*_BRANCH, "trainable_tokens", "diff", "linked_to", "returned_to")


def _branches(reader: RunReader, numbers: list[int], names: set[str]) -> Iterator[Part]:
    """Ended traces have theirs in a table, for the others they are computed."""
    wanted = set(numbers)
    rows: dict[int, list[tuple[Any, ...]]] = {}
    known = {name for _, name, *_ in reader.query("PRAGMA table_info(branches)")}  # an older file has fewer
    columns = ", ".join(name if name in known else f"NULL AS {name}" for name in _BRANCH_COLUMNS)
    for num, *row in reader.query(f"SELECT trace, {columns} FROM branches"):
        if num in wanted:
            rows.setdefault(num, []).append(tuple(row))
    running = [head for head in reader.unfinished() if head.num in wanted]
    for trace_id, trace in reader.read_traces([head.id for head in running]):
        num = next(head.num for head in running if head.id == trace_id)
        if isinstance(trace, StoreError):
            yield num, trace
        else:
            rows[num] = [row[1:] for row in branch_rows(num, trace)]
    for num in numbers:
        if rows.get(num):  # a trace that has just begun has none
            yield num, dict(zip(_BRANCH_COLUMNS, zip(*rows[num], strict=True), strict=True))


_JUDGES: dict[str, Callable[[dict[str, Any]], Any]] = {
    "judge": _plain("judge"),
    "model": _plain("model"),
    "served_model": _plain("served_model"),
    "endpoint": _plain("endpoint"),
    "started": _plain("start"),
    "time_s": _after_start("end"),
    "tries": lambda call: call.get("failed_tries", 0) + 1,
    "prompt": _plain("prompt"),
    "reply": _plain("reply"),
    "verdict": lambda call: None if call.get("verdict") is None else json.dumps(call["verdict"]),
    "tokens_in": _usage("prompt_tokens"),
    "tokens_out": _usage("completion_tokens"),
    "cost": _usage("cost"),
    "error": _error("type"),
    "error_message": _error("message"),
}


def _judges(reader: RunReader, numbers: list[int], names: set[str]) -> Iterator[Part]:
    """Calls of judges are fields of ended traces."""
    for num, header in reader.headers(numbers):
        calls = header.get("judge_calls", [])
        values: dict[str, Any] = {
            name: [get(call) for call in calls] for name, get in _JUDGES.items() if name in names
        }
        yield num, values | {"call": list(range(len(calls)))}


DEEP_LEVELS = {
    "messages": _messages,
    "calls": _calls,
    "tokens": _tokens,
    "branches": _branches,
    "judges": _judges,
}


def parts(reader: RunReader, level: str, numbers: list[int], names: set[str]) -> Iterator[Part]:
    """What each of these traces adds to a level; those that add nothing may be left out."""
    return DEEP_LEVELS[level](reader, numbers, names)
