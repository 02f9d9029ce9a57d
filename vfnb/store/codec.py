"""Journal rows and small compressed columns.

While a rollout runs, each `Delta` is one msgpack row of the journal. When it has ended, its graph becomes
one pack (`vfnb.trace.pack`). Bodies that other traces have too are left out of both and found in the
`contents` table.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable

import msgspec
import zstandard

from vfnb.errors import StoreError
from vfnb.trace.records import Delta, NodeRecord, TokenRecord

__all__ = ["Elsewhere", "Records", "compress", "decode_delta", "decompress", "encode_delta", "merge"]

_LEVEL = 3

Elsewhere = Callable[[bytes, bytes], bool]
"""Given address and body: is it kept in the contents table?"""


class Records(msgspec.Struct):
    """All records of one trace, as `trace_from_records` takes them. Bodies kept elsewhere are empty."""

    nodes: list[NodeRecord] = []
    contents: dict[bytes, bytes] = {}
    calls: list[bytes] = []
    tokens: list[TokenRecord] = []
    tools: dict[bytes, bytes] = {}


_encoder = msgspec.msgpack.Encoder()
_delta_decoder = msgspec.msgpack.Decoder(Delta)
_per_thread = threading.local()  # a (de)compressor may not be used by two threads at once


def compress(raw: bytes) -> bytes:
    """One zstd frame with its length and a checksum."""
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
    tool = getattr(_per_thread, "decompressor", None)
    if tool is None:
        tool = _per_thread.decompressor = zstandard.ZstdDecompressor()
    try:
        raw: bytes = tool.decompress(packed)
    except zstandard.ZstdError as error:
        raise StoreError(f"damaged: {error}") from error
    return raw


def encode_delta(delta: Delta, elsewhere: Elsewhere) -> bytes:
    """A journal row."""
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
