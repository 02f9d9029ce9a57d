"""Journal rows and packs: how the records of a trace become bytes.

While a rollout runs, each `Delta` is one msgpack row. When it has ended, all of them become one pack whose
columns are compressed as a whole: messages next to each other, token ids as one int32 column, logprobs as
byte planes (their high bytes repeat, their low ones do not). Nothing is rounded. Messages that other traces
have too are left out of both and found in the `contents` table by their address.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec
import zstandard
from msgspec.structs import replace

from vfnb.errors import StoreError
from vfnb.trace.records import Delta, NodeRecord, TokenRecord

__all__ = [
    "Elsewhere",
    "Pack",
    "Records",
    "compress",
    "decode_delta",
    "decompress",
    "encode_delta",
    "merge",
    "pack",
    "token_counts",
    "unpack_contents",
    "unpack_graph",
    "unpack_tokens",
]

_LEVEL = 3
_LIMIT = 1 << 34  # bytes that one column may unpack to; a damaged length must not take all memory

_encoder = msgspec.msgpack.Encoder()
_delta_decoder = msgspec.msgpack.Decoder(Delta)


Elsewhere = Callable[[bytes, bytes], bool]
"""Given address and body: is it kept in the contents table?"""


class Records(msgspec.Struct):
    """All records of one trace, as `trace_from_records` takes them. Bodies kept elsewhere are empty."""

    nodes: list[NodeRecord] = []
    contents: dict[bytes, bytes] = {}
    calls: list[bytes] = []
    tokens: list[TokenRecord] = []
    tools: dict[bytes, bytes] = {}


class Pack(NamedTuple):
    """The compressed columns of an ended trace."""

    graph: bytes
    contents: bytes
    tokens: bytes


class _Graph(msgspec.Struct, array_like=True):
    nodes: list[NodeRecord]
    calls: list[bytes]
    tools: dict[bytes, bytes]


class _Head(msgspec.Struct, array_like=True):
    """A `TokenRecord` whose long columns are elsewhere, and how many bytes of them are its own."""

    ids: int
    logprobs: int
    rest: TokenRecord


_graph_decoder = msgspec.msgpack.Decoder(_Graph)
_contents_decoder = msgspec.msgpack.Decoder(dict[bytes, bytes])
_heads_decoder = msgspec.msgpack.Decoder(list[_Head])

_per_thread = threading.local()  # a (de)compressor may not be used by two threads at once


def compress(raw: bytes) -> bytes:
    """One zstd frame with its length and a checksum; nothing for nothing."""
    if not raw:
        return b""
    tool = getattr(_per_thread, "compressor", None)
    if tool is None:
        tool = _per_thread.compressor = zstandard.ZstdCompressor(level=_LEVEL, write_checksum=True)
    packed: bytes = tool.compress(raw)
    return packed


def decompress(packed: bytes) -> bytes:
    """What `compress` was given.

    Raises:
        StoreError: if the bytes are damaged.
    """
    if not packed:
        return b""
    tool = getattr(_per_thread, "decompressor", None)
    if tool is None:
        tool = _per_thread.decompressor = zstandard.ZstdDecompressor()
    try:
        if zstandard.frame_content_size(packed) > _LIMIT:
            raise StoreError("damaged: impossible length")
        raw: bytes = tool.decompress(packed)
    except zstandard.ZstdError as error:
        raise StoreError(f"damaged: {error}") from error
    return raw


def encode_delta(delta: Delta, elsewhere: Elsewhere) -> bytes:
    """A journal row. `elsewhere(key, body)` says which messages and tools are kept in the contents table."""
    contents = _thin(delta.contents, elsewhere)
    tools = _thin(delta.tools, elsewhere)
    return _encoder.encode(
        Delta(contents=contents, tools=tools, nodes=delta.nodes, call=delta.call, tokens=delta.tokens)
    )


def _thin(items: Iterable[tuple[bytes, bytes]], elsewhere: Elsewhere) -> list[tuple[bytes, bytes]]:
    """The items, with an empty body (no JSON is empty) for what is kept elsewhere."""
    return [(key, b"" if elsewhere(key, body) else body) for key, body in items]


def decode_delta(row: bytes) -> Delta:
    """The delta of a journal row; bodies kept elsewhere are empty.

    Raises:
        StoreError: if the row is damaged.
    """
    try:
        return _delta_decoder.decode(row)
    except msgspec.MsgspecError as error:
        raise StoreError(f"damaged journal row: {error}") from error


def merge(deltas: Iterable[Delta]) -> Records:
    """Deltas in their order, as one set of records."""
    records = Records()
    for delta in deltas:
        records.nodes.extend(delta.nodes)
        records.contents.update(delta.contents)
        records.tools.update(delta.tools)
        if delta.call:
            records.calls.append(delta.call)
        records.tokens.extend(delta.tokens)
    return records


def pack(records: Records, elsewhere: Elsewhere) -> Pack:
    """The compressed columns. `elsewhere` as in `encode_delta`."""
    tools = dict(_thin(records.tools.items(), elsewhere))
    contents = dict(_thin(records.contents.items(), elsewhere))
    return Pack(
        graph=compress(_encoder.encode(_Graph(records.nodes, records.calls, tools))),
        contents=compress(_encoder.encode(contents)) if contents else b"",
        tokens=_pack_tokens(records.tokens),
    )


def unpack_graph(column: bytes) -> Records:
    """Nodes, calls and tools of a pack.

    Raises:
        StoreError: if the column is damaged.
    """
    graph: _Graph = _decode(_graph_decoder, decompress(column))
    return Records(nodes=graph.nodes, calls=graph.calls, tools=graph.tools)


def unpack_contents(column: bytes) -> dict[bytes, bytes]:
    """The messages of a pack by address; bodies kept elsewhere are empty."""
    contents: dict[bytes, bytes] = _decode(_contents_decoder, decompress(column)) if column else {}
    return contents


def _decode(decoder: msgspec.msgpack.Decoder[Any], raw: bytes) -> Any:
    try:
        return decoder.decode(raw)
    except msgspec.MsgspecError as error:
        raise StoreError(f"damaged: {error}") from error


def _pack_tokens(tokens: list[TokenRecord]) -> bytes:
    """Three frames, each with its length before it: heads, ids, logprob planes."""
    if not tokens:
        return b""
    import numpy as np

    heads = [
        _Head(len(token.ids), len(token.logprobs), replace(token, ids=b"", logprobs=b"")) for token in tokens
    ]
    logprobs = np.frombuffer(b"".join(token.logprobs for token in tokens), dtype=np.uint8)
    columns = (
        _encoder.encode(heads),
        b"".join(token.ids for token in tokens),
        np.ascontiguousarray(logprobs.reshape(len(logprobs) // 4, 4).T).tobytes(),
    )
    frames = [compress(column) for column in columns]
    return b"".join(len(frame).to_bytes(8, "little") + frame for frame in frames)


def unpack_tokens(column: bytes) -> list[TokenRecord]:
    """The token records of a pack.

    Raises:
        StoreError: if the column is damaged.
    """
    if not column:
        return []
    import numpy as np

    frames = _frames(column)
    heads: list[_Head] = _decode(_heads_decoder, frames[0])
    ids = frames[1]
    logprobs = np.ascontiguousarray(
        np.frombuffer(frames[2], dtype=np.uint8).reshape(4, len(frames[2]) // 4).T
    ).tobytes()
    tokens, i, j = [], 0, 0
    for head in heads:
        ends = i + head.ids, j + head.logprobs
        tokens.append(replace(head.rest, ids=ids[i : ends[0]], logprobs=logprobs[j : ends[1]]))
        i, j = ends
    return tokens


def token_counts(column: bytes) -> dict[int, int]:
    """Tokens by node, without unpacking them.

    Raises:
        StoreError: if the column is damaged.
    """
    if not column:
        return {}
    heads: list[_Head] = _decode(_heads_decoder, _frames(column, 1)[0])
    return {head.rest.node: head.ids // 4 for head in heads}


def _frames(column: bytes, count: int = 3) -> list[bytes]:
    """The first frames of a token column."""
    frames, at = [], 0
    for _ in range(count):
        size = int.from_bytes(column[at : at + 8], "little")
        at += 8
        frames.append(decompress(column[at : at + size]))
        at += size
    return frames
