"""Who samples tokens for a token client."""

from typing import TYPE_CHECKING

from vfnb.clients.engines.base import Generation, TokenEngine, TokenSampling
from vfnb.utils.lazy import lazy

if TYPE_CHECKING:
    from vfnb.clients.engines.embedded import Embedded as Embedded
else:
    __getattr__ = lazy(__name__, {"embedded": "Embedded"})

__all__ = ["Embedded", "Generation", "TokenEngine", "TokenSampling"]
