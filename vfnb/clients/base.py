"""What a model client is: it gets one call of a program and gives one reply, or a typed error."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from vfnb.clients.counting import estimate
from vfnb.clients.price import Price
from vfnb.dialects import Dialect, Split, StreamReader
from vfnb.errors import ModelError
from vfnb.trace.history import TokenHistory
from vfnb.types import Messages, Response, Tool

__all__ = ["ModelClient", "ModelRequest", "Reply"]


def _none() -> Messages:
    return []


def _no_history() -> TokenHistory | None:
    return None


@dataclass(slots=True)
class ModelRequest:
    """One call, as the program made it and with the run's settings beside it."""

    dialect: Dialect[Any, Any]
    body: bytes
    """The request as received."""
    split: Split | None = None
    """Its parts, if it has been split."""
    messages: Callable[[], Messages] = _none
    """All canonical messages, decoded when asked for."""
    tools: list[Tool] = field(default_factory=list)
    model: str = ""
    """What the program asked for."""
    asked: Mapping[str, Any] | None = None
    """The settings that it asked for, under canonical names, if they have been read."""
    sampling: Mapping[str, Any] = field(default_factory=dict)
    """The run's settings; they win over the program's. `extra_body` holds keys to add as they are."""
    stream: bool = False
    headers: Mapping[str, str] = field(default_factory=dict)
    """The program's headers that may go upstream."""
    deadline: float | None = None
    """Latest end, in seconds of the loop's clock."""
    rollout_id: str = ""
    history: Callable[[], TokenHistory | None] = _no_history
    """The tokens that the conversation has already, for clients that go on from them."""


@dataclass(slots=True)
class Reply:
    """One answer: `body` of a plain call or `chunks` of a stream, in the dialect of the request."""

    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)
    response: Response | None = None
    """The canonical answer, if the client has it: always for plain calls, never for relayed streams."""
    body: bytes | None = None
    chunks: AsyncIterator[bytes] | None = None
    """Raw stream; raises `ModelError`s. Closing it (`aclose`) ends the upstream call."""
    reader: StreamReader | None = None
    """Reads `chunks` and gives what the program gets, if they are in another dialect than the request."""
    secrets: Callable[[], tuple[str, ...]] = tuple
    """What an error inside the stream may not repeat, e.g. the key; some servers do."""
    dropped: list[str] = field(default_factory=list)
    """What of the request could not be carried to the upstream's dialect."""
    tokens: Any = None
    """A token turn (`vfnb.trace.tokens`), if the client knows the exact tokens."""
    sampling_sent: dict[str, Any] = field(default_factory=dict)
    """The settings that the model got."""
    served_model: str = ""
    replayed: bool = False
    """The answer came from a record, not from a model."""
    failed: list[ModelError] = field(default_factory=list)
    """Tries that failed before this answer."""
    first_byte: float | None = None
    """When the first byte came, in unix seconds."""


class ModelClient(ABC):
    """Who answers calls. One client serves many rollouts; it runs on the engine loop."""

    name: str = ""
    """The model's name for display."""
    price: Price | None = None
    """For the cost of calls whose upstream gives none."""

    @abstractmethod
    def identity(self) -> dict[str, Any]:
        """What makes answers comparable, for reuse: kind, model, endpoint. No secrets."""

    @abstractmethod
    async def call(self, request: ModelRequest) -> Reply:
        """Answer one call.

        Raises:
            ModelError: by what went wrong.
        """

    async def count(self, request: ModelRequest) -> int | bytes:
        """How many tokens the prompt has, or the upstream's own reply to that question.

        Here an estimate, see `vfnb.clients.counting.estimate`; a client that has a tokenizer knows better.

        Raises:
            ModelError: the upstream was asked and did not say.
        """
        return estimate(request.messages(), request.tools)

    def settings(self) -> dict[str, Any] | None:
        """The arguments that make this client again, as TOML values without secrets; None if no file can."""
        return None

    def asks(self) -> tuple[ModelClient, ...]:
        """Other clients that this one passes calls on to."""
        return ()

    def check(self) -> None:  # noqa: B027 -- optional
        """Fail early on what cannot work.

        Raises:
            ConfigError: naming the fix.
        """

    async def probe(self, timeout: float = 5.0) -> None:  # noqa: B027 -- optional
        """Ask whether the model is there at all.

        Raises:
            ModelError: if it is not.
        """

    async def close(self) -> None:  # noqa: B027 -- optional
        """Let go of connections. The client may be used again afterwards."""
