"""Rewritten requests: what goes upstream in the program's words' place, now and in every later turn.

The program does not know that a message was rewritten and sends its own words again with each call. They are
pinned: in the graph they match the node with the new words, and on the wire the new words replace them. So the
history stays a prefix of the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec

from vfnb.errors import ConfigError
from vfnb.trace.calls import Rewrite
from vfnb.trace.identity import Identity, content, identity
from vfnb.types import Message

if TYPE_CHECKING:
    from vfnb.interception.hooks import Edit
    from vfnb.interception.turns import Turn
    from vfnb.trace.graph import MessageGraph

__all__ = ["Known", "Pins", "rewrites_of"]

_SPOKEN = ("user", "tool")


class Known(NamedTuple):
    """A remembered history with rewritten items."""

    node: int
    """Its last message."""
    items: dict[int, bytes]
    """The rewritten items, by their position in the program's history."""


class Pins:
    """The rewritten messages of one session."""

    def __init__(self, graph: MessageGraph) -> None:
        self._graph = graph
        self._nodes: set[int] = set()

    def apply(self, turn: Turn, edits: dict[int, list[Edit]], first: int) -> list[Rewrite]:
        """Put edits into a turn; returns their records.

        Args:
            edits: by position in the whole prompt.
            first: position of the turn's first new message.
        """
        records: list[Rewrite] = []
        pins: dict[int, Identity] = {}
        for position, made in sorted(edits.items()):
            place = position - first
            back = len(turn.new) - 1 - place
            pins[back] = turn.new[place][1]
            after = made[-1].after
            turn.new[place] = after, identity(after)
            records += rewrites_of("request", made, back)
        turn.pins = pins
        return records

    def pin(self, turn: Turn, prompt_node: int) -> None:
        """Pin the rewritten messages of a turn whose prompt is recorded and ends in this node."""
        node, back = prompt_node, 0
        for wanted, said in sorted(turn.pins.items()):
            while back < wanted:
                node, back = self._graph.nodes[node].parent, back + 1
            self._graph.pin(said, node)
            self._nodes.add(node)

    def mark(self, turn: Turn, prompt_node: int) -> int | Known | None:
        """What a splitter should remember of this history; None for nothing: it did not come to be sent."""
        if turn.replaced is None:
            return None
        return Known(prompt_node, turn.replaced) if turn.replaced else prompt_node

    def body(self, turn: Turn) -> bytes:
        """The request with all rewritten messages in place; the program's own bytes if there are none.

        Raises:
            ConfigError: the dialect cannot write what has to be written.
        """
        split = turn.split
        base = turn.base
        replaced: dict[int, bytes] = {}
        if isinstance(split.known, Known):
            base, replaced = split.known.node, dict(split.known.items)
        elif isinstance(split.known, int):
            base = split.known
        spoken = self._spoken(turn, base)
        if any(pinned for _, pinned in spoken):
            self._replace(turn, spoken, replaced)
        turn.replaced = replaced
        if not replaced:
            return split.body
        items: list[Any] = list(split.all_items())
        for position, raw in replaced.items():
            items[position] = raw
        return split.assemble({}, history=turn.dialect.history, items=items)

    def _spoken(self, turn: Turn, base: int) -> list[tuple[Message, bool]]:
        """The user and tool messages after the known history, as the model gets them, and whether rewritten."""
        nodes = self._graph.nodes
        above: list[tuple[Message, bool]] = []
        node = turn.parent
        while node != base and node >= 0:
            above.append((nodes[node].message, node in self._nodes))
            node = nodes[node].parent
        above.reverse()
        last = len(turn.new) - 1
        new = [(message, last - place in turn.pins) for place, (message, _) in enumerate(turn.new)]
        return [(message, pinned) for message, pinned in [*above, *new] if message.role in _SPOKEN]

    def _replace(self, turn: Turn, spoken: list[tuple[Message, bool]], replaced: dict[int, bytes]) -> None:
        """Write the items anew whose messages were rewritten."""
        dialect, split = turn.dialect, turn.split
        if dialect.history is None:
            raise ConfigError(
                f"dialect {dialect.name!r} cannot rewrite requests: define history, decode(item) and "
                "encode(messages)"
            )
        rest = iter(spoken)
        for position, item in enumerate(split.items, split.n_known):
            messages: list[Message] = []
            changed = False
            for message in dialect.decode(_raw(item)):
                if message.role in _SPOKEN:
                    shown, pinned = next(rest)
                    message = shown if pinned else message
                    changed = changed or pinned
                messages.append(message)
            if changed:
                replaced[position] = dialect.rewrite(item, messages)


def _raw(item: Any) -> msgspec.Raw:
    return item if isinstance(item, msgspec.Raw) else msgspec.Raw(item)


def rewrites_of(stage: str, edits: Sequence[Edit], back: int = 0) -> list[Rewrite]:
    """The records of edits that were made one after the other to one message."""
    last = len(edits) - 1
    return [
        Rewrite(
            hook=edit.hook,
            stage=stage,
            before=content(edit.before)[1].decode(),
            after=None if place == last else content(edit.after)[1].decode(),
            back=back,
            cut=edit.cut,
        )
        for place, edit in enumerate(edits)
    ]
