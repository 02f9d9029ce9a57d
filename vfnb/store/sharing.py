"""Which messages are worth a place of their own, outside the traces that use them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable

from vfnb.store.codec import Elsewhere

__all__ = ["Sharing"]

MIN_BYTES = 512
"""A shorter body costs less inside a compressed pack than in a row of its own."""
REMEMBERED = 50_000
"""Addresses remembered; forgetting one costs a second copy, nothing else."""

_SHARED = -1


class Sharing:
    """Remembers addresses: a body that a second trace brings goes to the contents table, once.

    System prompts, the task prompts of a group and tool lists are stored once per run this way, and what
    belongs to one trace alone is compressed together with its neighbours.
    """

    def __init__(self) -> None:
        self._users: OrderedDict[bytes, int] = OrderedDict()
        self._stored: set[bytes] = set()

    def of(self, trace: int, pending: list[tuple[bytes, bytes]]) -> Elsewhere:
        """The judge for one trace. Bodies that must be written with its row are added to `pending`."""

        def elsewhere(key: bytes, body: bytes) -> bool:
            if len(body) < MIN_BYTES:
                return False
            user = self._users.setdefault(key, trace)
            self._users.move_to_end(key)
            if len(self._users) > REMEMBERED:
                self._stored.discard(self._users.popitem(last=False)[0])
            if user == trace:
                return False
            self._users[key] = _SHARED
            if key not in self._stored:
                pending.append((key, body))
            return True

        return elsewhere

    def stored(self, items: Iterable[tuple[bytes, bytes]]) -> None:
        """These are committed and need not be written again."""
        self._stored.update(key for key, _ in items)
