"""The parts of one request body, and the histories that a splitter remembers."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, TypeAlias

import msgspec

from vfnb.dialects.address import address
from vfnb.dialects.lenient import dumps, loads

if TYPE_CHECKING:
    from hashlib import blake2b

__all__ = ["HASH", "Bounds", "Split", "Tip"]

HASH: TypeAlias = "blake2b"
"""A running digest, of digests: of so few bytes BLAKE2b is the faster one, and its state is small."""

_WINDOW = 160
_KEY = 16  # bytes of an item's digest


class Bounds:
    """Where the messages of a remembered history end, so that a part of it can be known too.

    Each position of the three columns is an item that ends a message: its end, as bytes from the history's start;
    how many items, and how many messages, there are up to there. `keys` are the digests of all items, joined.
    """

    __slots__ = ("ends", "items", "keys", "messages")

    def __init__(self, ends: array[int], items: array[int], messages: array[int], keys: bytes) -> None:
        self.ends = ends
        self.items = items
        self.messages = messages
        self.keys = keys

    def until(self, place: int) -> Bounds:
        """A copy of the first so many positions."""
        items = self.items[:place]
        keys = self.keys[: _KEY * items[-1]] if place else b""
        return Bounds(self.ends[:place], items, self.messages[:place], keys)


class Tip:
    """A remembered history: `body[start:end]`, from its first item to the end of its last.

    `first` and `tail` are its first and last bytes, `tail_at` is where in it the latter start. `chain` is the
    running digest of its items, `before` that of all but the last.
    """

    __slots__ = (
        "before",
        "body",
        "bounds",
        "chain",
        "count",
        "end",
        "first",
        "head",
        "mark",
        "start",
        "tail",
        "tail_at",
    )

    def __init__(
        self,
        *,
        body: bytes,
        head: tuple[bytes, ...],
        start: int,
        end: int,
        count: int,
        mark: object,
        chain: HASH,
        before: HASH | None,
        bounds: Bounds | None,
    ) -> None:
        self.before = before
        self.bounds = bounds
        self.body = body
        self.head = head
        self.start = start
        self.end = end
        self.first = body[start : min(end, start + _WINDOW)]
        self.tail = body[max(start, end - _WINDOW) : end]
        self.tail_at = end - start - len(self.tail)
        self.count = count
        self.mark = mark
        self.chain = chain


class Split:
    """One request body in parts. Raw values are slices: keep `bytes(raw)`, not the slice, beyond the call.

    Attributes:
        body: the bytes as received.
        fields: top-level keys except the history, as raw JSON.
        items: the history's items after the known ones, as raw JSON.
        known: the mark of the remembered history whose items this body starts with, None if there is none.
        n_known: how many of that history's items are known.
        back: how many messages of that history come after those.
        bound: of a history that is known in part, at which of its `Bounds`.
        front: the bytes before the history, with the list closed; `front_fields` are slices of it.
        rest: the bytes after those, as an object; `shift` turns its offsets into those of `body`.
        values: of `items`, those that have been decoded and are wanted; `digests` are those of long texts in them.
        closed: whether the last of `items` ends a message, None if nobody has looked.
        loose: only the standard library can read this body; its parts are copies, not slices.
        start: offset of the history's first item, -1 if it has none or is not a list.
        end: offset after the history's last item.
    """

    __slots__ = (
        "back",
        "before",
        "body",
        "bound",
        "chain",
        "closed",
        "digests",
        "end",
        "fields",
        "front",
        "front_fields",
        "item_keys",
        "items",
        "known",
        "loose",
        "n_known",
        "rest",
        "shift",
        "start",
        "tip",
        "values",
    )

    def __init__(
        self,
        *,
        body: bytes,
        fields: dict[str, msgspec.Raw],
        items: list[msgspec.Raw],
        known: object = None,
        n_known: int = 0,
        start: int = -1,
        end: int = -1,
        front: bytes = b"",
        front_fields: dict[str, msgspec.Raw] | None = None,
        rest: bytes = b"",
        shift: int = 0,
        tip: Tip | None = None,
        bound: int = 0,
        back: int = 0,
        loose: bool = False,
    ) -> None:
        self.body = body
        self.fields = fields
        self.items = items
        self.known = known
        self.n_known = n_known
        self.start = start
        self.end = end
        self.front = front
        self.front_fields = front_fields or {}
        self.rest = rest
        self.shift = shift
        self.tip = tip
        self.bound = bound
        self.back = back
        self.loose = loose
        self.item_keys: list[bytes] | None = None
        self.values: dict[int, Any] = {}
        self.digests: dict[int, bytes] = {}
        self.closed: bool | None = None
        self.chain: HASH | None = None
        self.before: HASH | None = None

    def get(self, name: str, default: Any = None) -> Any:
        """The decoded value of a top-level key."""
        raw = self.fields.get(name)
        return default if raw is None else loads(raw)

    def value(self, place: int) -> Any:
        """One of `items`, decoded once.

        Raises:
            ValueError: it is not JSON.
        """
        if place not in self.values:
            self.values[place] = loads(self.items[place])
        return self.values[place]

    def all_items(self) -> list[msgspec.Raw]:
        """All items of the history, the known ones included; costs a pass over the body if some are known."""
        if not self.n_known:
            return self.items
        return msgspec.json.decode(b"[" + self.body[self.start : self.end] + b"]", type=list[msgspec.Raw])

    def span(self, name: str) -> tuple[int, int]:
        """Where the value of a top-level key lies in `body`: start and end offset."""
        raw = self.fields[name]
        size, at = len(memoryview(raw)), address(raw)
        offset = at - address(self.rest)
        if self.rest and 0 <= offset < len(self.rest):
            return offset + self.shift, offset + self.shift + size
        offset = at - address(self.front)
        return offset, offset + size

    def assemble(
        self,
        changes: dict[str, bytes | None],
        *,
        history: str | None = None,
        items: Sequence[Any] | None = None,
    ) -> bytes:
        """The body with some top-level keys set or removed, all other bytes as they were.

        Args:
            changes: JSON per key; None removes the key.
            history: key of the history, needed with `items`.
            items: JSON of all history items that replaces the history.
        """
        if items is not None:
            assert history is not None
            changes = changes | {history: b"[" + b",".join(bytes(item) for item in items) + b"]"}
        if not changes:
            return self.body
        if (
            self.loose
            or items is not None
            or any(value is None and key in self.fields for key, value in changes.items())
        ):
            return self._rebuild(changes, history)
        return self._splice({key: value for key, value in changes.items() if value is not None})

    def _splice(self, changes: dict[str, bytes]) -> bytes:
        edits = [(*self.span(key), value) for key, value in changes.items() if key in self.fields]
        view = memoryview(self.body)
        pieces: list[bytes | memoryview] = []
        position = 0
        for start, end, value in sorted(edits):
            pieces += [view[position:start], value]
            position = end
        added = b"".join(
            b", " + dumps(key) + b": " + value for key, value in changes.items() if key not in self.fields
        )
        close = self.body.rindex(b"}")
        if added and not self.fields and self.start < 0 and self.body[:close].rstrip()[-1:] == b"{":
            added = added[2:]
        return b"".join([*pieces, view[position:close], added, view[close:]])

    def _rebuild(self, changes: dict[str, bytes | None], history: str | None) -> bytes:
        parts: dict[str, Any]
        if self.loose:
            parts = {key: dumps(value) for key, value in loads(self.body).items()}
        else:
            parts = dict(msgspec.json.decode(self.body, type=dict[str, msgspec.Raw]))
        for key, value in changes.items():
            if value is None:
                parts.pop(key, None)
            else:
                parts[key] = value
        return b"{" + b", ".join(dumps(key) + b": " + bytes(value) for key, value in parts.items()) + b"}"
