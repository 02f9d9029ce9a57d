"""What a token engine is: it gets token ids and gives token ids, with the log-probability of each."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, ClassVar, NamedTuple

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

__all__ = ["Generation", "ImageEngine", "Media", "TokenEngine", "TokenSampling"]

Progress = Callable[[str], None]


@dataclass(slots=True, frozen=True)
class TokenSampling:
    """How one completion is sampled. The defaults are plain sampling from the model's distribution."""

    max_tokens: int | None = None
    """Longest completion; None goes to the end of the context."""
    temperature: float = 1.0
    """0 is greedy."""
    top_p: float = 1.0
    top_k: int = 0
    """0 takes all."""
    min_p: float = 0.0
    seed: int | None = None
    stop: tuple[str, ...] = ()
    """Texts that end the completion; the tokens that hold them stay in it."""
    stop_token_ids: tuple[int, ...] = ()
    """Tokens that end the completion and stay in it."""
    extra: Mapping[str, Any] = field(default_factory=dict)
    """Keys of the engine's own, e.g. `repetition_penalty` or `structured_outputs` of vLLM."""


class Media(NamedTuple):
    """Where one image or the like stands in a prompt, in tokens `[begin, end)`."""

    begin: int
    end: int
    kind: int = 1
    """Token type, as in `mm_token_type_ids`: 1 image, 2 video, 3 audio."""


@dataclass(slots=True)
class Generation:
    """One completion."""

    token_ids: NDArray[np.int32]
    """int32[c]: the sampled tokens, the one that ended it included."""
    logprobs: NDArray[np.float32]
    """float32[c]: log-probability of each, under the distribution that it was sampled from."""
    finish_reason: str
    """`stop` or `length`."""
    prompt_ids: NDArray[np.int32] | None = None
    """int32[p]: the prompt as the engine saw it, where it is not the one given (images are expanded)."""
    cached_tokens: int = 0
    """Prompt tokens that the engine had already."""
    sampling_mask: NDArray[np.bool_] | None = None
    """bool[c]: False for tokens that were forced; None if all were sampled."""
    kept_tokens: tuple[NDArray[np.int32], NDArray[np.int32]] | None = None
    """What top_k, top_p and min_p left of the vocabulary: int32[k] ids, and int32[c] how many of them per token."""
    routed_experts: NDArray[Any] | None = None
    """[k, layers, top_k], for positions `experts_start` on."""
    experts_start: int = 0
    media: Sequence[Media] = ()
    """Where images stand in `prompt_ids`, in order."""


class TokenEngine(ABC):
    """A model that takes and gives tokens. One engine serves many rollouts; it is called on the engine loop."""

    model: str = ""
    """The model's name."""
    SUPPORTS: ClassVar[frozenset[str]] = frozenset()
    """Further settings that it honours in `TokenSampling.extra`, by their canonical names."""
    default_system: str | None = None
    """System message that the model's template puts in where there is none."""
    renderer: Any = None
    """The renderer that fits the model, as for `TrainClient`; None if the engine does not know."""
    seeds: bool = True
    """Whether a request may have a seed of its own; where not, it is left out and the call's record says so."""
    max_model_len: int | None = None
    """Longest prompt and completion together, in tokens; None until the engine has started."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """What makes answers comparable, for reuse: kind, model, weights. No secrets."""

    @abstractmethod
    def tokenizer(self) -> Any:
        """The model's tokenizer: `encode(text, add_special_tokens=)`, `decode(ids)`, `convert_tokens_to_ids`,
        `eos_token_id`."""

    def stop_ids(self) -> tuple[int, ...]:
        """The tokens that end a turn, for templates that do not say."""
        end = self.tokenizer().eos_token_id
        return () if end is None else (end,)

    def check(self) -> None:  # noqa: B027 -- optional
        """Fail early on what cannot work, without loading anything large.

        Raises:
            ConfigError: naming the fix.
        """

    async def start(self, progress: Progress | None = None) -> None:  # noqa: B027 -- optional
        """Load the model, if that has not been done.

        Raises:
            ModelError: it cannot be loaded.
        """

    @abstractmethod
    async def generate(
        self, prompt_ids: Sequence[int] | NDArray[np.int32], sampling: TokenSampling
    ) -> Generation:
        """Sample one completion. Cancelling the call ends the work for it.

        Raises:
            ContextLengthError: the prompt leaves no room for a token.
            ModelError: the engine failed.
        """

    @abstractmethod
    async def score(self, token_ids: Sequence[int] | NDArray[np.int32]) -> NDArray[np.float32]:
        """float32[n]: log-probability of each token after those before it, at temperature 1; 0.0 for the first.

        Raises:
            ContextLengthError: there are too many tokens.
            ModelError: the engine failed.
        """

    async def close(self) -> None:  # noqa: B027 -- optional
        """End what the engine runs. It may be started again."""

    async def release(self) -> None:
        """The last run that used it is over; an engine that takes long to load may stay."""
        await self.close()


class ImageEngine(TokenEngine):
    """A token engine whose model may see images."""

    @abstractmethod
    async def generate(
        self,
        prompt_ids: Sequence[int] | NDArray[np.int32],
        sampling: TokenSampling,
        images: Sequence[str] = (),
    ) -> Generation:
        """As any engine; `images` are URLs for the placeholders of the prompt, one each, in order.

        With images, `Generation.prompt_ids` and `media` say what became of the placeholders.
        """
