"""A finished graph as three compact blobs: texts, structure, tokens.

Measured on token traces of agents: one zstd stream over the messages of a trace is a third of separate ones;
raw `int32` ids compress better than byte planes (repeated text is repeated ids); `float32` logprobs need byte
planes (only sign and exponent compress). Logprobs are kept for sampled tokens only, masks as runs.
"""

from __future__ import annotations

from itertools import accumulate
from typing import TYPE_CHECKING, Any

import msgspec

from vfnb.errors import TraceError
from vfnb.trace.calls import call_from, plain_call
from vfnb.trace.graph import MessageGraph
from vfnb.trace.identity import address
from vfnb.trace.records import SCHEMA_VERSION, NodeRecord, TokenRecord

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = [
    "ExpertRecord",
    "Packed",
    "TokenTable",
    "pack",
    "restore_tokens",
    "token_records",
    "token_table",
    "unpack",
]

_LEVEL = 3


class Packed(msgspec.Struct, frozen=True):
    """The blobs. Each is zstd; `version` is the schema version of the writer."""

    texts: bytes
    """The distinct messages as JSON, one after the other."""
    structure: bytes
    """Nodes, calls, tool lists and the lengths of the messages, as MessagePack."""
    tokens: bytes = b""
    """Empty without tokens."""
    version: int = SCHEMA_VERSION

    @property
    def nbytes(self) -> int:
        """Bytes in total."""
        return len(self.texts) + len(self.structure) + len(self.tokens)


class _Structure(msgspec.Struct):
    """Columns of the nodes, in order; other keys of a newer writer are ignored."""

    lengths: list[int]
    """Bytes of each distinct message."""
    content: list[int]
    """Per node: which message."""
    parent: list[int]
    """Per node: how far back its parent is, 0 for a root."""
    call: list[int]
    sampled: list[int]
    partial: list[int]
    retokenized: list[tuple[int, int]]
    calls: list[Any]
    tools: dict[str, bytes]


class ExpertRecord(msgspec.Struct):
    """Routed experts that one node's call brought."""

    node: int
    start: int
    dtype: str
    shape: tuple[int, ...]
    data: bytes


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


def token_table(graph: MessageGraph) -> TokenTable | None:
    """The tokens of a graph, None if it has none."""
    columns = graph.columns
    if columns is None:
        return None
    import numpy as np

    from vfnb.trace.tokens import flips_of

    nodes = sorted(
        (node for node in list(graph.nodes) if node.has_tokens), key=lambda node: (node.start, node.index)
    )
    size = nodes[-1].end if nodes else 0
    starts = np.array([node.start for node in nodes], np.int32)
    ends = np.array([node.end for node in nodes], np.int32)
    leads = np.array([node.lead for node in nodes], np.int32)
    tail = _tails(starts, ends, leads, size)
    return TokenTable(
        node=np.array([node.index for node in nodes], np.int32).tobytes(),
        length=(ends - starts).tobytes(),
        lead=leads.tobytes(),
        ids=columns.ids[:size].tobytes(),
        logprobs=columns.logprobs[:size][tail].tobytes(),
        forced=np.array(flips_of(~columns.mask[:size][tail]), np.int32).tobytes(),
        content=np.array(columns.flips, np.int32).tobytes(),
        experts=[
            ExpertRecord(index, item.start, item.rows.dtype.str, item.rows.shape, item.rows.tobytes())
            for index, item in columns.experts.items()
        ],
    )


def _tails(starts: NDArray[Any], ends: NDArray[Any], leads: NDArray[Any], size: int) -> NDArray[np.bool_]:
    """bool[size]: the tokens after each node's lead."""
    import numpy as np

    steps = np.zeros(size + 1, np.int32)
    np.add.at(steps, starts + leads, 1)
    np.add.at(steps, ends, -1)
    return np.cumsum(steps[:-1]) > 0


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
    tail = _tails(ends - length, ends, lead, size)
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
    nodes = graph.nodes
    for index, end, count, first in zip(
        node.tolist(), ends.tolist(), length.tolist(), lead.tolist(), strict=True
    ):
        nodes[index].start, nodes[index].end, nodes[index].lead = end - count, end, first
    graph._settle_tokens()


def pack(graph: MessageGraph) -> Packed:
    """The graph as blobs; `unpack` gives it back exactly."""
    from zstandard import ZstdCompressor

    squeeze = ZstdCompressor(level=_LEVEL).compress
    nodes = list(graph.nodes)
    place: dict[bytes, int] = {}
    texts: list[bytes] = []
    content = []
    for node in nodes:
        where = place.get(node.content_key)
        if where is None:
            where = place[node.content_key] = len(texts)
            texts.append(node.raw)
        content.append(where)
    structure = _Structure(
        lengths=[len(text) for text in texts],
        content=content,
        parent=[node.index - node.parent if node.parent >= 0 else 0 for node in nodes],
        call=[node.call for node in nodes],
        sampled=[node.index for node in nodes if node.sampled],
        partial=[node.index for node in nodes if node.partial],
        retokenized=[(node.index, node.retokenized) for node in nodes if node.retokenized >= 0],
        calls=[plain_call(call) for call in list(graph.calls)],
        tools=dict(graph.tools),
    )
    table = token_table(graph)
    return Packed(
        texts=squeeze(b"".join(texts)),
        structure=squeeze(msgspec.msgpack.encode(structure)),
        tokens=b"" if table is None else _pack_tokens(table, squeeze),
    )


def unpack(packed: Packed, *, tokens: bool = True) -> MessageGraph:
    """The graph of these blobs; without its tokens if `tokens=False`.

    Raises:
        TraceError: a blob is damaged.
    """
    from zstandard import ZstdDecompressor, ZstdError

    expand = ZstdDecompressor().decompress
    try:
        texts = expand(packed.texts)
        structure = msgspec.msgpack.decode(expand(packed.structure), type=_Structure)
    except (ZstdError, msgspec.DecodeError) as error:
        raise TraceError(f"the blobs of a trace cannot be read: {error}") from error
    ends = list(accumulate(structure.lengths))
    if (ends[-1] if ends else 0) != len(texts):
        raise TraceError(
            f"a trace's messages have {len(texts)} bytes, their lengths say {ends[-1] if ends else 0}"
        )
    raws = [texts[end - length : end] for end, length in zip(ends, structure.lengths, strict=True)]
    keys = [address(raw) for raw in raws]
    sampled, partial, retokenized = (
        set(structure.sampled),
        set(structure.partial),
        dict(structure.retokenized),
    )
    records = [
        NodeRecord(
            index,
            index - back if back else -1,
            keys[where],
            call,
            index in sampled,
            index in partial,
            retokenized.get(index, -1),
        )
        for index, (back, where, call) in enumerate(
            zip(structure.parent, structure.content, structure.call, strict=True)
        )
    ]
    graph = MessageGraph.restore(
        records,
        dict(zip(keys, raws, strict=True)),
        [call_from(call) for call in structure.calls],
        tools={bytes.fromhex(digest): raw for digest, raw in structure.tools.items()},
    )
    if tokens and packed.tokens:
        restore_tokens(graph, _unpack_tokens(packed.tokens, expand))
    return graph


def _pack_tokens(table: TokenTable, squeeze: Any) -> bytes:
    import numpy as np

    planes = np.frombuffer(table.logprobs, np.uint8).reshape(-1, 4).T.tobytes()
    small = msgspec.structs.replace(table, ids=b"", logprobs=b"")
    parts = [squeeze(table.ids), squeeze(planes), squeeze(msgspec.msgpack.encode(small))]
    return msgspec.msgpack.encode(parts)


def _unpack_tokens(blob: bytes, expand: Any) -> TokenTable:
    import numpy as np
    from zstandard import ZstdError

    try:
        ids, planes, small = (
            expand(part) for part in msgspec.msgpack.decode(blob, type=tuple[bytes, bytes, bytes])
        )
        table = msgspec.msgpack.decode(small, type=TokenTable)
    except (ZstdError, msgspec.DecodeError, ValueError) as error:
        raise TraceError(f"the tokens of a trace cannot be read: {error}") from error
    table.ids = ids
    table.logprobs = np.frombuffer(planes, np.uint8).reshape(4, -1).T.tobytes()
    return table


def token_records(graph: MessageGraph) -> list[TokenRecord]:
    """The tokens of a graph node by node, in the order in which the columns hold them."""
    columns = graph.columns
    if columns is None:
        return []
    nodes = sorted(
        (node for node in list(graph.nodes) if node.has_tokens), key=lambda node: (node.start, node.index)
    )
    return [columns.record(node.index, node.start, node.end, node.lead) for node in nodes]
