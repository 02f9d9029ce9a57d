"""The packed batches that prime-rl's trainer reads: msgpack arrays, in the order of its own fields (0.8.0)."""

from __future__ import annotations

import msgspec

__all__ = ["MicroBatch", "decode_batches", "encode_batches"]


class MicroBatch(msgspec.Struct, array_like=True, forbid_unknown_fields=False):
    """Some samples in one sequence. Every list but the two of lengths has one entry per token."""

    input_ids: list[int]
    loss_mask: list[bool]
    advantages: list[float]
    inference_logprobs: list[float]
    position_ids: list[int]
    """From 0 in each sample."""
    sequence_lengths: list[int]
    temperatures: list[float]
    env_names: list[str]
    seq_lens: list[int]


def encode_batches(batches: list[MicroBatch]) -> bytes:
    """The content of one `rank_K.bin`."""
    return msgspec.msgpack.encode(batches)


def decode_batches(raw: bytes) -> list[MicroBatch]:
    """What `encode_batches` wrote.

    Raises:
        msgspec.ValidationError: it is something else.
    """
    return msgspec.msgpack.decode(raw, type=list[MicroBatch])
