"""Digests of requests that do not depend on white space or key order, computed for new parts only."""

from __future__ import annotations

import json
from hashlib import blake2b
from typing import Any

import msgspec
from blake3 import blake3

from vfnb.dialects.lenient import loads
from vfnb.dialects.parts import HASH, Split
from vfnb.utils.long_texts import LONG, text_digest

__all__ = ["Digests"]

_SIZE = 16
_MAX = 4096
_PROBE = 64
_ASIDE = msgspec.Raw(b"\0")  # no JSON: it stands for a long text and for nothing else
_sorted = msgspec.json.Encoder(order="sorted").encode


def _canonical(value: Any, size: int, digests: dict[int, bytes]) -> bytes:
    """The digest of a JSON value of so many bytes. Those of its long texts are added to `digests`, by `id`."""
    texts: list[bytes] = []
    try:
        plain = _sorted(_aside(value, texts, digests) if size > LONG else value)
    except (ValueError, OverflowError, RecursionError):
        texts.clear()
        plain = json.dumps(value, sort_keys=True).encode()
    return blake3(b"".join((plain, *texts))).digest(_SIZE)


def _aside(value: Any, texts: list[bytes], digests: dict[int, bytes]) -> Any:
    """The value without its long texts, whose digests are added to `texts`."""
    if isinstance(value, str):
        if len(value) <= LONG:
            return value
        texts.append(text_digest(value))
        digests[id(value)] = texts[-1]
        return _ASIDE
    if isinstance(value, dict):
        return {key: _aside(value[key], texts, digests) for key in sorted(value)}
    return [_aside(entry, texts, digests) for entry in value] if isinstance(value, list) else value


def _known(split: Split) -> HASH:
    """The running digest of the known history."""
    tip = split.tip
    if tip is None:
        return blake2b(digest_size=_SIZE)
    if split.bound:
        if tip.before is not None and split.n_known == tip.count - 1:
            return tip.before.copy()
        assert tip.bounds is not None
        return blake2b(memoryview(tip.bounds.keys)[: _SIZE * split.n_known], digest_size=_SIZE)
    return tip.chain.copy()


class Digests:
    """Digests of one session's requests.

    A request's digest goes on from that of its known history, over its new items and one value per other key, so
    that a body with a known prefix costs its tail.
    """

    def __init__(self) -> None:
        self._items: dict[bytes, bytes] = {}  # digest of the slice -> canonical digest
        self._probes: set[tuple[int, bytes, bytes]] = set()
        self._fields: dict[str, tuple[msgspec.Raw, bytes]] = {}  # newest value of a key and its digest

    def keys(self, split: Split) -> list[bytes]:
        """The canonical digest of each of `split.items`."""
        if split.item_keys is None:
            split.item_keys = [self._item(split, place, item) for place, item in enumerate(split.items)]
        return split.item_keys

    def chain(self, split: Split) -> HASH:
        """The running digest of the whole history; nobody else may update it."""
        if split.chain is None:
            chain = _known(split)
            keys = self.keys(split)
            if keys:
                chain.update(b"".join(keys[:-1]))
                split.before = chain.copy()  # programs that move a mark write their last message anew
                chain.update(keys[-1])
            split.chain = chain
        return split.chain

    def whole(self, split: Split, frame: bytes) -> bytes:
        """The digest of the request; `frame` is what `frame` gives."""
        state = self.chain(split).copy()
        state.update(frame)
        return state.digest()

    def frame(self, fields: dict[str, msgspec.Raw]) -> bytes:
        """What the keys beside the history add to the digest."""
        return b"".join(
            name.encode("utf-8", "surrogatepass") + b"\x00" + self._field(name, fields[name])
            for name in sorted(fields)
        )

    def _item(self, split: Split, place: int, item: msgspec.Raw) -> bytes:
        view = memoryview(item)
        if split.tip is not None:  # the end of a known history is new
            return _canonical(split.value(place), len(view), split.digests)
        if len(view) > LONG:
            probe = (len(view), bytes(view[:_PROBE]), bytes(view[-_PROBE:]))
            if probe not in self._probes:  # never seen, so its slice need not be hashed to look it up
                if len(self._probes) >= _MAX:
                    self._probes.clear()
                self._probes.add(probe)
                return _canonical(split.value(place), len(view), split.digests)
        key = blake3(view).digest(_SIZE)
        value = self._items.get(key)
        if value is None:
            if len(self._items) >= _MAX:
                self._items.clear()
            value = self._items[key] = _canonical(split.value(place), len(view), split.digests)
        return value

    def _field(self, name: str, raw: msgspec.Raw) -> bytes:
        known = self._fields.get(name)
        if known is not None and known[0] == raw:
            return known[1]
        value = _canonical(loads(raw), len(memoryview(raw)), {})
        self._fields[name] = (raw, value)
        return value
