"""Samples into micro-batches of bounded length, the same number for every data-parallel rank."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from vfnb.errors import ConfigError
from vfnb.exchange.wire import MicroBatch

__all__ = ["Piece", "pack", "piece"]


@dataclass(frozen=True, slots=True)
class Piece:
    """One sample, cut to the sequence length. Lists have one entry per token."""

    ids: list[int]
    mask: list[bool]
    logprobs: list[float]
    advantage: float
    temperature: float
    env: str


def piece(sample: object, *, seq_len: int, temperature: float, env: str) -> Piece:
    """A `Sample` with an advantage as a piece: its first `seq_len` tokens."""
    cut = slice(0, seq_len)
    ids, mask, logprobs = (getattr(sample, name)[cut].tolist() for name in ("token_ids", "mask", "logprobs"))
    return Piece(ids, mask, logprobs, float(getattr(sample, "advantage", None) or 0.0), temperature, env)


def pack(pieces: Sequence[Piece], *, seq_len: int, ranks: int = 1, pad_to: int = 1) -> list[list[MicroBatch]]:
    """Micro-batches by rank, as many on each; the same input gives the same batches.

    Longest first, each into the first bin with room. Bins are split, then padded with dummies that train nothing,
    until their number is a multiple of `ranks`; they are dealt by length, there and back again.

    Args:
        pieces: at most `seq_len` tokens each.
        seq_len: tokens of a micro-batch.
        ranks: data-parallel size of the trainer.
        pad_to: its context-parallel size: lengths become a multiple of it.

    Raises:
        ConfigError: numbers below 1, or a `seq_len` that is no multiple of `pad_to`.
    """
    for name, value in (("seq_len", seq_len), ("ranks", ranks), ("pad_to", pad_to)):
        if value < 1:
            raise ConfigError(f"{name}={value} cannot be; give a number from 1")
    if seq_len % pad_to:
        raise ConfigError(f"seq_len={seq_len} is no multiple of pad_to={pad_to}")
    if not pieces:
        return []
    bins = _fit(pieces, seq_len)
    _split(bins, ranks)
    batches = [_batch(each, pad_to) for each in sorted(bins, key=_size, reverse=True)]
    while len(batches) % ranks:
        batches.append(_dummy(batches[-1]))
    dealt: list[list[MicroBatch]] = [[] for _ in range(ranks)]
    for place, batch in enumerate(batches):
        lap, seat = divmod(place, ranks)
        dealt[seat if lap % 2 == 0 else ranks - 1 - seat].append(batch)
    return dealt


def _size(pieces: Iterable[Piece]) -> int:
    return sum(len(one.ids) for one in pieces)


def _fit(pieces: Sequence[Piece], seq_len: int) -> list[list[Piece]]:
    bins: list[list[Piece]] = []
    rooms: list[int] = []
    for one in sorted(pieces, key=lambda one: len(one.ids), reverse=True):
        need = len(one.ids)
        place = next((place for place, room in enumerate(rooms) if room >= need), None)
        if place is None:
            bins.append([one])
            rooms.append(seq_len - need)
        else:
            bins[place].append(one)
            rooms[place] -= need
    return bins


def _split(bins: list[list[Piece]], ranks: int) -> None:
    """Halve the heaviest bins with more than one sample until the ranks come out even, or none is left."""
    while len(bins) % ranks:
        place = max(range(len(bins)), key=lambda place: (len(bins[place]) > 1, _size(bins[place])))
        if len(bins[place]) < 2:
            return
        halves: tuple[list[Piece], list[Piece]] = ([], [])
        for one in bins[place]:
            halves[_size(halves[1]) < _size(halves[0])].append(one)
        bins[place], other = halves
        bins.append(other)


def _batch(pieces: Sequence[Piece], pad_to: int) -> MicroBatch:
    lengths = [len(one.ids) for one in pieces]
    total = sum(lengths)
    more = -total % pad_to
    lengths[-1] += more
    return MicroBatch(
        input_ids=[token for one in pieces for token in one.ids] + [1] * more,
        loss_mask=[flag for one in pieces for flag in one.mask] + [False] * more,
        advantages=[one.advantage for one in pieces for _ in one.ids] + [0.0] * more,
        inference_logprobs=[value for one in pieces for value in one.logprobs] + [0.0] * more,
        position_ids=[place for one in pieces for place in range(len(one.ids))] + list(range(more)),
        sequence_lengths=lengths,
        temperatures=[one.temperature for one in pieces for _ in one.ids] + [1.0] * more,
        env_names=[one.env for one in pieces for _ in one.ids] + [""] * more,
        seq_lens=list(lengths),
    )


def _dummy(batch: MicroBatch) -> MicroBatch:
    """A batch of the same tokens that trains nothing."""
    count = len(batch.input_ids)
    return MicroBatch(
        input_ids=batch.input_ids,
        loss_mask=[False] * count,
        advantages=[0.0] * count,
        inference_logprobs=batch.inference_logprobs,
        position_ids=batch.position_ids,
        sequence_lengths=batch.sequence_lengths,
        temperatures=batch.temperatures,
        env_names=batch.env_names,
        seq_lens=batch.seq_lens,
    )
