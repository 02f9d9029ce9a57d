"""Splitting request bodies without decoding what is already known.

A program sends its whole history with every call. As far as it starts like one that was seen before, byte for byte
and in whole messages, only the tail is decoded; else the list is cut into raw slices in one pass.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from typing import Any

import msgspec

from vfnb.dialects.address import address
from vfnb.dialects.base import Dialect
from vfnb.dialects.digests import Digests
from vfnb.dialects.faults import RequestError
from vfnb.dialects.lenient import dumps, loads
from vfnb.dialects.parts import Bounds, Split, Tip

__all__ = ["Splitter"]

_MARK = "\x00history"
_HEADER = b'{"\\u0000history":['
_SPACE = re.compile(rb"[ \t\n\r]*")
_GAP = re.compile(rb"[ \t\n\r,]*")
_CLOSE = b"]}"
_MAX_PLACES = 8
_FEW = 8  # items: a history of which no more is given up gives way to the one that replaces its end

_fields = msgspec.json.Decoder(dict[str, msgspec.Raw])
_list = msgspec.json.Decoder(list[msgspec.Raw])


class _Place:
    """Start of the history in a body, the bytes before it (also with the list closed), and their keys."""

    __slots__ = ("fields", "front", "open", "start")

    def __init__(self, start: int, front: bytes, fields: dict[str, msgspec.Raw]) -> None:
        self.start = start
        self.front = front
        self.open = front[: -len(_CLOSE)]
        self.fields = fields


class Splitter:
    """Splits the bodies of one session in one dialect, and remembers the newest histories.

    Args:
        dialect: whose bodies these are.
        max_tips: how many histories are remembered; the least recently used goes first.
        max_bytes: how many bytes of bodies they may keep alive. The newest is always kept.
    """

    def __init__(self, dialect: Dialect[Any, Any], *, max_tips: int = 16, max_bytes: int = 32 << 20) -> None:
        self.dialect = dialect
        self._max_tips = max_tips
        self._max_bytes = max_bytes
        self._tips: list[Tip] = []  # least recently used first
        self._buckets: dict[bytes, list[Tip]] = {}  # by their first bytes
        self._sizes: dict[int, int] = {}  # how many tips have first bytes of this length
        self._places: dict[bytes, _Place] = {}  # by their front
        self._longest = 0
        self._digests = Digests()
        self._joins = type(dialect).closes is not Dialect.closes
        key = dialect.history
        self._key = key
        if key is not None:
            self._whole = msgspec.json.Decoder(_history_struct(key))
            self._find = re.compile(
                re.escape(msgspec.json.encode(key)) + rb"[ \t\n\r]*:[ \t\n\r]*\[[ \t\n\r]*"
            )

    def split(self, body: bytes) -> Split:
        """The parts of a request body.

        Raises:
            RequestError: 400 if the body is not a JSON object.
        """
        if self._key is not None:
            place = self._place(body) if self._tips else None
            if place is not None:
                split = self._known(body, place)
                if split is not None:
                    return split
        try:
            return self._in_full(body)
        except ValueError:
            return self._loosely(body)

    def remember(self, split: Split, mark: object, sizes: Sequence[int] | None = None) -> None:
        """Know this body's history from now on; `mark` comes back as `known` when a body starts with it.

        Args:
            sizes: how many messages each of `split.items` ends, -1 for one that a later item may be joined to. With
                it a body is also known that starts with only a part of the history.
        """
        if split.end < 0 or (split.items and not self.closes(split, len(split.items) - 1)):
            return
        bounds = None if sizes is None else self._bounds(split, sizes)
        if split.tip is not None and split.tip in self._tips:
            self._share(split, split.tip, bounds)
        if split.front not in self._places:
            if len(self._places) >= _MAX_PLACES:
                self._places.clear()
            self._places[split.front] = _Place(split.start, split.front, split.front_fields)
        tip = Tip(
            body=split.body,
            head=self._head(split.fields),
            start=split.start,
            end=split.end,
            count=split.n_known + len(split.items),
            mark=mark,
            chain=self._digests.chain(split),
            before=split.before,
            bounds=bounds,
        )
        self._tips.append(tip)
        self._buckets.setdefault(tip.first, []).append(tip)
        self._sizes[len(tip.first)] = self._sizes.get(len(tip.first), 0) + 1
        self._trim()

    def closes(self, split: Split, place: int) -> bool:
        """Whether one of `split.items` ends a message."""
        if not self._joins:
            return True
        last = place + 1 == len(split.items)
        if last and split.closed is not None:
            return split.closed
        item = split.items[place]
        if place in split.values:
            found = self.dialect.closed(item, split.values[place])
        else:
            found = self.dialect.closes(item)
        if last:
            split.closed = found
        return found

    def settle(self, split: Split) -> None:
        """A body has been read: free what was decoded, once it has said what `remember` will ask."""
        if self._joins and split.items:
            self.closes(split, len(split.items) - 1)
        split.values.clear()
        split.digests.clear()

    def digest(self, split: Split, frame: bytes | None = None) -> bytes:
        """16 bytes, equal for bodies that are equal but for white space and the order of keys.

        Args:
            frame: what `frame` gave for the same keys.
        """
        return self._digests.whole(split, self.frame(split) if frame is None else frame)

    def frame(self, split: Split) -> bytes:
        """The part of the digest that the keys beside the history make."""
        return self._digests.frame(split.fields)

    def keys(self, split: Split) -> list[bytes]:
        """16 bytes for each of `split.items`, equal but for white space and key order."""
        return self._digests.keys(split)

    def _bounds(self, split: Split, sizes: Sequence[int]) -> Bounds | None:
        """Those of a body's history, from those of the known part; None if that has none."""
        tip = split.tip
        if tip is None:
            bounds, end = Bounds(array("q"), array("i"), array("i"), b""), split.start
        elif tip.bounds is None:
            return None
        else:
            bounds = tip.bounds.until(split.bound or len(tip.bounds.ends))
            end = split.start + bounds.ends[-1]
        body, start, said = split.body, split.start, bounds.messages[-1] if bounds.messages else 0
        bounds.keys += b"".join(self._digests.keys(split))
        for count, (item, size) in enumerate(zip(split.items, sizes, strict=True), split.n_known + 1):
            end = _end(_GAP.match(body, end)) + len(memoryview(item))
            if size >= 0:
                said += size
                bounds.ends.append(end - start)
                bounds.items.append(count)
                bounds.messages.append(said)
        return bounds

    def _share(self, split: Split, old: Tip, bounds: Bounds | None) -> None:
        """The body starts with an old history: let this body hold it and its own prefixes, and free theirs."""
        shift, body, end = split.start - old.start, old.body, old.end
        if split.bound:
            assert old.bounds is not None
            end = old.start + old.bounds.ends[split.bound - 1]
        lost = old.count - split.n_known
        if end + shift == split.end or (bounds is not None and lost <= _FEW):
            self._tips.remove(old)
            self._forget(old)
        for tip in self._tips:
            if tip.body is body and tip.end <= end:
                tip.body = split.body
                tip.start, tip.end = tip.start + shift, tip.end + shift

    # known prefix

    def _place(self, body: bytes) -> _Place | None:
        """Where the body's history starts: where that of a known body does, or found anew."""
        for place in self._places.values():
            if body.startswith(place.open):
                return place
        return self._locate(body)

    def _near(self, body: bytes, start: int) -> list[Tip]:
        """The tips whose first bytes are those of this body's history."""
        return [tip for size in self._sizes for tip in self._buckets.get(body[start : start + size], ())]

    def _candidates(self, body: bytes, start: int) -> list[Tip]:
        """The tips whose first and last bytes are in this body where they would have to be, longest first."""
        found = [tip for tip in self._near(body, start) if body.startswith(tip.tail, start + tip.tail_at)]
        if len(found) > 1:
            found.sort(key=_size, reverse=True)
        return found

    def _known(self, body: bytes, place: _Place) -> Split | None:
        """The body's parts if it starts with a known history, or with a part of one."""
        for tip in self._candidates(body, place.start):
            split = self._from_tip(body, tip, place)
            if split is not None:
                return self._used(split, tip)
        parts = [
            (_common(body, place.start, tip), tip) for tip in self._near(body, place.start) if tip.bounds
        ]
        for (_, bound), tip in sorted(parts, key=_first, reverse=True):
            split = self._from_tip(body, tip, place, bound) if bound else None
            if split is not None:
                return self._used(split, tip)
        return None

    def _used(self, split: Split, tip: Tip) -> Split:
        self._tips.remove(tip)
        self._tips.append(tip)
        return split

    def _from_tip(self, body: bytes, tip: Tip, place: _Place, bound: int = 0) -> Split | None:
        """The parts of a body after a tip's history, or after what of it ends at a bound."""
        start, front, fields = place.start, place.front, place.fields
        size, count, back = tip.end - tip.start, tip.count, 0
        if bound:
            bounds = tip.bounds
            assert bounds is not None
            size, count = bounds.ends[bound - 1], bounds.items[bound - 1]
            back = bounds.messages[-1] - bounds.messages[bound - 1]
        end = start + size
        if not bound and not body.startswith(memoryview(tip.body)[tip.start : tip.end], start):
            return None
        after = _end(_SPACE.match(body, end))
        separator = body[after : after + 1]
        if separator == b",":
            after += 1
        elif separator != b"]":
            return None
        parsed = self._rest(body, after)
        if parsed is None:
            return None
        rest, history, later = parsed
        all_fields = fields | later
        if tip.head != self._head(all_fields):
            return None
        items = _list.decode(history)
        if separator == b"," and not items:
            return None
        shift = after - len(_HEADER)
        if items:
            end = shift + len(_HEADER) + _inside(history)
        return Split(
            body=body,
            fields=all_fields,
            items=items,
            known=tip.mark,
            n_known=count,
            start=start,
            end=end,
            front=front,
            front_fields=fields,
            rest=rest,
            shift=shift,
            tip=tip,
            bound=bound,
            back=back,
        )

    def _locate(self, body: bytes) -> _Place | None:
        """Where the history's first item starts; only the first few occurrences of the key are tried."""
        position = 0
        for _ in range(4):
            found = self._find.search(body, position)
            if found is None:
                return None
            front = body[: found.end()] + _CLOSE
            fields = self._front(front)
            if fields is not None:
                return _Place(found.end(), front, fields)
            position = found.end()
        return None

    def _found(self, body: bytes, first: msgspec.Raw) -> _Place | None:
        """The same, by where the decoder found the first item."""
        start = address(first) - address(body)
        front = body[:start] + _CLOSE
        fields = self._front(front) if 0 < start < len(body) else None
        return None if fields is None else _Place(start, front, fields)

    def _front(self, front: bytes) -> dict[str, msgspec.Raw] | None:
        """The keys before the history: what precedes a top-level list is an object once it is closed."""
        try:
            fields = _fields.decode(front)
        except msgspec.DecodeError:
            return None
        assert self._key is not None
        return fields if fields.pop(self._key, None) is not None else None

    def _rest(self, body: bytes, start: int) -> tuple[bytes, msgspec.Raw, dict[str, msgspec.Raw]] | None:
        """The tail of the history and the keys after it; None if the history's key comes again."""
        rest = _HEADER + body[start:]
        try:
            fields = _fields.decode(rest)
        except msgspec.DecodeError:
            return None
        history = fields.pop(_MARK)
        return None if self._key in fields or history is None else (rest, history, fields)

    # unknown history

    def _in_full(self, body: bytes) -> Split:
        if self._key is not None:
            try:
                items = self._whole.decode(body).items
            except msgspec.ValidationError:
                items = []
            if items:
                split = self._sliced(body, items)
                if split is not None:
                    return split
        fields = _fields.decode(body)
        history = fields.pop(self._key, None) if self._key is not None else None
        return Split(
            body=body,
            fields=fields,
            items=_loose_items(history),
            front=body,
            front_fields=fields,
        )

    def _sliced(self, body: bytes, items: list[msgspec.Raw]) -> Split | None:
        place = self._locate(body) or self._found(body, items[0])
        if place is None:
            return None
        start, front, fields = place.start, place.front, place.fields
        last = items[-1]
        end = start + len(memoryview(last))
        if len(items) > 1:
            end += address(last) - address(items[0])
        if not body.startswith(memoryview(items[0]), start):  # the key occurs twice
            return None
        parsed = self._rest(body, end)
        if parsed is None:
            return None
        rest, _, later = parsed
        return Split(
            body=body,
            fields=fields | later,
            items=items,
            start=start,
            end=end,
            front=front,
            front_fields=fields,
            rest=rest,
            shift=end - len(_HEADER),
        )

    def _loosely(self, body: bytes) -> Split:
        """A body that only the standard library can read, or that is not JSON at all."""
        try:
            data = loads(body)
        except ValueError as error:
            raise RequestError(f"The request body is not valid JSON: {error}.") from error
        if not isinstance(data, dict):
            raise RequestError(f"The request body is a JSON {type(data).__name__}, not an object.")
        history = data.pop(self._key, None) if self._key is not None else None
        listed = history if isinstance(history, list) else [] if history is None else [history]
        return Split(
            body=body,
            fields={key: msgspec.Raw(dumps(value)) for key, value in data.items()},
            items=[msgspec.Raw(dumps(item)) for item in listed],
            loose=True,
        )

    # upkeep

    def _head(self, fields: dict[str, msgspec.Raw]) -> tuple[bytes, ...]:
        if not self.dialect.head_keys:
            return ()
        return tuple(bytes(fields.get(key, b"")) for key in self.dialect.head_keys)

    def _trim(self) -> None:
        tips = self._tips
        while len(tips) > self._max_tips:
            self._forget(tips.pop(0))
        self._longest = max(self._longest, len(tips[-1].body))
        if self._longest * len(tips) <= self._max_bytes:
            return
        while len(tips) > 1:
            kept = {id(tip.body): len(tip.body) for tip in tips}
            self._longest = max(kept.values())
            if sum(kept.values()) <= self._max_bytes:
                return
            self._forget(tips.pop(0))

    def _forget(self, tip: Tip) -> None:
        bucket = self._buckets[tip.first]
        bucket.remove(tip)
        if not bucket:
            del self._buckets[tip.first]
        size = len(tip.first)
        self._sizes[size] -= 1
        if not self._sizes[size]:
            del self._sizes[size]


def _inside(listed: msgspec.Raw) -> int:
    """Where the last item of a list ends, as bytes after its bracket."""
    text = memoryview(listed)
    end = len(text) - 1
    while text[end - 1] in b" \t\n\r":
        end -= 1
    return end - 1


def _size(tip: Tip) -> int:
    return tip.end - tip.start


def _first(found: tuple[tuple[int, int], Tip]) -> int:
    return found[0][0]


def _common(body: bytes, start: int, tip: Tip) -> tuple[int, int]:
    """How many bytes of a tip's history a body has in whole messages, and at which of its bounds they end."""
    assert tip.bounds is not None
    ends, known = tip.bounds.ends, memoryview(tip.body)
    low, high, same = 0, len(ends), 0
    while low < high:  # what is known to be the same is not compared again
        middle = (low + high + 1) // 2
        end = ends[middle - 1]
        if body.startswith(known[tip.start + same : tip.start + end], start + same):
            low, same = middle, end
        else:
            high = middle - 1
    return same, low


def _history_struct(key: str) -> Any:
    return msgspec.defstruct("History", [("items", list[msgspec.Raw])], rename={"items": key})


def _loose_items(history: msgspec.Raw | None) -> list[msgspec.Raw]:
    """A history that is empty, missing or not a list."""
    if history is None:
        return []
    text = bytes(history)
    if text[:1] == b"[":
        return _list.decode(history)
    return [] if text == b"null" else [history]


def _end(match: re.Match[bytes] | None) -> int:
    assert match is not None
    return match.end()
