"""What the layers above may do to a call: look at it, and stop the rollout."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vfnb.types import Request, Response

if TYPE_CHECKING:
    from vfnb.trace import Trace

__all__ = ["Hooks"]


class Hooks:
    """Base with no effect. All three run on the engine loop; hand user code to `vfnb.loops.user()`.

    A session asks for a hook only if the flag beside it is set, so a rollout without hooks pays nothing
    and its streams stay live.
    """

    on_trace: bool = False
    """`trace` must be called before each model call."""
    on_request: bool = False
    """`request` must see each request; its messages are decoded for that."""
    on_response: bool = False
    """`response` must see each whole turn; streams are buffered, with keepalives."""

    async def trace(self, trace: Trace) -> str | None:
        """Name of the stop that ends the rollout now, or None. Before each model call."""
        return None

    async def request(self, request: Request, trace: Trace) -> str | None:
        """Name of the stop that ends the rollout, or None. Before a request is sent."""
        return None

    async def response(self, response: Response, trace: Trace) -> str | None:
        """Name of the stop that ends the rollout, or None. Before a turn reaches the program.

        A stopped turn is recorded, and the program gets the stop reply in its place.
        """
        return None
