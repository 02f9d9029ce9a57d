"""Replies by their ids, for programs that go on from one instead of sending the history again."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vfnb.dialects import RequestError, Splitter
from vfnb.trace.identity import Identity, same
from vfnb.types import Message

if TYPE_CHECKING:
    from vfnb.interception.turns import Turn
    from vfnb.trace.graph import MessageGraph

__all__ = ["Replies", "Said", "differ"]

Said = list[tuple[Message, Identity]]


class Replies:
    """The replies of one session that can be gone on from."""

    def __init__(self, graph: MessageGraph) -> None:
        self._graph = graph
        self._known: dict[str, tuple[int, Said]] = {}  # call, and the instructions that stand before it

    def note(self, reply: str, call: int, head: Said) -> None:
        """A call has this reply."""
        self._known[reply] = call, head

    def find(self, reply: str) -> int:
        """The node of a reply as the program got it.

        Raises:
            RequestError: 400 if this rollout has no such reply.
        """
        if reply not in self._known:
            text = f"Previous response with id {reply!r} not found: this rollout has no such reply."
            raise RequestError(text, code="previous_response_not_found")
        call = self._graph.calls[self._known[reply][0]]
        assert call.reply_node is not None
        return call.reply_node if call.shown_node is None else call.shown_node

    def head(self, reply: str) -> Said:
        """The instructions that the line of a reply has."""
        return self._known[reply][1]

    def body(self, turn: Turn, body: bytes) -> bytes:
        """What goes upstream: the history in place of a reply that the program got edited.

        Raises:
            ConfigError: the dialect cannot write messages.
        """
        if self._graph.calls[self._known[turn.previous][0]].shown_node is None:
            return body
        dialect = turn.dialect
        split = turn.split if body is turn.split.body else Splitter(dialect).split(body)
        before = self._graph.messages(turn.base)
        if differ(turn.head, self.head(turn.previous)):
            before += [message for message, _ in turn.head]
        items = dialect.encode(before)
        for item in map(bytes, split.all_items()):
            items += [item] if item[:1] == b"{" else dialect.encode(dialect.decode(item))
        gone: dict[str, bytes | None] = dict.fromkeys(key for key in dialect.head_keys if key in split.fields)
        return split.assemble(gone, history=dialect.history, items=items)


def differ(a: Said, b: Said) -> bool:
    """Whether two heads say different things."""
    return len(a) != len(b) or not all(same(x, y) for (_, x), (_, y) in zip(a, b, strict=True))
