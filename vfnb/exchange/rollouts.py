"""Token samples on prime-rl's wire: a file of samples, and micro-batches for its trainer."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vfnb.errors import ConfigError
from vfnb.exchange.options import ExportOptions
from vfnb.exchange.packing import pack
from vfnb.exchange.pieces import Images, Piece, experts_of, piece, training_sample, weights_of
from vfnb.exchange.records import has_images
from vfnb.exchange.selection import Selection, temperature_of
from vfnb.exchange.wire import encode_batches, encode_samples

if TYPE_CHECKING:
    from vfnb.exchange.training import SampleList
    from vfnb.trace import Sample

__all__ = ["pieces_of", "write_batches", "write_samples"]

SAMPLES = "samples.msgpack"


def pieces_of(chosen: Selection, samples: SampleList, options: ExportOptions) -> list[Piece]:
    """Whole samples, each with its streams, experts and images.

    Raises:
        ConfigError: a function among the options gave something else than it should.
    """
    made = []
    for sample in samples:
        temperature = temperature_of(sample, options.temperature)
        assert isinstance(temperature, float)  # the others were refused
        one = piece(sample, temperature=temperature, env=options.env)
        streams = weights_of(sample, options.weights)
        made.append(
            replace(
                one,
                rl=streams.get("rl"),
                ce=streams.get("ce"),
                experts=_experts(chosen, sample),
                images=_images(chosen, sample, options),
            )
        )
    return _same_width(made)


def _experts(chosen: Selection, sample: Sample) -> Any:
    rows = experts_of(sample)
    if rows is None and sample.source.routed_experts is not None:
        reason = f"its expert routing is not carried: messages {sample.source.experts_missing} lack it"
        chosen.note(sample.trace_id, "rollouts", "warning", reason, sample.branch)
    return rows


def _same_width(pieces: list[Piece]) -> list[Piece]:
    """Experts of all samples in the same type: samples with different ones would not share a batch."""
    kinds = {one.experts.dtype for one in pieces if one.experts is not None}
    if len(kinds) < 2:
        return pieces
    widest = max(kinds, key=lambda kind: kind.itemsize)
    return [
        one if one.experts is None else replace(one, experts=one.experts.astype(widest)) for one in pieces
    ]


def _images(chosen: Selection, sample: Sample, options: ExportOptions) -> Images | None:
    rows = chosen.rows[sample.trace_id]
    if options.images is None or has_images([rows[index] for index in sample.source.path]) is None:
        return None
    import numpy as np

    given = options.images(sample)
    kinds = getattr(given, "type_ids", ())
    kinds = np.asarray(sample.source.token_types if kinds is None else kinds)
    if not isinstance(given, Images) or kinds.shape != (len(sample),) or kinds.dtype.kind not in "iu":
        raise ConfigError(
            f"images= gave {given!r:.80} for trace {sample.trace_id}, expected vfnb.exchange.Images with "
            f"{len(sample)} type_ids"
        )
    return Images(kinds, {str(name): np.ascontiguousarray(array) for name, array in given.tensors.items()})


def write_samples(pieces: list[Piece], folder: Path) -> dict[str, int]:
    """All samples in one file, whole."""
    if pieces:
        folder.mkdir()
        (folder / SAMPLES).write_bytes(encode_samples([training_sample(one) for one in pieces]))
    return {"samples": len(pieces)}


def write_batches(
    chosen: Selection, samples: SampleList, pieces: list[Piece], folder: Path, options: ExportOptions
) -> dict[str, int]:
    """Micro-batches by step and rank."""
    kept: list[Piece] = []
    for sample, whole in zip(samples, pieces, strict=True):
        cut = whole.cut(options.seq_len)
        if not any(cut.mask) and not any(cut.ce or ()):
            reason = f"nothing to train within {options.seq_len} tokens"
            chosen.note(sample.trace_id, "rollouts", "left out", reason, sample.branch)
            continue
        if len(cut) < len(whole):
            reason = f"cut to {len(cut)} of {len(whole)} tokens"
            chosen.note(sample.trace_id, "rollouts", "warning", reason, sample.branch)
        kept.append(cut)
    dealt = pack(kept, seq_len=options.seq_len, ranks=options.ranks, pad_to=options.pad_to)
    if dealt:
        place = folder / "rollouts" / f"step_{options.step}"
        place.mkdir(parents=True)
        for rank, batches in enumerate(dealt):
            (place / f"rank_{rank}.bin").write_bytes(encode_batches(batches))
    return {
        "rollout_samples": len(kept),
        "rollout_tokens_to_train": sum(sum(one.mask) for one in kept),
        "micro_batches_per_rank": len(dealt[0]) if dealt else 0,
    }
