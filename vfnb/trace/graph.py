"""The message graph: a tree of turns that grows by one call at a time, at the cost of what is new.

Written by one thread (the engine loop). Lists only append and a node is complete before it is listed, so other
threads may read: take a length first, then look at what lies below it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vfnb.errors import TraceError
from vfnb.trace.calls import ModelCall, Rewrite, decode_call, encode_call
from vfnb.trace.counters import Counters
from vfnb.trace.identity import Identity, address, content, identity, same
from vfnb.trace.node import Node, distinct
from vfnb.trace.records import Delta, NodeRecord, TokenRecord
from vfnb.trace.texts import Texts
from vfnb.types import Message, Messages, Tool
from vfnb.utils.plain import decode_json, encode_json

if TYPE_CHECKING:
    from vfnb.trace.tokens import TokenColumns, TokenTurn

__all__ = ["Counters", "MessageGraph", "Node"]


class MessageGraph:
    """Nodes, calls, tools and tokens of one rollout."""

    def __init__(self) -> None:
        self.nodes: list[Node] = []
        self.calls: list[ModelCall] = []
        self.tools: dict[str, bytes] = {}
        """Tool lists as JSON, by digest (32 hex digits)."""
        self.roots: list[int] = []
        self.tips: dict[int, int] = {}
        """Last node of each branch, by branch (its first own node), oldest branch first."""
        self.counters = Counters()
        self.version = 0
        """Grows with every change."""
        self.linear = True
        """One branch whose tokens lie in one contiguous range."""
        self.columns: TokenColumns | None = None
        self.tokenizer: Callable[[], Any] | None = None
        """Gives the tokenizer of the ids, where this process knows it; no part of a record."""
        self._index: dict[tuple[int, bytes], list[int]] | None = {}
        self.cache: dict[str, Any] = {}
        """Results that readers computed from a version of the graph."""
        self._new_tools: list[str] = []
        self._cuts: dict[int, list[str]] = {}
        self._known: set[bytes] | None = set()
        self._pins: dict[tuple[int, bytes], tuple[Identity, int]] = {}
        self._updates = 0

    # Reading

    def __len__(self) -> int:
        return len(self.nodes)

    def snapshot(self) -> tuple[list[ModelCall], list[Node]]:
        """The recorded calls and their nodes, consistent even while another thread commits."""
        calls = list(self.calls)
        nodes = list(self.nodes)
        while nodes and nodes[-1].call >= len(calls):  # a commit lists its nodes before its call
            nodes.pop()
        return calls, nodes

    def copied_calls(self) -> list[ModelCall]:
        """Copies of the calls, made once, for user code: what it writes on them does not reach the record."""
        updates, copies = self.cache.get("calls", (-1, []))
        if updates != self._updates:
            copies = []
        copies = [*copies, *(decode_call(encode_call(call)) for call in self.calls[len(copies) :])]
        self.cache["calls"] = self._updates, copies
        return list(copies)

    def children(self, node: int) -> list[int]:
        """Children in order of creation; of -1, the roots."""
        return list(self.roots if node < 0 else self.nodes[node].children or ())

    @property
    def leaves(self) -> list[int]:
        """The last node of each branch, oldest branch first."""
        return list(self.tips.values())

    def path(self, node: int) -> list[int]:
        """Node numbers from the root to `node`."""
        path = []
        nodes = self.nodes
        while node >= 0:
            path.append(node)
            node = nodes[node].parent
        path.reverse()
        return path

    def messages(self, node: int) -> Messages:
        """Messages from the root to `node`."""
        nodes = self.nodes
        return [nodes[index].message for index in self.path(node)]

    def line(self) -> Messages | None:
        """The messages of the only branch; None if there are several, or none."""
        leaves = self.leaves
        return self.messages(leaves[0]) if len(leaves) == 1 else None

    @property
    def folded(self) -> bool:
        """Whether its lists are not made yet: a stored graph that nobody has looked into."""
        return False

    def lists(self) -> list[tuple[str, Any, Any]]:
        """Its lists by name, each with a copy."""
        return [
            (name, getattr(self, name), getattr(self, name).copy()) for name in ("nodes", "calls", "roots")
        ]

    def tool_list(self, digest: str | None) -> list[Tool]:
        """The tools that a call offered, by `ModelCall.tools`."""
        if digest is None:
            return []
        return [Tool.model_validate(item) for item in decode_json(self.tools[digest])]

    # Matching

    def find_child(self, parent: int, wanted: Identity) -> int | None:
        """The child of `parent` that is the same turn: sampled nodes first, newest first."""
        return next(iter(self._candidates(parent, wanted)), None)

    def walk(self, parent: int, items: Sequence[tuple[Message, Identity]]) -> tuple[int, int]:
        """Follow a history as far as it is known.

        Where several nodes are the same turn, the one under which most of the rest is known wins, then a sampled
        one, then the newest. Costs one lookup per item.

        Returns:
            The last matched node (`parent` if none) and how many items matched.
        """
        best, matched = parent, 0
        table, nodes = self._table(), self.nodes
        for _, wanted in items:  # as long as there is no choice
            only = table.get((best, wanted.key))
            if not only or len(only) > 1 or not same(nodes[only[0]].identity, wanted):
                break
            best = only[0]
            matched += 1
        stack = [(best, matched)] if matched < len(items) else []
        while stack:
            node, count = stack.pop()
            if count > matched:
                best, matched = node, count
            if count == len(items):
                break
            found = self._candidates(node, items[count][1])
            stack.extend((index, count + 1) for index in reversed(found))
        if matched:
            self._note_dropped(best, items[:matched])
        return best, matched

    def _candidates(self, parent: int, wanted: Identity) -> Sequence[int]:
        table = self._table()
        found = table.get((parent, wanted.key))
        if found is None:
            return ()
        if self._pins:
            pinned = self._pins.get((parent, wanted.key))
            if pinned is not None and same(pinned[0], wanted):
                return (pinned[1],)
        nodes = self.nodes
        matches = [index for index in found if same(nodes[index].identity, wanted)]
        if len(matches) > 1:
            matches.sort(
                key=lambda index: (
                    nodes[index].sampled,
                    nodes[index].identity.reasoning == wanted.reasoning,
                    index,
                ),
                reverse=True,
            )
        return matches

    def _table(self) -> dict[tuple[int, bytes], list[int]]:
        if self._index is None:  # restored from disk: identities are computed when they are first needed
            table: dict[tuple[int, bytes], list[int]] = {}
            for node in self.nodes:
                table.setdefault((node.parent, node.identity.key), []).append(node.index)
            self._index = table
        return self._index

    def _note_dropped(self, last: int, items: Sequence[tuple[Message, Identity]]) -> None:
        """Mark the path from where the harness sent a reply back without its reasoning."""
        path = []
        for _ in items:
            path.append(last)
            last = self.nodes[last].parent
        bare = last >= 0 and self.nodes[last].bare
        for index, (_, wanted) in zip(reversed(path), items, strict=True):
            node = self.nodes[index]
            if node.sampled and wanted.reasoning is None and node.identity.reasoning is not None:
                bare = True
            node.bare = node.bare or bare

    # Writing

    def add_tools(self, tools: Sequence[Tool] | Sequence[Mapping[str, Any]]) -> str | None:
        """Remember a tool list; returns its digest for `ModelCall.tools`, None for an empty list."""
        if not tools:
            return None
        plain = [
            tool.model_dump(exclude_none=True) if isinstance(tool, Tool) else dict(tool) for tool in tools
        ]
        raw = encode_json(plain)
        digest = address(raw).hex()
        if digest not in self.tools:
            self.tools[digest] = raw
            self._new_tools.append(digest)
        return digest

    def commit(
        self,
        call: ModelCall,
        *,
        parent: int,
        new: Sequence[tuple[Message, Identity]],
        reply: Message | None,
        partial: bool = False,
        tokens: TokenTurn | None = None,
    ) -> Delta:
        """Record one call.

        Args:
            call: its record; `index`, `prompt_node`, `reply_node`, `dropped_reasoning` and a missing `usage` of a
                token call are filled in.
            parent: the last known prompt message, -1 for none.
            new: the prompt messages after it; those that are there by now are not added again.
            reply: the sampled message, None for a failed call. It is always a new node.
            partial: the stream was cut: the reply's text is kept on the call and is no node.
            tokens: the call's tokens, from a token client.

        Raises:
            TraceError: the tokens contradict each other or the history; nothing is recorded then.
        """
        if not -1 <= parent < len(self.nodes):
            raise TraceError(f"parent {parent} is not a node of this graph of {len(self.nodes)} nodes")
        if partial and reply is not None:
            call.partial_text = reply.text
            reply = None
        parent, known = self.walk(parent, new)  # a call that ended meanwhile may have added some of it
        new = new[known:]
        placing = None
        if tokens is not None and reply is not None:
            from vfnb.trace.placing import Placing

            placing = Placing(self, tokens, parent, new)
            parent, new = placing.parent, placing.new
        call.index = len(self.calls)
        delta = Delta()
        first = len(self.nodes)
        for message, ident in new:
            parent = self._add(parent, message, ident, call.index, sampled=False, delta=delta)
        call.prompt_node = parent
        if parent >= 0:
            call.dropped_reasoning = call.dropped_reasoning or self.nodes[parent].bare
        if reply is not None:
            call.reply_node = self._add(parent, reply, identity(reply), call.index, sampled=True, delta=delta)
        if placing is not None:
            placing.place(call, delta)
        for node in self.nodes[first:]:
            delta.nodes.append(
                NodeRecord(
                    node.index,
                    node.parent,
                    node.content_key,
                    node.call,
                    node.sampled,
                    node.partial,
                    node.retokenized,
                )
            )
        if self._new_tools:
            delta.tools = [(bytes.fromhex(digest), self.tools[digest]) for digest in self._new_tools]
            self._new_tools.clear()
        if call.partial_text:
            self._cuts.setdefault(call.prompt_node, []).append(call.partial_text)
        self.calls.append(call)
        self.counters.add(call)
        self.version += 1
        delta.call = encode_call(call)
        return delta

    def pin(self, said: Identity, node: int) -> None:
        """From now on a message that the harness sends matches a node with other words in its place.

        Args:
            said: the message as the harness sends it.
            node: what the model got instead. The first one of a place stays.
        """
        place = self.nodes[node].parent, said.key
        self._table().setdefault(place, [])
        self._pins.setdefault(place, (said, node))

    def show(self, index: int, message: Message, rewrites: list[Rewrite]) -> Delta:
        """Record what the harness gets in place of a call's sampled message; that one stays as it is."""
        delta = Delta()
        call = self.calls[index]
        parent = call.prompt_node
        shown = self._add(parent, message, identity(message), index, sampled=False, delta=delta)
        delta.nodes.append(NodeRecord(shown, parent, self.nodes[shown].content_key, index))
        delta.call = self.update_call(index, shown_node=shown, rewrites=[*call.rewrites, *rewrites]).call
        return delta

    def rest(self, parent: int, new: Sequence[tuple[Message, Identity]]) -> Delta:
        """Record what came after the last call and no call has sent: a history that was imported may end so.

        The messages count as the last call's, of which there must be one.
        """
        delta = Delta()
        call = len(self.calls) - 1
        for message, ident in new:
            parent = self._add(parent, message, ident, call, sampled=False, delta=delta)
            delta.nodes.append(
                NodeRecord(parent, self.nodes[parent].parent, self.nodes[parent].content_key, call)
            )
        self.version += 1
        return delta

    def update_call(self, index: int, **changes: Any) -> Delta:
        """Correct fields of a recorded call (`delivered`, `end`, ...); returns the record to store.

        Raises:
            TraceError: there is no such field.
        """
        unknown = changes.keys() - set(ModelCall.__struct_fields__)
        if unknown:
            raise TraceError(f"a call has no field {', '.join(sorted(unknown))}")
        call = self.calls[index]
        self.counters.add(call, -1)
        for name, value in changes.items():
            setattr(call, name, value)
        self.counters.add(call)
        self.version += 1
        self._updates += 1
        return Delta(call=encode_call(call))

    def _add(
        self, parent: int, message: Message, ident: Identity, call: int, *, sampled: bool, delta: Delta
    ) -> int:
        key, raw = content(message)
        if self._known is None:
            self._known = {node.content_key for node in self.nodes}
        if key not in self._known:
            self._known.add(key)
            delta.contents.append((key, raw))
        node = Node(len(self.nodes), parent, call)
        node._key, node._raw = key, raw
        node.sampled = sampled
        node._identity = ident
        if not sampled and parent in self._cuts and message.role == "assistant":
            node.partial = message.text in self._cuts[parent]
        self._link(node)
        if self._index is not None:
            self._index.setdefault((parent, ident.key), []).append(node.index)
        return node.index

    def _link(self, node: Node) -> None:
        """Hang a node into the tree. The first child continues its parent's branch, any other starts one."""
        index, parent = node.index, node.parent
        if parent < 0:
            node.branch = index
            self.nodes.append(node)
            self.roots.append(index)
        else:
            above = self.nodes[parent]
            node.depth, node.bare = above.depth + 1, above.bare
            node.total, node.covered = above.total, above.covered
            self.nodes.append(node)
            if above.children is None:
                node.branch = above.branch
                above.children = [index]
            else:
                node.branch = index
                above.children.append(index)
        self.tips[node.branch] = index
        if len(self.tips) > 1:
            self.linear = False

    # Loading and freeing

    @classmethod
    def restore(
        cls,
        nodes: Iterable[NodeRecord],
        contents: Mapping[bytes, bytes],
        calls: Iterable[ModelCall],
        tokens: Iterable[TokenRecord] = (),
        tools: Mapping[bytes, bytes] | None = None,
    ) -> MessageGraph:
        """The graph that these records describe; it can grow on.

        Raises:
            TraceError: a record names a parent, content or node that is not there.
        """
        graph = cls._loaded()
        for record in nodes:
            index = len(graph.nodes)
            if record.index != index or not -1 <= record.parent < index:
                raise TraceError(
                    f"node record {record.index} (parent {record.parent}) is out of order at {index}"
                )
            raw = contents.get(record.content)
            if raw is None:
                raise TraceError(f"node {index} names content {record.content.hex()}, which is missing")
            node = Node(index, record.parent, record.call)
            node._key, node._raw = record.content, raw
            node.sampled, node.partial, node.retokenized = record.sampled, record.partial, record.retokenized
            graph._link(node)
        graph._restore_calls(calls, tools or {})
        graph._restore_tokens(tokens)
        return graph

    @classmethod
    def _loaded(cls) -> MessageGraph:
        """An empty graph whose indexes are made when it grows."""
        graph = cls()
        graph._index = graph._known = None
        return graph

    def _restore_calls(self, calls: Iterable[ModelCall], tools: Mapping[bytes, bytes]) -> None:
        latest = {call.index: call for call in calls}
        self.calls = [latest[index] for index in sorted(latest)]
        for call in self.calls:
            self.counters.add(call)
            if call.partial_text:
                self._cuts.setdefault(call.prompt_node, []).append(call.partial_text)
        self.tools = {key.hex(): raw for key, raw in tools.items()}
        self.version = len(self.calls)

    def _restore_tokens(self, tokens: Iterable[TokenRecord]) -> None:
        columns = None
        for record in tokens:
            if columns is None:
                columns = self._columns()
            if not 0 <= record.node < len(self.nodes):
                raise TraceError(f"token record names node {record.node} of {len(self.nodes)}")
            node = self.nodes[record.node]
            node.start, node.end = columns.restore(record)
            node.lead = record.lead
        if columns is not None:
            self._settle_tokens()

    def _settle_tokens(self) -> None:
        """Running totals along each path, from the ranges that the nodes have."""
        assert self.columns is not None
        end = 0
        nodes, linear = self.nodes, self.linear
        for node in nodes:
            node.total = node.end - node.start
            if node.parent >= 0:
                above = nodes[node.parent]
                node.total += above.total
                node.covered = above.covered
            if node.end >= 0:
                linear = linear and node.start == end
                end = node.end
            if node.index in self.columns.experts:
                experts = self.columns.experts[node.index]
                node.covered = experts.start + len(experts.rows)
        self.linear = linear

    def media(self, node: int) -> list[tuple[int, int, int]]:
        """Images and the like in a node's tokens: `[begin, end)` in its branch, and token type."""
        own = None if self.columns is None else self.columns.media.get(node)
        if own is None:
            return []
        item = self.nodes[node]
        first = item.total - (item.end - item.start)
        return [(first + begin, first + end, kind) for begin, end, kind in own.tolist()]

    def _columns(self) -> TokenColumns:
        if self.columns is None:
            from vfnb.trace.tokens import TokenColumns

            self.columns = TokenColumns()
        return self.columns

    def release(self) -> None:
        """Free what can be made again: decoded messages, indexes, spare capacity; compress the texts.

        For a finished trace that stays in memory. It can still be read, and grow.
        """
        self._index = self._known = None
        if any(node._texts is None for node in self.nodes):
            texts, places = distinct(self.nodes)
            closed = Texts.of(texts)
            for node, place in zip(self.nodes, places, strict=True):
                node._texts, node._raw = closed, place
        for node in self.nodes:
            node._identity = node._message = node._key = None
            if node._texts is not None:
                node._texts.close()
        if self.columns is not None:
            self.columns.trim()

    def recount(self) -> Counters:
        """The counters, counted from the calls."""
        counters = Counters()
        for call in self.calls:
            counters.add(call)
        return counters

    def sampled(self) -> Iterator[Node]:
        """The nodes that the model produced, in order."""
        return (node for node in self.nodes if node.sampled)
