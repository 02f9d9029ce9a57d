"""Token columns: `int32` ids, `float32` logprobs and masks of all nodes, in arrays that only grow.

A node holds offsets. A trace without forks is one contiguous range, so a training sample of it is a view.
Growing copies into a larger array and leaves the old one to whoever still reads it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vfnb.errors import TraceError
from vfnb.trace.records import TokenRecord

__all__ = ["Experts", "Kept", "TokenColumns", "TokenTurn", "flips_of"]

Ids = NDArray[np.int32]
Logprobs = NDArray[np.float32]
Mask = NDArray[np.bool_]


@dataclass(slots=True)
class TokenTurn:
    """What a token client knows about one call.

    Arrays may be lists; they are converted once.
    """

    prompt_ids: Any
    """int32[p]: the prompt's tokens from position `start` on."""
    completion_ids: Any
    """int32[c]: the sampled tokens, stop token included if the engine returned it."""
    logprobs: Any
    """float32[c]: log-probability of each sampled token."""
    spans: Sequence[tuple[int, int]] = ()
    """Positions `[begin, end)` in the whole prompt of its last `len(spans)` messages, in order."""
    start: int = 0
    """How many leading tokens are those of the history, taken over unchanged and left out of `prompt_ids`."""
    content_mask: Any = None
    """bool[p + c]: which tokens are message text (not template); None for the sampled ones only."""
    sampling_mask: Any = None
    """bool[c]: which completion tokens the model sampled (not forced); None for all."""
    routed_experts: Any = None
    """[k, layers, top_k] of an unsigned type, for positions `experts_start` on (prompt and completion)."""
    experts_start: int = 0
    kept_tokens: Any = None
    """(int32[k], int32[c]): the tokens that top_k, top_p and min_p left for each completion token, and how many."""
    media: Sequence[tuple[int, int, int]] = ()
    """Positions `[begin, end)` in the whole prompt of its images and the like, in order, each with a token type."""

    def check(self) -> None:
        """Convert to arrays and compare lengths.

        Raises:
            TraceError: an array has another length than what it describes.
        """
        self.prompt_ids = np.asarray(self.prompt_ids, np.int32).reshape(-1)
        self.completion_ids = np.asarray(self.completion_ids, np.int32).reshape(-1)
        self.logprobs = np.asarray(self.logprobs, np.float32).reshape(-1)
        sampled = len(self.completion_ids)
        _length("logprobs", self.logprobs, sampled, "completion_ids")
        if np.isnan(self.logprobs).any():
            raise TraceError("logprobs contain NaN; give the engine's value of every sampled token")
        if self.content_mask is not None:
            self.content_mask = np.asarray(self.content_mask, np.bool_)
            _length(
                "content_mask", self.content_mask, len(self.prompt_ids) + sampled, "prompt and completion"
            )
        if self.sampling_mask is not None:
            self.sampling_mask = np.asarray(self.sampling_mask, np.bool_)
            _length("sampling_mask", self.sampling_mask, sampled, "completion_ids")
        end = self.start + len(self.prompt_ids)
        previous = 0
        for begin, stop in self.spans:
            if not previous <= begin <= stop <= end:
                raise TraceError(
                    f"message span ({begin}, {stop}) is out of order or beyond the prompt's {end} tokens"
                )
            previous = stop
        self._check_media(end)
        if self.kept_tokens is not None:
            ids, counts = (np.asarray(part, np.int32).reshape(-1) for part in self.kept_tokens)
            _length("kept_tokens' counts", counts, sampled, "completion_ids")
            if counts.min(initial=0) < 0 or counts.sum() != len(ids):
                raise TraceError(f"kept_tokens count {int(counts.sum())} tokens, but there are {len(ids)}")
            self.kept_tokens = Kept(ids, counts)
        if self.routed_experts is not None:
            self.routed_experts = np.asarray(self.routed_experts)
            rows = len(self.routed_experts)
            if self.routed_experts.ndim != 3 or self.experts_start + rows > end + sampled:
                raise TraceError(
                    f"routed_experts has shape {self.routed_experts.shape} from position {self.experts_start}, "
                    f"expected [at most {end + sampled - self.experts_start}, layers, top_k]"
                )

    def _check_media(self, end: int) -> None:
        previous = 0
        for begin, stop, kind in self.media:
            if not previous <= begin < stop <= end or not 0 < kind < 128:
                raise TraceError(
                    f"media ({begin}, {stop}, {kind}) is out of order, of no type, or beyond {end} prompt tokens"
                )
            previous = stop


def _length(name: str, array: NDArray[Any], expected: int, other: str) -> None:
    if array.shape != (expected,):
        raise TraceError(
            f"{name} has shape {array.shape}, but {other} has {expected} tokens; give one value per token"
        )


@dataclass(slots=True, frozen=True)
class Kept:
    """What was left of the vocabulary for each sampled token of a node: `counts[i]` of the `ids`, in order."""

    ids: Ids
    counts: Ids


@dataclass(slots=True, frozen=True)
class Experts:
    """Routed experts of positions `start ...` of the branch that ends at the node."""

    start: int
    rows: NDArray[Any]


@dataclass(slots=True)
class TokenColumns:
    """The columns. `size` tokens are in use; `ids[:size]` never changes once written."""

    ids: Ids = field(default_factory=lambda: np.empty(0, np.int32))
    logprobs: Logprobs = field(default_factory=lambda: np.empty(0, np.float32))
    """0.0 where nothing was sampled."""
    mask: Mask = field(default_factory=lambda: np.empty(0, np.bool_))
    """Sampled by the model."""
    flips: list[int] = field(default_factory=list)
    """Positions at which the content mask changes, from False at 0; increasing."""
    experts: dict[int, Experts] = field(default_factory=dict)
    """By node."""
    kept: dict[int, Kept] = field(default_factory=dict)
    """By node."""
    media: dict[int, Ids] = field(default_factory=dict)
    """By node: int32[k, 3], begin and end from the node's first token on, and token type."""
    size: int = 0

    def reserve(self, more: int) -> None:
        """Room for `more` tokens, with amortised constant cost per token."""
        need = self.size + more
        if need <= len(self.ids):
            return
        capacity = max(need, len(self.ids) * 3 // 2, 1024)
        for name in ("ids", "logprobs", "mask"):
            old = getattr(self, name)
            new = np.zeros(capacity, old.dtype)
            new[: self.size] = old[: self.size]
            setattr(self, name, new)

    def trim(self) -> None:
        """Give back spare capacity."""
        if len(self.ids) > self.size:
            self.ids = self.ids[: self.size].copy()
            self.logprobs = self.logprobs[: self.size].copy()
            self.mask = self.mask[: self.size].copy()

    def add(
        self,
        context: Ids,
        sampled: Ids | None = None,
        logprobs: Logprobs | None = None,
        sampling_mask: Mask | None = None,
        flips: Iterable[int] = (),
    ) -> tuple[int, int]:
        """Append one node's tokens; `flips` counts from the node's first token. Returns their range."""
        begin = self.size
        count = len(context) + (0 if sampled is None else len(sampled))
        self.reserve(count)
        middle, end = begin + len(context), begin + count
        self.ids[begin:middle] = context
        if sampled is not None:
            self.ids[middle:end] = sampled
            self.logprobs[middle:end] = 0.0 if logprobs is None else logprobs
            self.mask[middle:end] = True if sampling_mask is None else sampling_mask
        self._flip(begin, end, flips)
        self.size = end
        return begin, end

    def _flip(self, begin: int, end: int, flips: Iterable[int]) -> None:
        """Append one range's flips so that the mask is False again at its end; a flip at the seam cancels."""
        count = 0
        for position in flips:
            count += 1
            self._push(begin + position)
        if count % 2:
            self._push(end)

    def _push(self, position: int) -> None:
        if self.flips and self.flips[-1] == position:
            self.flips.pop()
        else:
            self.flips.append(position)

    def content(self, begin: int, end: int) -> Mask:
        """The content mask of a range, bool[end - begin]."""
        deltas = np.zeros(end - begin + 1, np.int8)
        inside = self.flip_positions(begin, end)
        start = self._inside(begin)
        deltas[0] = 1 if start else 0
        sign = -1 if start else 1
        signs = np.empty(len(inside), np.int8)
        signs[0::2], signs[1::2] = sign, -sign
        np.add.at(deltas, np.asarray(inside, np.int64) - begin, signs)
        return np.cumsum(deltas[:-1], dtype=np.int8).astype(np.bool_)

    def flip_positions(self, begin: int, end: int) -> list[int]:
        """The flips strictly inside a range."""
        from bisect import bisect_left, bisect_right

        return self.flips[bisect_right(self.flips, begin) : bisect_left(self.flips, end)]

    def _inside(self, position: int) -> bool:
        from bisect import bisect_right

        return bisect_right(self.flips, position) % 2 == 1

    def record(self, node: int, begin: int, end: int, lead: int) -> TokenRecord:
        """One node's tokens as a record."""
        middle = begin + lead
        mask = self.mask[middle:end]
        flips = [position - begin for position in self.flip_positions(begin, end)]
        if begin < end and self._inside(begin):
            flips.insert(0, 0)
        experts, kept, media = self.experts.get(node), self.kept.get(node), self.media.get(node)
        return TokenRecord(
            node=node,
            lead=lead,
            ids=self.ids[begin:end].tobytes(),
            logprobs=self.logprobs[middle:end].tobytes(),
            mask=None if mask.all() else mask.tobytes(),
            content=np.asarray(flips, np.int32).tobytes(),
            experts=None if experts is None else experts.rows.tobytes(),
            experts_dtype="" if experts is None else experts.rows.dtype.str,
            experts_shape=() if experts is None else experts.rows.shape,
            experts_start=0 if experts is None else experts.start,
            kept=None if kept is None else kept.ids.tobytes(),
            kept_counts=b"" if kept is None else kept.counts.tobytes(),
            media=b"" if media is None else media.tobytes(),
        )

    def restore(self, record: TokenRecord) -> tuple[int, int]:
        """Append a record's tokens; returns their range."""
        ids = np.frombuffer(record.ids, np.int32)
        lead = record.lead
        if not 0 <= lead <= len(ids):
            raise TraceError(f"token record of node {record.node} has lead {lead} of {len(ids)} tokens")
        mask = None if record.mask is None else np.frombuffer(record.mask, np.bool_)
        logprobs = np.frombuffer(record.logprobs, np.float32)
        if len(logprobs) != len(ids) - lead:
            raise TraceError(
                f"token record of node {record.node} has {len(logprobs)} logprobs for {len(ids) - lead} tokens"
            )
        flips = np.frombuffer(record.content, np.int32).tolist()
        if record.experts is not None:
            rows = np.frombuffer(record.experts, np.dtype(record.experts_dtype)).reshape(record.experts_shape)
            self.experts[record.node] = Experts(record.experts_start, rows)
        self.restore_beside(record.node, record.kept, record.kept_counts, record.media)
        return self.add(ids[:lead], ids[lead:], logprobs, mask, flips)

    def restore_beside(self, node: int, kept: bytes | None, counts: bytes, media: bytes) -> None:
        """Kept tokens and media of a record."""
        if kept is not None:
            self.kept[node] = Kept(np.frombuffer(kept, np.int32), np.frombuffer(counts, np.int32))
        if media:
            self.media[node] = np.frombuffer(media, np.int32).reshape(-1, 3)

    @property
    def nbytes(self) -> int:
        """Bytes held."""
        rows = sum(experts.rows.nbytes for experts in self.experts.values())
        rows += sum(kept.ids.nbytes + kept.counts.nbytes for kept in self.kept.values())
        return self.ids.nbytes + self.logprobs.nbytes + self.mask.nbytes + 36 * len(self.flips) + rows


def flips_of(mask: Mask) -> list[int]:
    """Positions at which a mask changes, from False before its start."""
    if not len(mask):
        return []
    flips = (np.flatnonzero(mask[1:] != mask[:-1]) + 1).tolist()
    if mask[0]:
        flips.insert(0, 0)
    return flips
