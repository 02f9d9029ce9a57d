"""The graph of a stored trace without branches: its nodes and calls are made when somebody asks for one.

Most functions that score look at the messages alone, and most traces are one line: its messages come without a
graph around them.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import Any

from vfnb.trace.calls import calls_packed
from vfnb.trace.graph import MessageGraph
from vfnb.trace.identity import decode_content
from vfnb.trace.node import Node
from vfnb.trace.texts import Texts
from vfnb.types import Messages

__all__ = ["StoredLine"]

_LISTS = ("nodes", "calls", "roots")
_making = threading.Lock()


class StoredLine(MessageGraph):
    """A line of messages as it was stored, a whole graph on first use of anything but `line`.

    Args:
        texts: the distinct messages.
        content: per node: which message.
        call: per node: the call that added it.
        marks: what else is known of nodes, `(attribute, node, value)`.
        calls: the calls, packed.
        tools: tool lists by digest.
    """

    def __init__(
        self,
        texts: Texts,
        content: Sequence[int],
        call: Sequence[int],
        marks: Sequence[tuple[str, int, Any]],
        calls: bytes,
        tools: dict[str, bytes],
    ) -> None:
        # No attribute of a graph yet: that is how `__getattr__` learns that one is wanted.
        self._stored = texts, content, call, marks, calls, tools
        self._said: Messages | None = None
        self._opened: list[tuple[str, Any, Any]] = []
        self.tokenizer = None

    def line(self) -> Messages | None:
        """The messages; they are those of the nodes too."""
        if not self.folded:
            return super().line()
        if self._said is None:
            with _making:
                if self._said is None:
                    texts, content, *_ = self._stored
                    self._said = [decode_content(texts[place]) for place in content]
        return list(self._said)

    @property
    def folded(self) -> bool:
        """Whether the graph is not made yet."""
        return vars(self).keys().isdisjoint(_LISTS)

    def lists(self) -> list[tuple[str, Any, Any]]:
        """Its lists with copies of what they held when they were made; none while it is folded."""
        if not self.folded:
            self._make()
        return self._opened

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or "_stored" not in vars(self):
            raise AttributeError(name)
        self._make()
        try:
            return vars(self)[name]
        except KeyError:
            raise AttributeError(f"a message graph has no {name!r}") from None

    def _make(self) -> None:
        with _making:
            if self._opened:
                return
            graph = MessageGraph._loaded()
            texts, content, added, marks, calls, tools = self._stored
            nodes = graph.nodes
            for index, (place, call) in enumerate(zip(content, added, strict=True)):
                node = Node(index, index - 1, call)
                node._texts, node._raw, node.depth = texts, place, index
                node.children = [index + 1]
                nodes.append(node)
            nodes[-1].children = None
            for name, index, value in marks:
                setattr(nodes[index], name, value)
            for node, message in zip(nodes, self._said or (), strict=False):
                node._message = message
            graph.roots, graph.tips = [0], {0: len(nodes) - 1}
            graph._restore_calls(calls_packed(calls), {bytes.fromhex(key): raw for key, raw in tools.items()})
            graph.tokenizer = self.tokenizer
            opened = [(name, getattr(graph, name), list(getattr(graph, name))) for name in _LISTS]
            vars(self).update(vars(graph))
            self._opened = opened
