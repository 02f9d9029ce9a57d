"""What may be chosen in an export, checked before anything is read."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, Literal

from vfnb.errors import ConfigError
from vfnb.exchange.credit import METHODS, Advantage
from vfnb.exchange.packing import check_numbers

if TYPE_CHECKING:
    from vfnb.exchange.pieces import Images
    from vfnb.trace import Sample

__all__ = ["ExportOptions"]


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """What may be chosen; each format takes what concerns it."""

    env: str = ""
    """Name of the environment: the `name` of the source in prime-rl's configuration."""
    advantage: Advantage | None = "grpo"
    """As in `run.samples`; micro-batches need one."""
    agents: Sequence[str] | None = None
    """Roles under training; all by default."""
    seq_len: int = 8192
    """Tokens of a micro-batch. Longer samples are cut at the tail."""
    ranks: int = 1
    """Data-parallel size of the trainer."""
    pad_to: int = 1
    """Context-parallel size of the trainer."""
    step: int = 1
    """The training step that the micro-batches are for."""
    temperature: float | None = None
    """Of calls that have none on record."""
    min_reward: float | None = None
    """Rows for supervised fine-tuning only of traces with at least this reward."""
    weights: Literal["rollout"] | Callable[[Sample], dict[str, Any]] | None = None
    """Weight of each token in the loss. None: 1.0 on every trained token. `rollout`: the sample's `weight`, so that
    every rollout counts as much as the others. A function of the sample gives streams by name, `rl` and `ce`, with
    one number per token: `ce` trains tokens by their likelihood, sampled or not."""
    images: Callable[[Sample], Images] | None = None
    """For samples whose messages have images: a function that gives the arrays that the model needs
    (`vfnb.exchange.Images`), by the model's own processor. Without it they are refused."""

    def check(self, format: Any, known: Sequence[str]) -> None:
        """
        Raises:
            ConfigError: values that cannot be.
        """
        if format not in known:
            raise ConfigError(f"no export format {format!r}; there are {', '.join(known)}")
        self._check_kinds()
        if format != "prime-rl":
            return
        if self.env.strip() in ("", "all", "agg"):
            raise ConfigError(f"env={self.env!r} is no environment name in prime-rl; give its source's name")
        if self.advantage is None:
            raise ConfigError(f"advantage=None: prime-rl needs one of {', '.join(METHODS)}")

    def _check_kinds(self) -> None:
        if not isinstance(self.env, str):
            raise ConfigError(f"env={self.env!r} is no name")
        if self.advantage is not None and self.advantage not in METHODS:
            raise ConfigError(f"advantage={self.advantage!r} is unknown; give {', '.join(METHODS)} or None")
        agents = self.agents
        if agents is not None and (
            isinstance(agents, str)
            or not isinstance(agents, Sequence)
            or not all(isinstance(a, str) for a in agents)
        ):
            raise ConfigError(f"agents={agents!r} is no list of role names; give one such as ['agent']")
        if not isinstance(self.step, int) or isinstance(self.step, bool) or self.step < 1:
            raise ConfigError(f"step={self.step!r} cannot be; steps count from 1")
        check_numbers(seq_len=self.seq_len, ranks=self.ranks, pad_to=self.pad_to)
        for name, least in (("temperature", 0.0), ("min_reward", -math.inf)):
            value = getattr(self, name)
            number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
            if value is not None and not (number and value > least):
                above = " above 0" if least == 0.0 else ""
                raise ConfigError(f"{name}={value!r} cannot be; give a finite number{above}, or None")
        if self.weights not in (None, "rollout") and not callable(self.weights):
            raise ConfigError(f"weights={self.weights!r} is unknown; give 'rollout', a function or None")
        if self.images is not None and not callable(self.images):
            raise ConfigError(f"images={self.images!r} is no function of a sample")

    def record(self) -> dict[str, Any]:
        """As JSON values; functions by their names."""
        return {
            name: getattr(value, "__qualname__", repr(value)) if callable(value) else value
            for name, value in asdict(self).items()
        }
