"""What the layers above may do to a call: look at it, change it by the rules, and stop the rollout."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

from vfnb.types import Message, Request, Response, ToolCall, ToolMessage

if TYPE_CHECKING:
    from vfnb.trace import Trace

__all__ = ["Edit", "Hooks"]


class Edit(NamedTuple):
    """What one hook made of one message."""

    hook: str
    before: Message
    after: Message
    cut: int = 0
    """UTF-8 bytes of the new text that were over the limit."""


class Hooks:
    """Base with no effect. All methods run on the engine loop and hand user code to threads and loops of its own.

    A session asks for a hook only if the flag beside it is set, so a rollout without hooks pays nothing
    and its streams stay live.
    """

    on_trace: bool = False
    """`trace` must be called before each model call."""
    on_request: bool = False
    """`request` must see each request; its messages are decoded for that."""
    edits_request: bool = False
    """`edit` may change the new messages of a request."""
    on_response: bool = False
    """`response` must see each whole turn; streams are buffered, with keepalives."""
    edits_response: bool = False
    """`answer` may change a turn; the same."""
    on_tool: bool = False
    """`tool` must be asked before a tool runs."""

    async def trace(self, trace: Trace) -> str | None:
        """Name of the stop that ends the rollout now, or None. Before each model call."""
        return None

    async def request(self, request: Request, trace: Trace) -> str | None:
        """Name of the stop that ends the rollout, or None. Before a request is sent."""
        return None

    async def edit(self, request: Request, first: int, trace: Trace) -> dict[int, list[Edit]]:
        """What takes the place of new messages, by position; the last edit of a list counts.

        Args:
            request: what the program sent.
            first: position of the first new message; the model knows those before it.
        """
        return {}

    async def response(self, response: Response, trace: Trace) -> str | None:
        """Name of the stop that ends the rollout, or None. Before a turn reaches the program.

        A stopped turn is recorded, and the program gets the stop reply in its place.
        """
        return None

    async def answer(self, response: Response, trace: Trace) -> tuple[Response, Sequence[Edit]]:
        """The turn that the program gets, and how it came about; without edits it is the model's own."""
        return response, ()

    async def tool(self, call: ToolCall, trace: Trace) -> tuple[str, ToolMessage] | None:
        """The hook that blocks a tool call and the result in its place, or None to let it run."""
        return None

    @property
    def whole_turns(self) -> bool:
        """Whether an answer must be complete before its first byte may go out."""
        return self.on_response or self.edits_response
