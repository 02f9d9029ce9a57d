"""Nodes as pydantic models: what a reader of a trace sees, made when asked for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, overload

from pydantic import BaseModel, ConfigDict, PrivateAttr

from vfnb.types import Message

if TYPE_CHECKING:
    from vfnb.trace.graph import MessageGraph, Node

__all__ = ["MessageNode", "NodeList"]


class MessageNode(BaseModel):
    """One message of a trace, in the place where it was said."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    index: int
    parent: int
    """Index of the message before it, -1 for a root."""
    message: Message
    sampled: bool = False
    """Whether the model produced it here."""
    partial: bool = False
    """Context that repeats the text of a cut stream."""
    call: int = 0
    """Index of the call that added it."""
    branch: int = 0
    """The branch that owns it: the index of that branch's first own node."""
    retokenized: int = -1
    """Position in the prompt at which its tokens leave those of the same message elsewhere; -1 if they do not."""
    _graph: Any = PrivateAttr(default=None)

    @property
    def role(self) -> str:
        """The message's role."""
        return self.message.role

    @property
    def text(self) -> str:
        """The message's text."""
        return self.message.text

    def _column(self, name: str) -> Any:
        graph: MessageGraph | None = self._graph
        if graph is None or graph.columns is None or not graph.nodes[self.index].has_tokens:
            return None
        node = graph.nodes[self.index]
        return getattr(graph.columns, name)[node.start : node.end]

    @property
    def token_ids(self) -> Any:
        """int32[n] of the tokens it adds, None without tokens."""
        return self._column("ids")

    @property
    def logprobs(self) -> Any:
        """float32[n], 0 where nothing was sampled; None without tokens."""
        return self._column("logprobs")

    @property
    def mask(self) -> Any:
        """bool[n], True where the model sampled; None without tokens."""
        return self._column("mask")

    @property
    def content_mask(self) -> Any:
        """bool[n], True for message text, False for template tokens; None without tokens."""
        if self.token_ids is None:
            return None
        node = self._graph.nodes[self.index]
        return self._graph.columns.content(node.start, node.end)

    def __repr__(self) -> str:
        text = self.text if len(self.text) <= 60 else self.text[:59] + "…"
        how = ", sampled" if self.sampled else ""
        return f"MessageNode({self.index} <- {self.parent}, {self.role}{how}: {text!r})"

    __str__ = __repr__


def view(graph: MessageGraph, node: Node) -> MessageNode:
    """The model of one node."""
    made = MessageNode.model_construct(
        index=node.index,
        parent=node.parent,
        message=node.message,
        sampled=node.sampled,
        partial=node.partial,
        call=node.call,
        branch=node.branch,
        retokenized=node.retokenized,
    )
    made._graph = graph
    return made


class NodeList(Sequence[MessageNode]):
    """The nodes of a trace in order of creation; each model is made on access."""

    def __init__(self, graph: MessageGraph) -> None:
        self._graph = graph

    def __len__(self) -> int:
        return len(self._graph.nodes)

    @overload
    def __getitem__(self, index: int) -> MessageNode: ...
    @overload
    def __getitem__(self, index: slice) -> list[MessageNode]: ...
    def __getitem__(self, index: int | slice) -> MessageNode | list[MessageNode]:
        if isinstance(index, slice):
            return [view(self._graph, node) for node in self._graph.nodes[index]]
        return view(self._graph, self._graph.nodes[index])

    def __iter__(self) -> Iterator[MessageNode]:
        for index in range(len(self)):
            yield self[index]

    def __repr__(self) -> str:
        return f"<{len(self)} nodes>"
