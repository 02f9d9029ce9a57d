"""Rows 10, 11 and 12: one trace of 200 turns with tokens on disk, and as training samples."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager

import msgspec
import numpy as np
import zstandard

from benchmarks.data import Turn, conversation
from benchmarks.measure import Figures, Metric, Row, Sides, cpu_ms
from benchmarks.peer import setup
from benchmarks.processes import json_program, python

__all__ = ["ROWS"]

TURNS, COPIES = 200, 200
SHAPES = ("linear", "compaction", "subagents")


def columns(turns: list[Turn]) -> dict[str, object]:
    """Every message once, every token once, as plain columns."""
    messages: list[object] = []
    ids: list[int] = []
    logprobs: list[float] = []
    sampled: list[bool] = []
    for turn in turns:
        new = turn.prompt_ids[turn.spans[0][0] :] if turn.spans else []
        messages += [*turn.messages[turn.known :], turn.reply]
        ids += new + turn.completion_ids
        logprobs += turn.logprobs
        sampled += [False] * len(new) + [True] * len(turn.completion_ids)
    return {
        "messages": messages,
        "ids": np.asarray(ids, np.int32).tobytes(),
        "logprobs": np.asarray(logprobs, np.float32).tobytes(),
        "sampled": np.packbits(np.asarray(sampled)).tobytes(),
    }


def floor(shape: str) -> Figures:
    turns = list(conversation(shape, TURNS))
    data = columns(turns)
    encode, decode = msgspec.msgpack.Encoder().encode, msgspec.msgpack.Decoder().decode
    compress, expand = zstandard.ZstdCompressor(3).compress, zstandard.ZstdDecompressor().decompress
    packed = compress(encode(data))
    parts = [np.asarray(turn.completion_ids, np.int32) for turn in turns for _ in range(2)]
    parts += [np.asarray(turn.logprobs, np.float32) for turn in turns for _ in range(2)]
    half = len(parts) // 2
    return {
        "bytes_mb": len(packed) / 1e6,
        "write_ms": cpu_ms(lambda: compress(encode(data))),
        "read_ms": cpu_ms(lambda: decode(expand(packed))),
        "decode_ms": cpu_ms(lambda: decode(expand(packed))),
        "samples_ms": cpu_ms(lambda: [np.concatenate(parts[:half]), np.concatenate(parts[half:])]),
    }


@contextmanager
def open_disk(peer: bool) -> Iterator[Sides]:
    with tempfile.TemporaryDirectory() as folder:
        json_program([*python("ours.disk"), "write", folder, COPIES])
        yield sides_of(folder, peer)


def sides_of(folder: str, peer: bool) -> Sides:
    def ours() -> Figures:
        command = python("ours.disk")
        figures = json_program([*command, "linear", TURNS])
        sizes = {count: json_program([*command, "linear", count])["bytes_mb"] for count in (10, 500)}
        early = (figures["bytes_mb"] - sizes[10]) / (TURNS - 10)
        late = (sizes[500] - figures["bytes_mb"]) / (500 - TURNS)
        figures["slope"] = 100 * abs(late / early - 1)
        for shape in SHAPES[1:]:
            figures[f"samples_{shape}_ms"] = json_program([*command, shape, TURNS])["samples_ms"]
        return figures | json_program([*command, "load", folder])

    def peers() -> Figures:
        command = python("peer.disk", setup.PYTHON)
        figures = json_program([*command, "linear", TURNS])
        for shape in SHAPES[1:]:
            figures[f"samples_{shape}_ms"] = json_program([*command, shape, TURNS])["samples_ms"]
        return figures | json_program([*command, "linear", TURNS, COPIES])

    def floors() -> Figures:
        figures = floor("linear")
        return figures | {f"samples_{shape}_ms": figures["samples_ms"] for shape in SHAPES[1:]}

    sides: Sides = {"floor": floors, "ours": ours}
    return sides | {"peer": peers} if peer else sides


ROWS = [
    Row(
        "10-12",
        "a 200-turn trace with 207 k tokens; floor: msgpack columns in zstd, numpy concatenation",
        [
            Metric("bytes_mb", "10: on disk", "MB", 1.05),
            Metric("slope", "10: change of bytes per turn, 10 to 500 turns", "%", 2.0),
            Metric("write_ms", "11: write at the end", "ms", 15),
            Metric("journal_ms", "11: 200 durable writes before that", "ms"),
            Metric("read_ms", "11: read", "ms", 10),
            Metric("decode_ms", "11: read, all messages decoded", "ms"),
            Metric("open_s", "11: 200 such traces, open", "s", 0.2),
            Metric("load_s", "11: 200 such traces, load", "s", 2.5),
            Metric("load_mb", "11: 200 such traces, memory", "MB", 600),
            Metric("kept_mb", "16: memory of a finished trace that is kept", "MB", 2.7),
            Metric("samples_ms", "12: samples, no branches", "ms", 0.1),
            Metric("samples_compaction_ms", "12: samples, compaction", "ms", 3.0),
            Metric("samples_subagents_ms", "12: samples, 8 subagents", "ms", 3.0),
        ],
        open_disk,
    )
]
