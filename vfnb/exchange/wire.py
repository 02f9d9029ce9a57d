"""What prime-rl's orchestrator and trainer exchange: msgpack arrays, in the order of its own fields (0.8.0)."""

from __future__ import annotations

from typing import Any

import msgspec

__all__ = [
    "Experts",
    "MicroBatch",
    "Tensor",
    "TrainingSample",
    "decode_batches",
    "decode_samples",
    "encode_batches",
    "encode_samples",
]


class Experts(msgspec.Struct, array_like=True):
    """Routed experts of each token."""

    data: bytes
    """C order."""
    shape: list[int]
    """tokens, layers, top_k"""
    dtype: str
    """`uint8`, or `uint16` above 256 experts."""

    @classmethod
    def of(cls, rows: Any) -> Experts:
        """An array [tokens, layers, top_k] on the wire."""
        return cls(rows.tobytes(), list(rows.shape), str(rows.dtype))

    def rows(self) -> Any:
        """The array."""
        return _array(self.data, self.dtype, self.shape)


class Tensor(msgspec.Struct, array_like=True):
    """An input of the model besides the tokens, the images of a sample stacked along the first axis."""

    dtype: str
    shape: list[int]
    data: bytes

    @classmethod
    def of(cls, array: Any) -> Tensor:
        """An array on the wire."""
        return cls(str(array.dtype), list(array.shape), array.tobytes())

    def array(self) -> Any:
        """The array."""
        return _array(self.data, self.dtype, self.shape)


def _array(data: bytes, dtype: str, shape: list[int]) -> Any:
    import numpy as np

    return np.frombuffer(data, np.dtype(dtype)).reshape(shape)


class TrainingSample(msgspec.Struct, array_like=True):
    """One branch of a rollout. Every list has one entry per token."""

    token_ids: list[int]
    mask: list[bool]
    logprobs: list[float]
    temperatures: list[float]
    env_name: str
    ref_logprobs: list[float] | None = None
    mm_kwargs: dict[str, Tensor] | None = None
    routed_experts: Experts | None = None
    mm_token_type_ids: list[int] | None = None
    """0 text, 1 image, 2 video."""
    rl_weights: list[float] | None = None
    """None for 1.0 on each trained token."""
    ce_weights: list[float] | None = None
    ref_kl_weights: list[float] | None = None
    advantages: list[float] | None = None


class MicroBatch(msgspec.Struct, array_like=True):
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
    ref_logprobs: list[float] | None = None
    routed_experts: Experts | None = None
    mm_kwargs: dict[str, Tensor] | None = None
    mm_token_type_ids: list[int] | None = None
    rl_weights: list[float] | None = None
    ce_weights: list[float] | None = None
    ref_kl_weights: list[float] | None = None


def _row(struct: msgspec.Struct) -> list[Any]:
    """The fields of a record, without those at the end that are None."""
    values = [getattr(struct, name) for name in struct.__struct_fields__]
    while values and values[-1] is None:
        values.pop()
    return values


def encode_batches(batches: list[MicroBatch]) -> bytes:
    """The content of one `rank_K.bin`."""
    return msgspec.msgpack.encode([_row(batch) for batch in batches])


def decode_batches(raw: bytes) -> list[MicroBatch]:
    """What `encode_batches` wrote.

    Raises:
        msgspec.ValidationError: it is something else.
    """
    return msgspec.msgpack.decode(raw, type=list[MicroBatch])


def encode_samples(samples: list[TrainingSample]) -> bytes:
    """The content of `samples.msgpack`."""
    return msgspec.msgpack.encode([_row(sample) for sample in samples])


def decode_samples(raw: bytes) -> list[TrainingSample]:
    """What `encode_samples` wrote.

    Raises:
        msgspec.ValidationError: it is something else.
    """
    return msgspec.msgpack.decode(raw, type=list[TrainingSample])
