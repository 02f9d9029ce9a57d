"""What a request says: which history, how much of it is new, which tools and settings."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, NamedTuple

from vfnb.dialects import Dialect, Split, Splitter
from vfnb.interception.edits import Known
from vfnb.interception.replies import Replies, Said, differ
from vfnb.trace.identity import Identity, identity
from vfnb.types import Message, Messages, SystemMessage, Tool

if TYPE_CHECKING:
    from vfnb.trace.graph import MessageGraph

__all__ = ["Turn", "TurnReader", "forwarded"]

_FORWARDED = ("anthropic-beta", "anthropic-version", "openai-beta")
_MAX_TOOL_LISTS = 32
_MAX_HEADS = 16
_MAX_FRAMES = 8
_MAX_SEEN = 8192
_FEW = 4
_BLANK = SystemMessage(content="")
_NO_PINS: Mapping[int, Identity] = {}
_NO_TOOLS: tuple[str | None, list[Tool]] = (None, [])


class _Frame:
    """What the keys beside the history say; programs send the same ones with every call."""

    __slots__ = ("digest", "front", "head", "model", "previous", "sampling", "stream", "tail", "tools")

    def __init__(self, dialect: Dialect[Any, Any], splitter: Splitter, split: Split) -> None:
        self.front = split.front
        self.tail = split.body[split.end :]
        self.model = dialect.model(split.fields)
        self.stream = dialect.streams(split.fields)
        self.sampling = dialect.sampling(split.fields)
        self.previous = dialect.continues(split.fields)
        self.digest = splitter.frame(split)
        self.tools = _NO_TOOLS
        self.head: Said | None = None
        """Not decoded yet if None."""

    def around(self, split: Split) -> bool:
        """Whether these are the bytes before and after a request's history."""
        body, tail = split.body, self.tail
        return len(body) - split.end == len(tail) and self.front == split.front and body.endswith(tail)


class Turn:
    """One request, read against the graph. `parent` is the last known message, `new` the ones after it."""

    __slots__ = (
        "base",
        "dialect",
        "digest",
        "frame",
        "head",
        "model",
        "new",
        "parent",
        "pins",
        "previous",
        "replaced",
        "sampling",
        "sizes",
        "split",
        "splitter",
        "stream",
        "tool_key",
        "tools",
    )

    def __init__(self, dialect: Dialect[Any, Any], splitter: Splitter, split: Split, frame: _Frame) -> None:
        self.dialect = dialect
        self.splitter = splitter
        self.split = split
        self.frame = frame
        self.model = frame.model
        self.stream = frame.stream
        self.sampling = dict(frame.sampling)
        self.digest = splitter.digest(split, frame.digest)
        self.base = -1
        """The reply that the program goes on from, -1 if it sends its whole history."""
        self.previous = frame.previous
        """That reply's id, `""` if there is none."""
        self.head: Said = []
        """The instructions that stand before the history, for dialects in which a reply can be gone on from."""
        self.parent = -1
        self.new: list[tuple[Message, Identity]] = []
        self.sizes: list[int] | None = None
        """How many messages each of the request's new items is; None if they do not say it one by one."""
        self.tool_key, self.tools = frame.tools
        self.pins: Mapping[int, Identity] = _NO_PINS
        """What the program said in place of rewritten new messages, by their distance from the last one."""
        self.replaced: dict[int, bytes] | None = None
        """The history's items that were written anew for the upstream, by position; None until then."""

    def messages(self, graph: MessageGraph) -> Messages:
        """The whole prompt."""
        return [*graph.messages(self.parent), *(message for message, _ in self.new)]

    def settle(self, graph: MessageGraph) -> None:
        """Match again: calls that ended since the request was read may have added some of `new`."""
        if self.new:
            self.parent, known = graph.walk(self.parent, self.new)
            del self.new[:known]


class _Group(NamedTuple):
    """Items that are read together, for the dialect may make one message of them."""

    key: bytes
    """Of their digests."""
    start: int
    end: int


def _groups(splitter: Splitter, split: Split, keys: list[bytes]) -> list[_Group]:
    dialect = splitter.dialect
    if type(dialect).join is Dialect.join:
        return [_Group(key, position, position + 1) for position, key in enumerate(keys)]
    groups = []
    start = 0
    for position in range(len(keys)):
        if position + 1 == len(keys) or splitter.closes(split, position):
            groups.append(_Group(b"".join(keys[start : position + 1]), start, position + 1))
            start = position + 1
    return groups


class TurnReader:
    """Reads the requests of one session; work is proportional to what is new in each."""

    def __init__(self, graph: MessageGraph) -> None:
        self._graph = graph
        self._splitters: dict[str, Splitter] = {}
        self._seen: dict[str, dict[bytes, tuple[Identity, ...]]] = {}
        self._tools: dict[tuple[bytes, bytes], tuple[str | None, list[Tool]]] = {}
        self._heads: dict[tuple[bytes, ...], Said] = {}
        self._frames: dict[str, list[_Frame]] = {}
        self.replies = Replies(graph)
        """The answers that programs can go on from."""

    def read(self, dialect: Dialect[Any, Any], body: bytes) -> Turn:
        """Read one request body.

        Raises:
            RequestError: it is not a request of this dialect, or one that cannot be recorded.
        """
        splitter = self._splitters.get(dialect.name)
        if splitter is None or splitter.dialect is not dialect:
            splitter = self._splitters[dialect.name] = Splitter(dialect)
            self._seen.pop(dialect.name, None)
            self._frames.pop(dialect.name, None)
        split = splitter.split(body)
        if split.back:
            split.known = self._back(split)
        dialect.check(split)
        turn = Turn(dialect, splitter, split, self._frame(dialect, splitter, split))
        if turn.previous:
            turn.base = self.replies.find(turn.previous)
        if isinstance(split.known, int):
            turn.parent = split.known
        elif isinstance(split.known, Known):
            turn.parent = split.known.node
        else:
            turn.parent = turn.base
        if dialect.history is not None and type(dialect).read is Dialect.read:
            self._read_items(turn)
        else:
            turn.new = [(message, identity(message)) for message in dialect.read(split)]
            turn.settle(self._graph)
        return turn

    def _frame(self, dialect: Dialect[Any, Any], splitter: Splitter, split: Split) -> _Frame:
        """The request without its history, read once."""
        frames = self._frames.setdefault(dialect.name, [])
        if split.start >= 0:
            for frame in frames:
                if frame.around(split):
                    return frame
        frame = _Frame(dialect, splitter, split)
        frame.tools = self._read_tools(dialect, split)
        if split.start >= 0:
            if len(frames) >= _MAX_FRAMES:
                del frames[0]
            frames.append(frame)
        return frame

    def _read_items(self, turn: Turn) -> None:
        """Group by group; those that are known by their digests are matched without being decoded."""
        dialect, split = turn.dialect, turn.split
        groups = _groups(turn.splitter, split, turn.splitter.keys(split))
        seen = self._seen.setdefault(dialect.name, {})
        self._read_head(turn)
        start = 0
        if len(seen) > _MAX_SEEN:
            seen.clear()
        if len(groups) > _FEW:
            turn.settle(self._graph)
            if not turn.new:
                start = self._match(turn, groups, seen)
        for group in groups[start:]:
            said: Messages = []
            for position in range(group.start, group.end):
                said += dialect.decoded(split.items[position], split.value(position))
            found = [(message, identity(message, split.digests)) for message in dialect.join(said)]
            seen[group.key] = tuple(ident for _, ident in found)
            turn.new += found
        turn.splitter.settle(split)
        turn.sizes = [-1] * len(split.items)
        for group in groups:
            turn.sizes[group.end - 1] = len(seen[group.key])
        turn.settle(self._graph)

    def _back(self, split: Split) -> int | Known:
        """The mark of a history that is known in part: that of its last known message."""
        mark = split.known
        node = mark.node if isinstance(mark, Known) else mark
        assert isinstance(node, int)
        for _ in range(split.back):
            node = self._graph.nodes[node].parent
        items = mark.items if isinstance(mark, Known) else {}
        kept = {position: raw for position, raw in items.items() if position < split.n_known}
        return Known(node, kept) if kept else node

    def _read_head(self, turn: Turn) -> None:
        """What stands outside the history. Who goes on from a reply repeats it; only another one is new."""
        dialect, split = turn.dialect, turn.split
        continues = type(dialect).continues is not Dialect.continues
        if split.n_known and not continues:
            return
        head = turn.frame.head
        if head is None:
            head = turn.frame.head = self._head(dialect, split)
        if not continues:
            turn.new = list(head)
            return
        standing = self.replies.head(turn.previous) if turn.previous else []
        turn.head = head or standing
        if not split.n_known and differ(turn.head, standing):
            turn.new = list(head)

    def _head(self, dialect: Dialect[Any, Any], split: Split) -> Said:
        """Programs send the same instructions with every call; they are decoded once."""
        key = (dialect.name.encode(), *(bytes(split.fields.get(name, b"")) for name in dialect.head_keys))
        known = self._heads.get(key)
        if known is None:
            if len(self._heads) >= _MAX_HEADS:
                self._heads.clear()
            known = [(message, identity(message)) for message in dialect.head(split.fields)]
            self._heads[key] = known
        return known

    def _match(self, turn: Turn, groups: list[_Group], seen: dict[bytes, tuple[Identity, ...]]) -> int:
        """Follow the graph along groups whose identities are remembered; returns how many matched."""
        ends: list[int] = []
        known: list[tuple[Message, Identity]] = []
        for group in groups:
            idents = seen.get(group.key)
            if idents is None:
                break
            known += [(_BLANK, ident) for ident in idents]
            ends.append(len(known))
        last, matched = self._graph.walk(turn.parent, known)
        whole = bisect_right(ends, matched)
        if whole and ends[whole - 1] < matched:  # a group of several messages of which only some are known
            last, _ = self._graph.walk(turn.parent, known[: ends[whole - 1]])
        if whole:
            turn.parent = last
        return whole

    def note(self, turn: Turn, reply: str, call: int) -> None:
        """A turn has an answer with this id."""
        if reply and type(turn.dialect).continues is not Dialect.continues:
            self.replies.note(reply, call, turn.head)

    def clear(self) -> None:
        """Let go of the bodies that are kept for the next request."""
        self._splitters.clear()
        self._seen.clear()
        self._tools.clear()
        self._heads.clear()
        self._frames.clear()

    def _read_tools(self, dialect: Dialect[Any, Any], split: Split) -> tuple[str | None, list[Tool]]:
        """Programs send the same list with every call; it is decoded once."""
        if dialect.history is None:
            tools = dialect.read_tools(split)
            return self._graph.add_tools(tools), tools
        fields = split.fields
        if "tools" not in fields and "functions" not in fields:
            return _NO_TOOLS
        key = bytes(fields.get("tools", b"")), bytes(fields.get("functions", b""))
        known = self._tools.get(key)
        if known is None:
            if len(self._tools) >= _MAX_TOOL_LISTS:
                self._tools.clear()
            tools = dialect.read_tools(split)
            known = self._tools[key] = self._graph.add_tools(tools), tools
        return known


def forwarded(headers: Mapping[str, str]) -> dict[str, str]:
    """The request headers that the upstream must see."""
    return {name: headers[name] for name in _FORWARDED if name in headers}
