"""What the page asks a trace for, one key at a time: a message, a request, tokens, a fork."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vfnb.errors import MissingExtra
from vfnb.lab.diff import spans_of
from vfnb.lab.messages import full_text, parts_of
from vfnb.lab.spelling import Spelling
from vfnb.lab.words import clip, count, listing, money, plain, seconds
from vfnb.trace.causes import forks
from vfnb.types import AssistantMessage
from vfnb.utils.plain import decode_json

if TYPE_CHECKING:
    from vfnb.trace import ModelCall, Trace
    from vfnb.types import Message

__all__ = ["detail"]

MAX_TEXT = 100_000
"""Characters of one text sent to the page."""
MAX_TOKENS = 4_000
"""Tokens of one message sent to the page."""


def detail(trace: Trace, kind: str, number: int) -> dict[str, Any]:
    """`message`, `tokens` (of a node), `request` (of a call) or `fork` (by the first node of its branch)."""
    match kind:
        case "message":
            return _message(trace, number)
        case "tokens":
            return _tokens(trace, number)
        case "request":
            return _request(trace, number)
        case "fork":
            return _fork(trace, number)
    raise KeyError(kind)


def _shown(text: str) -> str:
    return plain(clip(text, MAX_TEXT))


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, indent=2, default=str)


def pieces(message: Message) -> list[list[str]]:
    """What a message says, as `[kind, head, text]`: `reasoning`, `text`, `part` and `call`."""
    found: list[list[str]] = []
    if isinstance(message, AssistantMessage) and message.reasoning_content:
        found.append(["reasoning", "reasoning", _shown(message.reasoning_content)])
    content = getattr(message, "content", None)
    if isinstance(content, str) and content:
        found.append(["text", "", _shown(content)])
    found += [[kind, plain(head), _shown(text)] for kind, head, text in parts_of(message)]
    if isinstance(message, AssistantMessage):
        for call in message.tool_calls:
            arguments = call.parsed
            text = _json(arguments) if isinstance(arguments, dict | list) else str(arguments)
            found.append(["call", plain(call.name), _shown(text)])
    return found


def _message(trace: Trace, number: int) -> dict[str, Any]:
    node = trace.dag.nodes[number]
    call = trace.dag.calls[node.call]
    facts = [
        ("node", f"{number}, {node.depth} messages before it"),
        ("role", node.message.role),
        (
            "origin",
            "sampled from the model" if node.sampled else "a cut reply" if node.partial else "context",
        ),
        ("tokens", f"{node.end - node.start:,} ({node.lead} of the template)" if node.has_tokens else ""),
    ]
    found = {"facts": _pairs([*facts, *_call_facts(call)]), "pieces": pieces(node.message)}
    if node.sampled and call.shown_node is not None:
        found["facts"].append(["shown instead", f"node {call.shown_node}, by an intercept"])
    return found


def _pairs(facts: list[tuple[str, str]]) -> list[list[str]]:
    return [[name, plain(str(text))] for name, text in facts if text]


def _call_facts(call: ModelCall) -> list[tuple[str, str]]:
    usage = call.usage
    used = (
        listing(
            [
                f"{count(usage.prompt_tokens)} tokens in",
                f"{count(usage.completion_tokens)} out",
                f"{count(usage.cached_tokens)} cached" if usage.cached_tokens else "",
                f"{count(usage.reasoning_tokens)} reasoning" if usage.reasoning_tokens else "",
                money(usage.cost) if usage.cost is not None else "",
            ],
            ", ",
        )
        if usage
        else ""
    )
    model = call.model
    if call.served_model and call.served_model != call.model:
        model += f", served by {call.served_model}"
    first = f", first token after {seconds(call.first_token - call.start)}" if call.first_token else ""
    error = call.error
    return [
        ("call", f"{call.index}" + (f", repeats call {call.retry_of}" if call.retry_of is not None else "")),
        ("model", model),
        ("dialect", call.dialect),
        ("took", f"{seconds(call.seconds)}{first}"),
        ("status", "" if call.status == 200 else str(call.status)),
        ("finish reason", call.finish_reason or ""),
        ("usage", used),
        ("error", f"{error.type} at {error.boundary}: {error.message[:1000]}" if error else ""),
        ("declared", ", ".join(f"{name} {value}" for name, value in call.markers.items())),
        ("note", call.agent_note or ""),
        ("delivered", "" if call.delivered else "no: the program did not get the end"),
        ("reasoning", "not sent back by the program" if call.dropped_reasoning else ""),
        ("left out", ", ".join(call.dropped)),
        ("rewritten by", ", ".join(f"{one.hook} ({one.stage})" for one in call.rewrites)),
    ]


def _request(trace: Trace, number: int) -> dict[str, Any]:
    """The request of a call as recorded: settings, tools and every message as it was stored."""
    dag = trace.dag
    call = dag.calls[number]
    tools = decode_json(dag.tools[call.tools]) if call.tools else []
    path = dag.path(call.prompt_node) if call.prompt_node >= 0 else []
    body: dict[str, Any] = {"model": call.model, **call.sampling_asked}
    if call.sampling_sent != call.sampling_asked:
        body["sent to the provider"] = call.sampling_sent
    body["tools"] = tools
    body["messages"] = [_stored(dag.nodes[index].raw) for index in path]
    text = _json({name: value for name, value in body.items() if value not in ([], {}, None)})
    if call.partial_text:
        text += f"\n\ncut reply:\n{call.partial_text}"
    named = f"{call.dialect}, " if call.dialect else ""
    return {"head": f"call {number}: {named}{len(path)} messages, {len(tools)} tools", "text": _shown(text)}


def _stored(raw: bytes) -> Any:
    value = decode_json(raw)
    return dict(value) if isinstance(value, Mapping) else value


def _tokens(trace: Trace, number: int) -> dict[str, Any]:
    node, columns = trace.dag.nodes[number], trace.dag.columns
    if columns is None or not node.has_tokens:
        return {"ids": []}
    end = min(node.end, node.start + MAX_TOKENS)
    rows = slice(node.start, end)
    ids = columns.ids[rows].tolist()
    return {
        "ids": ids,
        "texts": _texts(trace, ids),
        "sampled": columns.mask[rows].astype(int).tolist(),
        "logprobs": [round(value, 4) for value in columns.logprobs[rows].tolist()],
        "lead": node.lead,
        "cut": node.end - end,
    }


def _texts(trace: Trace, ids: list[int]) -> list[str] | None:
    """What the tokens say, where the tokenizer is known and installed."""
    source = trace.dag.tokenizer
    try:
        tokenizer = None if source is None else source()
    except MissingExtra:
        return None
    return None if tokenizer is None else [plain(text) for text in Spelling(tokenizer).texts(ids)]


def _fork(trace: Trace, number: int) -> dict[str, Any]:
    """The first message of a branch against the one that the older branch has there."""
    dag = trace.dag
    node = dag.nodes[number]
    fork = forks(dag).get(number)
    older = [child for child in dag.children(node.parent) if child < number]
    left = dag.nodes[older[0]] if older else None
    texts = (full_text(left.message) if left else "", full_text(node.message))
    return {
        "facts": _pairs(
            [
                ("cause", fork.cause if fork else "the first branch"),
                ("detail", fork.detail if fork else ""),
                ("message", f"{fork.index} of the history" if fork else ""),
                ("token", f"position {fork.position}" if fork and fork.position >= 0 else ""),
            ]
        ),
        "older": left.index if left else -1,
        "spans": [list(span) for span in spans_of(*map(_shown, texts))],
    }
