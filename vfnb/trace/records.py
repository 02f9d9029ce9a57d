"""What a store keeps of a trace while it grows: one `Delta` per committed call."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from vfnb.trace.trace import Trace

__all__ = ["SCHEMA_VERSION", "Delta", "NodeRecord", "TokenRecord", "trace_from_records"]

SCHEMA_VERSION = 1


class NodeRecord(msgspec.Struct, array_like=True, frozen=True):
    """A node: its message by content address, and where it hangs."""

    index: int
    parent: int
    """-1 for a root."""
    content: bytes
    """16-byte content address."""
    call: int
    """The call that added it."""
    sampled: bool = False
    partial: bool = False
    """Context that repeats the text of a cut stream."""
    retokenized: int = -1
    """Position in the prompt at which the tokens left those of a node with the same message; -1 if they did not."""


class TokenRecord(msgspec.Struct, array_like=True, frozen=True):
    """The tokens that a node adds to its branch. Arrays are little-endian bytes."""

    node: int
    lead: int
    """Leading tokens that the model did not sample (the generation prompt); all of them for a prompt message."""
    ids: bytes
    """int32[n]"""
    logprobs: bytes = b""
    """float32[n - lead]"""
    mask: bytes | None = None
    """bool[n - lead], one byte each: which were really sampled; None for all."""
    content: bytes = b""
    """int32[k]: positions in the node at which the content mask flips, from False at the start."""
    experts: bytes | None = None
    """Routed experts of the branch's positions from `experts_start` on, C order."""
    experts_dtype: str = ""
    experts_shape: tuple[int, ...] = ()
    experts_start: int = 0
    kept: bytes | None = None
    """int32[k]: what was left of the vocabulary for each token after the lead."""
    kept_counts: bytes = b""
    """int32[n - lead]: how many of them per token."""
    media: bytes = b""
    """int32[k, 3]: begin and end in the node, token type."""


class Delta(msgspec.Struct):
    """What one commit added. Applying all deltas in order gives the trace."""

    contents: list[tuple[bytes, bytes]] = []
    """New messages: 16-byte address and JSON."""
    tools: list[tuple[bytes, bytes]] = []
    """New tool lists: 16-byte address and JSON."""
    nodes: list[NodeRecord] = []
    call: bytes = b""
    """The call as JSON (`encode_call`); its `index` says which one, an index seen before replaces that record."""
    tokens: list[TokenRecord] = []


def trace_from_records(
    header: Mapping[str, Any],
    nodes: Iterable[NodeRecord],
    contents: Mapping[bytes, bytes],
    calls: Iterable[bytes],
    tokens: Iterable[TokenRecord] = (),
    tools: Mapping[bytes, bytes] | None = None,
) -> Trace:
    """A trace from what a store kept, finished or not.

    Args:
        header: the trace's own fields (`Trace.header()`); keys of a newer writer are ignored.
        nodes: in order of their index.
        contents: message JSON by content address.
        calls: call JSON in order; a later record with the same index replaces the earlier one.
        tokens: token records, in the order they were written.
        tools: tool lists by address.

    Raises:
        TraceError: a node names a parent or a content that is not there.
    """
    from vfnb.trace.calls import decode_call
    from vfnb.trace.graph import MessageGraph
    from vfnb.trace.trace import Trace

    graph = MessageGraph.restore(
        nodes, contents, [decode_call(raw) for raw in calls], tokens, dict(tools or {})
    )
    return Trace.from_header(header, graph)
