"""Who samples tokens for a token client."""

from typing import TYPE_CHECKING

from vfnb.clients.engines.base import Generation, Media, TokenEngine, TokenSampling
from vfnb.utils.lazy import lazy

if TYPE_CHECKING:
    from vfnb.clients.engines.embedded import Embedded as Embedded
    from vfnb.clients.engines.vllm import VLLM as VLLM
else:
    __getattr__ = lazy(__name__, {"embedded": "Embedded", "vllm": "VLLM"})

__all__ = ["VLLM", "Embedded", "Generation", "Media", "TokenEngine", "TokenSampling"]
