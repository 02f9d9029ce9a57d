"""One node of the message graph: plain slots, its message decoded when somebody looks at it."""

from __future__ import annotations

from collections.abc import Sequence

from vfnb.trace.identity import Identity, address, decode_content, identity
from vfnb.trace.texts import Texts
from vfnb.types import Message

__all__ = ["Node", "distinct"]


class Node:
    """One message of the graph, in the place where it was said."""

    __slots__ = (
        "_identity",
        "_key",
        "_message",
        "_raw",
        "_texts",
        "bare",
        "branch",
        "call",
        "children",
        "covered",
        "depth",
        "end",
        "index",
        "lead",
        "parent",
        "partial",
        "retokenized",
        "sampled",
        "start",
        "total",
    )

    index: int
    parent: int
    """-1 for a root."""
    depth: int
    """Messages before it."""
    call: int
    """The call that added it."""
    sampled: bool
    partial: bool
    """Context that repeats the text of a cut stream."""
    branch: int
    """The branch that owns it: the index of that branch's first own node."""
    children: list[int] | None
    bare: bool
    """On this path a reply was sent back without its reasoning."""
    start: int
    """Its token range is `[start, end)` of the columns, -1 without tokens; the first `lead` were not sampled."""
    end: int
    lead: int
    total: int
    """Tokens from the root through this node."""
    covered: int
    """Positions from the root for which routed experts are known."""
    retokenized: int

    def __init__(self, index: int, parent: int, call: int) -> None:
        self.index, self.parent, self.call = index, parent, call
        self.sampled = self.partial = self.bare = False
        self.depth = self.branch = 0
        self.children = None
        self.start = self.end = self.retokenized = -1
        self.lead = self.total = self.covered = 0
        self._identity: Identity | None = None
        self._message: Message | None = None
        self._key: bytes | None = None
        self._raw: bytes | int = b""  # the text, or its place in `_texts`
        self._texts: Texts | None = None

    @property
    def raw(self) -> bytes:
        """The message as JSON."""
        return self._raw if isinstance(self._raw, bytes) else self._texts[self._raw]  # type: ignore[index]

    @property
    def content_key(self) -> bytes:
        """The message's content address, 16 bytes."""
        if self._key is None:
            self._key = address(self.raw)
        return self._key

    @property
    def message(self) -> Message:
        """The message, decoded on first use."""
        if self._message is None:
            self._message = decode_content(self.raw)
        return self._message

    @property
    def identity(self) -> Identity:
        """What it is matched by, computed on first use."""
        if self._identity is None:
            self._identity = identity(self.message)
        return self._identity

    @property
    def has_tokens(self) -> bool:
        """Whether its tokens are known."""
        return self.end >= 0

    def __repr__(self) -> str:
        mark = "sampled" if self.sampled else "context"
        return f"Node({self.index}, parent={self.parent}, {mark})"


def distinct(nodes: Sequence[Node]) -> tuple[list[bytes], list[int]]:
    """The different texts of some nodes, and for each node which one is its own."""
    place: dict[bytes, int] = {}
    texts: list[bytes] = []
    places = []
    for node in nodes:
        where = place.get(node.content_key)
        if where is None:
            where = place[node.content_key] = len(texts)
            texts.append(node.raw)
        places.append(where)
    return texts, places
