"""Samples into micro-batches of bounded length, the same number for every data-parallel rank."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from vfnb.errors import ConfigError
from vfnb.exchange.pieces import Piece, tensors, type_ids
from vfnb.exchange.wire import Experts, MicroBatch

__all__ = ["check_numbers", "pack"]


def check_numbers(*, seq_len: Any, ranks: Any, pad_to: Any) -> None:
    """
    Raises:
        ConfigError: what is no whole number above 0, or a `seq_len` that is no multiple of `pad_to`.
    """
    for name, value in (("seq_len", seq_len), ("ranks", ranks), ("pad_to", pad_to)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ConfigError(f"{name}={value!r} cannot be; give a whole number from 1")
    if seq_len % pad_to:
        raise ConfigError(f"seq_len={seq_len} is no multiple of pad_to={pad_to}")


def pack(pieces: Sequence[Piece], *, seq_len: int, ranks: int = 1, pad_to: int = 1) -> list[list[MicroBatch]]:
    """Micro-batches by rank, as many on each; the same input gives the same batches.

    Longest first, each into the first bin with room; pieces with and without expert routing do not share one, and
    one with images has its own. Bins are split, then padded with dummies that train nothing, until their number is
    a multiple of `ranks`; they are dealt by length, there and back again. Those with images come first, so that all
    ranks have the same kind at each place.

    Args:
        pieces: at most `seq_len` tokens each.
        seq_len: tokens of a micro-batch.
        ranks: data-parallel size of the trainer.
        pad_to: its context-parallel size: lengths become a multiple of it.

    Raises:
        ConfigError: as `check_numbers`.
    """
    check_numbers(seq_len=seq_len, ranks=ranks, pad_to=pad_to)
    dealt: list[list[MicroBatch]] = [[] for _ in range(ranks)]
    seen = [[one] for one in pieces if one.images is not None]
    plain = _fit([one for one in pieces if one.images is None], seq_len)
    _split(plain, ranks)
    for bins in (seen, plain):
        batches = [_batch(each, pad_to) for each in sorted(bins, key=_size, reverse=True)]
        while len(batches) % ranks:
            batches.append(_dummy(batches[-1]))
        for place, batch in enumerate(batches):
            lap, seat = divmod(place, ranks)
            dealt[seat if lap % 2 == 0 else ranks - 1 - seat].append(batch)
    return dealt if pieces else []


def _size(pieces: Iterable[Piece]) -> int:
    return sum(len(one.ids) for one in pieces)


def _routing(one: Piece) -> Any:
    """What pieces in one bin must have in common."""
    return None if one.experts is None else (one.experts.shape[1:], one.experts.dtype)


def _fit(pieces: Sequence[Piece], seq_len: int) -> list[list[Piece]]:
    bins: list[list[Piece]] = []
    rooms: list[int] = []
    for one in sorted(pieces, key=lambda one: len(one.ids), reverse=True):
        need, routing = len(one.ids), _routing(one)
        fits = (at for at, room in enumerate(rooms) if room >= need and _routing(bins[at][0]) == routing)
        place = next(fits, None)
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
    images = pieces[0].images
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
        routed_experts=_experts(pieces, more),
        mm_kwargs=tensors(images),
        mm_token_type_ids=None if images is None else type_ids(images) + [0] * more,
        rl_weights=_stream(pieces, "rl", 1.0, more),
        ce_weights=_stream(pieces, "ce", 0.0, more),
    )


def _stream(pieces: Sequence[Piece], name: str, other: float, more: int) -> list[float] | None:
    """A weight stream, there as soon as one sample has it; the others count as they would without it."""
    found = [getattr(one, name) for one in pieces]
    if all(stream is None for stream in found):
        return None
    values = [
        value
        for one, stream in zip(pieces, found, strict=True)
        for value in ([other] * len(one.ids) if stream is None else stream)
    ]
    return values + [0.0] * more


def _experts(pieces: Sequence[Piece], more: int) -> Experts | None:
    if pieces[0].experts is None:
        return None
    import numpy as np

    rows = np.concatenate([one.experts for one in pieces])
    return Experts.of(np.concatenate([rows, np.zeros((more, *rows.shape[1:]), rows.dtype)]))


def _dummy(batch: MicroBatch) -> MicroBatch:
    """A batch of the same tokens that trains nothing."""
    count = len(batch.input_ids)
    return msgspec.structs.replace(
        batch,
        loss_mask=[False] * count,
        advantages=[0.0] * count,
        rl_weights=None,
        ce_weights=None,
        ref_kl_weights=None,
    )
