"""All tokens of a graph as a few columns: what a packed trace and a JSON dump hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import msgspec

from vfnb.errors import TraceError
from vfnb.trace.graph import MessageGraph
from vfnb.trace.node import Node
from vfnb.trace.records import TokenRecord

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from vfnb.trace.tokens import TokenColumns

__all__ = ["BesideRecord", "ExpertRecord", "TokenTable", "restore_tokens", "token_records", "token_table"]


class ExpertRecord(msgspec.Struct):
    """Routed experts that one node's call brought."""

    node: int
    start: int
    dtype: str
    shape: tuple[int, ...]
    data: bytes


class BesideRecord(msgspec.Struct):
    """Kept tokens and media of one node, as in `TokenRecord`."""

    node: int
    kept: bytes | None = None
    kept_counts: bytes = b""
    media: bytes = b""


class TokenTable(msgspec.Struct):
    """All tokens of a graph as columns. Arrays are little-endian bytes."""

    node: bytes
    """int32[k]: nodes with tokens, in the order in which they got them."""
    length: bytes
    """int32[k]: how many."""
    lead: bytes
    """int32[k]: how many of them were not sampled."""
    ids: bytes
    """int32[n]"""
    logprobs: bytes
    """float32[m], of the tokens after each lead."""
    forced: bytes = b""
    """int32: positions where the mask of the tokens after the leads (bool[m]) changes, from True."""
    content: bytes = b""
    """int32: positions where the content mask (bool[n]) changes, from False."""
    experts: list[ExpertRecord] = []
    beside: list[BesideRecord] = []


def token_table(graph: MessageGraph, among: Sequence[Node]) -> TokenTable | None:
    """The tokens of these nodes of a graph, None if it has none. They are the graph's oldest nodes."""
    columns = graph.columns
    if columns is None:
        return None
    import numpy as np

    from vfnb.trace.tokens import flips_of

    nodes = in_order(among)
    size = nodes[-1].end if nodes else 0
    starts = np.array([node.start for node in nodes], np.int32)
    ends = np.array([node.end for node in nodes], np.int32)
    leads = np.array([node.lead for node in nodes], np.int32)
    tail = _tails(starts, ends, leads)
    return TokenTable(
        node=np.array([node.index for node in nodes], np.int32).tobytes(),
        length=(ends - starts).tobytes(),
        lead=leads.tobytes(),
        ids=columns.ids[:size].tobytes(),
        logprobs=columns.logprobs[:size][tail].tobytes(),
        forced=np.array(flips_of(~columns.mask[:size][tail]), np.int32).tobytes(),
        content=np.array([flip for flip in list(columns.flips) if flip <= size], np.int32).tobytes(),
        experts=[
            ExpertRecord(index, item.start, item.rows.dtype.str, item.rows.shape, item.rows.tobytes())
            for index, item in list(columns.experts.items())
            if index < len(among)
        ],
        beside=[
            _beside(columns, index) for index in sorted({*columns.kept, *columns.media}) if index < len(among)
        ],
    )


def _beside(columns: TokenColumns, node: int) -> BesideRecord:
    kept, media = columns.kept.get(node), columns.media.get(node)
    return BesideRecord(
        node,
        None if kept is None else kept.ids.tobytes(),
        b"" if kept is None else kept.counts.tobytes(),
        b"" if media is None else media.tobytes(),
    )


def _tails(starts: NDArray[Any], ends: NDArray[Any], leads: NDArray[Any]) -> NDArray[np.bool_]:
    """bool[n]: the tokens after each node's lead. The nodes' ranges follow each other."""
    import numpy as np

    parts = np.stack([leads, ends - starts - leads], axis=1)
    return np.repeat(np.tile(np.array([False, True]), len(leads)), parts.reshape(-1))


def restore_tokens(graph: MessageGraph, table: TokenTable) -> None:
    """Give a graph the tokens of a table.

    Raises:
        TraceError: the table contradicts itself or names a node that is not there.
    """
    import numpy as np

    from vfnb.trace.tokens import Experts

    node, length, lead = (np.frombuffer(raw, np.int32) for raw in (table.node, table.length, table.lead))
    ids, logprobs = np.frombuffer(table.ids, np.int32), np.frombuffer(table.logprobs, np.float32)
    ends = np.cumsum(length, dtype=np.int64)
    size = int(ends[-1]) if len(ends) else 0
    if (
        size != len(ids)
        or len(logprobs) != int((length - lead).sum())
        or not len(node) == len(length) == len(lead)
    ):
        raise TraceError(
            f"token table has {len(ids)} ids and {len(logprobs)} logprobs, its nodes have {size} tokens"
        )
    if len(node) and not (int(node.min()) >= 0 and int(node.max()) < len(graph.nodes)):
        raise TraceError(f"token table names a node beyond the graph's {len(graph.nodes)}")
    columns = graph._columns()
    tail = _tails(ends - length, ends, lead)
    columns.ids, columns.size = ids, size
    columns.logprobs = np.zeros(size, np.float32)
    columns.logprobs[tail] = logprobs
    if table.forced:
        sampled = np.ones(len(logprobs), np.bool_)
        flips = np.frombuffer(table.forced, np.int32).tolist()
        for begin, end in zip(flips[::2], [*flips[1::2], len(logprobs)], strict=False):
            sampled[begin:end] = False
        columns.mask = np.zeros(size, np.bool_)
        columns.mask[tail] = sampled
    else:
        columns.mask = tail
    columns.flips = np.frombuffer(table.content, np.int32).tolist()
    for item in table.experts:
        rows = np.frombuffer(item.data, np.dtype(item.dtype)).reshape(item.shape)
        columns.experts[item.node] = Experts(item.start, rows)
    for entry in table.beside:
        columns.restore_beside(entry.node, entry.kept, entry.kept_counts, entry.media)
    nodes = graph.nodes
    for index, end, count, first in zip(
        node.tolist(), ends.tolist(), length.tolist(), lead.tolist(), strict=True
    ):
        nodes[index].start, nodes[index].end, nodes[index].lead = end - count, end, first
    graph._settle_tokens()


def token_records(graph: MessageGraph) -> list[TokenRecord]:
    """The tokens of a graph node by node, in the order in which the columns hold them."""
    columns = graph.columns
    if columns is None:
        return []
    nodes = in_order(graph.snapshot()[1])
    return [columns.record(node.index, node.start, node.end, node.lead) for node in nodes]


def in_order(nodes: Sequence[Node]) -> list[Node]:
    """The nodes with tokens in the order of their ranges, up to the first range that is another node's."""
    found = sorted(
        (node for node in nodes if node.has_tokens), key=lambda node: (node.start, node.end, node.index)
    )
    end = 0
    for position, node in enumerate(found):
        if node.start != end:
            return found[:position]
        end = node.end
    return found
