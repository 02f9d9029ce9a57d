"""Where one call's tokens go: which node gets which range, and whether the prompt's tokens left the history's."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from vfnb.errors import TraceError
from vfnb.trace.calls import ModelCall
from vfnb.trace.identity import Identity
from vfnb.trace.records import Delta
from vfnb.trace.tokens import Experts, Ids, TokenColumns, TokenTurn, flips_of
from vfnb.types import Message, Usage

if TYPE_CHECKING:
    from vfnb.trace.graph import MessageGraph, Node

__all__ = ["Placing"]


class Placing:
    """Checked before anything is recorded (`parent`, `new`), carried out after the nodes exist (`place`).

    If the prompt's tokens differ from those of the matched history, the history from there on is laid down again
    as context with the tokens that were really sent.
    """

    def __init__(
        self, graph: MessageGraph, turn: TokenTurn, parent: int, new: Sequence[tuple[Message, Identity]]
    ) -> None:
        turn.check()
        self.graph, self.turn, self.parent, self.new = graph, turn, parent, new
        self.columns: TokenColumns = graph._columns()
        self.retokenized = -1
        base = self._tokened(parent)
        known = graph.nodes[base].total if base >= 0 else 0
        if turn.start > known:
            raise TraceError(f"prompt_ids start at position {turn.start}, but the history has {known} tokens")
        self._history = self._ids(base, turn.start)
        overlap = min(len(self._history), len(turn.prompt_ids))
        differ = np.flatnonzero(self._history[:overlap] != turn.prompt_ids[:overlap])
        if len(differ) or overlap < len(self._history):
            self._diverge(turn.start + (int(differ[0]) if len(differ) else overlap))

    def _tokened(self, node: int) -> int:
        """The nearest node upwards that has tokens, -1 for none."""
        nodes = self.graph.nodes
        while node >= 0 and not nodes[node].has_tokens:
            node = nodes[node].parent
        return node

    def _ids(self, node: int, start: int) -> Ids:
        """The branch's token ids from position `start` through `node`."""
        pieces = []
        nodes = self.graph.nodes
        while node >= 0 and nodes[node].total > start:
            pieces.append(self.columns.ids[nodes[node].start : nodes[node].end])
            if nodes[node].total - len(pieces[-1]) <= start:
                pieces[-1] = pieces[-1][start - nodes[node].total + len(pieces[-1]) :]
            node = nodes[node].parent
        return np.concatenate(pieces[::-1]) if pieces else np.empty(0, np.int32)

    def _diverge(self, position: int) -> None:
        """Go back to before the message that holds `position`, then down any branch that has these tokens."""
        nodes = self.graph.nodes
        again: list[tuple[Message, Identity]] = []
        node = self.parent
        while node >= 0:
            again.append((nodes[node].message, nodes[node].identity))
            here, node = nodes[node], nodes[node].parent
            if here.has_tokens and here.total - (here.end - here.start) <= position:
                break
        again.reverse()
        items = [*again, *self.new]
        self.retokenized = position
        while items and (child := self._same_tokens(node, items[0][1])) is not None:
            node = child
            items.pop(0)
            self.retokenized = -1
        self.parent, self.new = node, items

    def _same_tokens(self, parent: int, wanted: Identity) -> int | None:
        nodes = self.graph.nodes
        base = nodes[parent].total if parent >= 0 else 0
        for index in self.graph._candidates(parent, wanted):
            child = nodes[index]
            if not child.has_tokens:
                continue
            ids = self.columns.ids[child.start : child.end]
            if np.array_equal(ids, self._tail(base)[: len(ids)]):
                return index
        return None

    def _tail(self, base: int) -> Ids:
        """The prompt's ids from position `base` on."""
        start, turn = self.turn.start, self.turn
        if base >= start:
            ids: Ids = turn.prompt_ids[base - start :]
            return ids
        history = self._ids(self._tokened(self.parent), base)[: start - base]
        return np.concatenate([history, turn.prompt_ids])

    def place(self, call: ModelCall, delta: Delta) -> None:
        """Give the call's nodes their tokens and fill in a missing `usage`."""
        graph, turn = self.graph, self.turn
        nodes = graph.nodes
        pending: list[Node] = []
        node = call.prompt_node
        while node >= 0 and not nodes[node].has_tokens:
            pending.append(nodes[node])
            node = nodes[node].parent
        pending.reverse()
        if self.retokenized >= 0 and pending:
            pending[0].retokenized = self.retokenized
        base = nodes[node].total if node >= 0 else 0
        tail = self._tail(base)
        whole = base + len(tail)
        content = self._content(base, len(tail))
        ends = self._ends(len(pending), base, whole)
        cursor = base
        for item, end in zip(pending, ends, strict=True):
            flips = flips_of(content[cursor - base : end - base]) if content is not None else []
            self._media(item, cursor, end)
            self._give(
                item, end - cursor, self.columns.add(tail[cursor - base : end - base], flips=flips), delta
            )
            cursor = end
        assert call.reply_node is not None
        reply = nodes[call.reply_node]
        lead = whole - cursor
        if content is not None:
            flips = flips_of(content[cursor - base :])
        else:
            flips = [lead, lead + len(turn.completion_ids)] if len(turn.completion_ids) else []
        added = self.columns.add(
            tail[cursor - base :], turn.completion_ids, turn.logprobs, turn.sampling_mask, flips
        )
        self._experts(reply)
        self._media(reply, cursor, whole)
        if turn.kept_tokens is not None:
            self.columns.kept[reply.index] = turn.kept_tokens
        self._give(reply, lead, added, delta)
        if call.usage is None:
            call.usage = Usage(prompt_tokens=whole, completion_tokens=len(turn.completion_ids))

    def _ends(self, count: int, base: int, whole: int) -> list[int]:
        """Where each pending message ends; tokens between two spans belong to the later message."""
        spans = list(self.turn.spans)[-count:] if count else []
        if not spans:
            return [base] * (count - 1) + [whole] if count else []
        ends = [base] * (count - len(spans))
        return ends + [max(base, stop) for _, stop in spans]

    def _content(self, base: int, length: int) -> np.ndarray[tuple[int], np.dtype[np.bool_]] | None:
        """The content mask from position `base` on; what lies before `start` counts as content."""
        mask = self.turn.content_mask
        if mask is None:
            return None
        missing = self.turn.start - base
        if missing > 0:
            return np.concatenate([np.ones(missing, np.bool_), mask])
        kept: np.ndarray[tuple[int], np.dtype[np.bool_]] = mask[-missing:] if missing else mask
        return kept

    def _give(self, node: Node, lead: int, added: tuple[int, int], delta: Delta) -> None:
        graph = self.graph
        above = graph.nodes[node.parent] if node.parent >= 0 else None
        node.lead, node.start = lead, added[0]
        node.end = added[1]  # last: readers take a node's tokens as known from here on
        node.total = (above.total if above else 0) + node.end - node.start
        if above is not None:
            node.covered = max(node.covered, above.covered)
            if node.start != above.end:
                graph.linear = False
        delta.tokens.append(self.columns.record(node.index, node.start, node.end, node.lead))

    def _media(self, node: Node, begin: int, end: int) -> None:
        """Images that begin among the node's prompt tokens, positions `[begin, end)`."""
        own = [
            (first - begin, last - begin, kind)
            for first, last, kind in self.turn.media
            if begin <= first < end
        ]
        if own:
            self.columns.media[node.index] = np.array(own, np.int32)

    def _experts(self, reply: Node) -> None:
        """Keep the rows that the branch does not have yet."""
        rows = self.turn.routed_experts
        if rows is None:
            return
        begin = self.turn.experts_start
        skip = min(len(rows), max(0, reply.covered - begin))
        self.columns.experts[reply.index] = Experts(begin + skip, rows[skip:].copy())
        reply.covered = begin + len(rows)
