"""One sample as a trainer takes it: its tokens with what goes along with each of them, cut to a length."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from vfnb.errors import ConfigError
from vfnb.exchange.wire import Experts, Tensor, TrainingSample

__all__ = ["STREAMS", "Images", "Piece", "experts_of", "piece", "training_sample", "weights_of"]

STREAMS = ("rl", "ce")
"""Weight streams that a run can give; `ref_kl` needs logprobs of a reference model."""


@dataclass(frozen=True, slots=True)
class Images:
    """What a model with eyes gets besides the tokens of a sample."""

    type_ids: Any
    """int[n]: 0 text, 1 image, 2 video; an image is one run of equal numbers above 0. None from a function of the
    user's takes those of the trace, which an engine that sees images has given."""
    tensors: Mapping[str, Any]
    """Arrays by name, the images stacked along the first axis. With several images: `image_grid_thw`, whose rows
    are the images (frames, height, width in patches), and others with a row per image or per patch."""


@dataclass(frozen=True, slots=True)
class Piece:
    """One sample, cut to the sequence length. Lists have one entry per token."""

    ids: list[int]
    mask: list[bool]
    logprobs: list[float]
    advantage: float
    temperature: float
    env: str
    rl: list[float] | None = None
    ce: list[float] | None = None
    experts: Any = None
    """Unsigned array [n, layers, top_k]."""
    images: Images | None = None

    def __len__(self) -> int:
        return len(self.ids)

    def cut(self, length: int) -> Piece:
        """Its first tokens; an image is kept whole or not at all.

        Raises:
            ConfigError: the images do not tell how their arrays belong to them.
        """
        if length >= len(self):
            return self
        images = self.images
        if images is not None:
            length, images = _cut_images(images, length)
        return replace(
            self,
            ids=self.ids[:length],
            mask=self.mask[:length],
            logprobs=self.logprobs[:length],
            rl=None if self.rl is None else self.rl[:length],
            ce=None if self.ce is None else self.ce[:length],
            experts=None if self.experts is None else self.experts[:length],
            images=images,
        )


def piece(sample: Any, *, temperature: float, env: str) -> Piece:
    """A `Sample` with an advantage, without streams, experts and images."""
    ids, mask, logprobs = (getattr(sample, name).tolist() for name in ("token_ids", "mask", "logprobs"))
    return Piece(ids, mask, logprobs, float(sample.advantage or 0.0), temperature, env)


def weights_of(sample: Any, given: Any) -> dict[str, list[float]]:
    """The weight streams of a sample.

    Args:
        sample: a `Sample`.
        given: None for none, `"rollout"` for its `weight` on each trained token, or a function of the sample that
            gives streams by name.

    Raises:
        ConfigError: it gave something else.
    """
    import numpy as np

    if given is None:
        return {}
    streams = {"rl": np.where(sample.mask, sample.weight, 0.0)} if given == "rollout" else given(sample)
    if not isinstance(streams, Mapping):
        raise ConfigError(
            f"weights= gave {type(streams).__name__}, expected a mapping of {', '.join(STREAMS)}"
        )
    made = {}
    for name, values in streams.items():
        if name not in STREAMS:
            raise ConfigError(f"weights= gave a stream {name!r}; a run has {', '.join(STREAMS)}")
        array = np.asarray(values, np.float64)
        if array.shape != (len(sample),) or not np.isfinite(array).all():
            raise ConfigError(
                f"weights= gave for {name!r} an array of shape {array.shape}, expected {len(sample)} finite numbers"
            )
        made[name] = array.tolist()
    return made


def experts_of(sample: Any) -> Any:
    """The routed experts of a sample as unsigned numbers; None if it has none or some of its tokens lack them."""
    import numpy as np

    branch = sample.source
    rows = branch.routed_experts
    if rows is None or branch.experts_missing:
        return None
    return rows.astype(np.uint8 if not rows.size or int(rows.max()) < 256 else np.uint16)


def training_sample(one: Piece) -> TrainingSample:
    """A piece on the wire."""
    count = len(one)
    return TrainingSample(
        token_ids=one.ids,
        mask=one.mask,
        logprobs=one.logprobs,
        temperatures=[one.temperature] * count,
        env_name=one.env,
        mm_kwargs=tensors(one.images),
        routed_experts=None if one.experts is None else Experts.of(one.experts),
        mm_token_type_ids=None if one.images is None else type_ids(one.images),
        rl_weights=one.rl,
        ce_weights=one.ce,
        advantages=[one.advantage] * count,
    )


def tensors(images: Images | None) -> dict[str, Tensor] | None:
    """The arrays of images on the wire."""
    if images is None or not images.tensors:
        return None
    return {name: Tensor.of(array) for name, array in images.tensors.items()}


def type_ids(images: Images) -> list[int]:
    """The kind of each token."""
    import numpy as np

    found: list[int] = np.asarray(images.type_ids).tolist()
    return found


def _cut_images(images: Images, length: int) -> tuple[int, Images]:
    """A length that splits no image, and the images before it."""
    import numpy as np

    kinds = np.asarray(images.type_ids)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], kinds, [0]])))
    begins = [int(at) for at in edges if at < len(kinds) and kinds[at]]
    ends = [int(at) for at in edges if at and kinds[at - 1]]
    kept = sum(end <= length for end in ends)
    if kept < len(begins) and begins[kept] < length:
        length = begins[kept]
    if kept == len(begins):
        return length, replace(images, type_ids=kinds[:length])
    grid = images.tensors.get("image_grid_thw")
    if grid is None or len(grid) != len(begins):
        raise ConfigError(
            f"{len(begins)} images lie in a sample that is cut, but image_grid_thw has "
            f"{'no' if grid is None else len(grid)} rows: which arrays are theirs is not known; raise seq_len"
        )
    patches = int(np.prod(np.asarray(grid)[:kept], axis=1).sum()) if kept else 0
    rows = {name: kept if len(array) == len(grid) else patches for name, array in images.tensors.items()}
    left = {name: np.asarray(array)[: rows[name]] for name, array in images.tensors.items()} if kept else {}
    return length, Images(kinds[:length], left)
