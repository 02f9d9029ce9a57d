"""A trace's graph as plain JSON values and back: the part of `Trace.model_dump` that is not a plain field."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import msgspec

from vfnb.errors import TraceError
from vfnb.trace.calls import call_from, call_schema, plain_call
from vfnb.trace.graph import MessageGraph
from vfnb.trace.identity import content
from vfnb.trace.records import SCHEMA_VERSION, NodeRecord
from vfnb.trace.table import TokenTable, restore_tokens, token_table
from vfnb.types import message_adapter
from vfnb.utils.plain import decode_json, encode_json

if TYPE_CHECKING:
    from vfnb.trace.trace import Trace

__all__ = ["dump_graph", "graph_schema", "header", "load_graph"]


def header(trace: Trace) -> dict[str, Any]:
    """The trace's own fields as JSON values."""
    return trace.model_dump(mode="json", context={"graph": False})


def dump_graph(graph: MessageGraph) -> dict[str, Any]:
    """Nodes, calls, tool lists and tokens; arrays as base64."""
    calls, nodes = graph.snapshot()
    table = token_table(graph, nodes)
    return {
        "schema_version": SCHEMA_VERSION,
        "nodes": [
            {
                "parent": node.parent,
                "call": node.call,
                "sampled": node.sampled,
                "partial": node.partial,
                "retokenized": node.retokenized,
                "message": decode_json(node.raw),
            }
            for node in nodes
        ],
        "calls": [plain_call(call) for call in calls],
        "tools": {digest: decode_json(raw) for digest, raw in list(graph.tools.items())},
        "tokens": None if table is None else _text(msgspec.to_builtins(table, builtin_types=(bytes,))),
    }


def load_graph(data: Mapping[str, Any]) -> MessageGraph:
    """The graph of a dump.

    Raises:
        TraceError: the parts contradict each other.
    """
    records, contents = [], {}
    for index, item in enumerate(data["nodes"]):
        try:
            key, raw = content(message_adapter.validate_python(item["message"]))
            record = NodeRecord(
                index,
                item["parent"],
                key,
                item.get("call", 0),
                item.get("sampled", False),
                item.get("partial", False),
                item.get("retokenized", -1),
            )
        except (KeyError, TypeError) as error:
            raise TraceError(f"node {index} of the trace lacks or misuses {error}") from error
        records.append(record)
        contents[key] = raw
    tools = {bytes.fromhex(digest): encode_json(tools) for digest, tools in (data.get("tools") or {}).items()}
    try:
        calls = [call_from(call) for call in data.get("calls") or []]
        table = None if data.get("tokens") is None else msgspec.convert(_bytes(data["tokens"]), TokenTable)
    except (msgspec.ValidationError, ValueError) as error:
        raise TraceError(f"the trace's calls or tokens cannot be read: {error}") from error
    graph = MessageGraph.restore(records, contents, calls, tools=tools)
    if table is not None:
        restore_tokens(graph, table)
    return graph


def graph_schema() -> dict[str, Any]:
    """JSON schema of what `dump_graph` makes, by property."""
    array: dict[str, Any] = {"type": "string", "contentEncoding": "base64"}
    integer: dict[str, Any] = {"type": "integer"}
    expert: dict[str, Any] = {"node": integer, "start": integer, "dtype": {"type": "string"}, "data": array}
    expert["shape"] = {"type": "array", "items": integer}
    beside: dict[str, Any] = {"node": integer, **dict.fromkeys(("kept", "kept_counts", "media"), array)}
    beside["kept"] = {"anyOf": [array, {"type": "null"}]}
    names = ("node", "length", "lead", "ids", "logprobs", "forced", "content")
    return {
        "schema_version": {"type": "integer", "default": SCHEMA_VERSION},
        "nodes": {
            "type": "array",
            "items": {
                "type": "object",
                "properties": {
                    "parent": {"type": "integer", "minimum": -1},
                    "call": integer,
                    "sampled": {"type": "boolean"},
                    "partial": {"type": "boolean"},
                    "retokenized": {"type": "integer", "minimum": -1},
                    "message": {
                        "type": "object",
                        "required": ["role"],
                        "properties": {"role": {"type": "string"}},
                    },
                },
                "required": ["parent", "message"],
            },
        },
        "calls": {"type": "array", "items": call_schema()},
        "tools": {"type": "object", "additionalProperties": {"type": "array", "items": {"type": "object"}}},
        "tokens": {
            "anyOf": [
                {
                    "type": "object",
                    "properties": {
                        **dict.fromkeys(names, array),
                        "experts": {"type": "array", "items": {"type": "object", "properties": expert}},
                        "beside": {"type": "array", "items": {"type": "object", "properties": beside}},
                    },
                },
                {"type": "null"},
            ]
        },
    }


def _text(value: Any) -> Any:
    """Bytes as base64, at every level."""
    if isinstance(value, bytes):
        return b64encode(value).decode()
    if isinstance(value, dict):
        return {key: _text(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_text(item) for item in value]
    return value


def _bytes(tokens: Mapping[str, Any]) -> dict[str, Any]:
    table: dict[str, Any] = {
        key: b64decode(value) if isinstance(value, str) else value for key, value in tokens.items()
    }
    table["experts"] = [{**item, "data": b64decode(item["data"])} for item in tokens.get("experts") or []]
    table["beside"] = [
        {key: b64decode(value) if isinstance(value, str) else value for key, value in item.items()}
        for item in tokens.get("beside") or []
    ]
    return table
