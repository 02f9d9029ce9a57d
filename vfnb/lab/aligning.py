"""Which items of two sequences belong to each other: longest common subsequences, in the manner of patience diff.

Items that are unique on both sides and in the same order are anchors (found by a longest increasing subsequence in
O(n log n)); what lies between two anchors is aligned likewise. Only small pieces without anchors cost a quadratic
table.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import defaultdict
from collections.abc import Hashable, Sequence
from itertools import pairwise

__all__ = ["common"]

TABLE = 250_000  # cells of the largest table; beyond that items are matched greedily

Pairs = list[tuple[int, int]]


def common(left: Sequence[Hashable], right: Sequence[Hashable]) -> Pairs:
    """Positions of equal items in a common subsequence, ascending on both sides."""
    found: Pairs = []
    work = [(0, len(left), 0, len(right))]
    while work:
        a, b, c, d = work.pop()
        while a < b and c < d and left[a] == right[c]:
            found.append((a, c))
            a, c = a + 1, c + 1
        while a < b and c < d and left[b - 1] == right[d - 1]:
            b, d = b - 1, d - 1
            found.append((b, d))
        if a == b or c == d:
            continue
        anchors = _anchors(left, right, (a, b, c, d))
        if anchors:
            found += anchors
            edges = [(a - 1, c - 1), *anchors, (b, d)]
            work += [(i + 1, k, j + 1, m) for (i, j), (k, m) in pairwise(edges)]
        elif (b - a) * (d - c) <= TABLE:
            found += [(a + i, c + j) for i, j in _table(left[a:b], right[c:d])]
        else:
            found += [(a + i, c + j) for i, j in _greedy(left[a:b], right[c:d])]
    return sorted(found)


def _anchors(left: Sequence[Hashable], right: Sequence[Hashable], piece: tuple[int, int, int, int]) -> Pairs:
    """Items that are unique on both sides of a piece, the longest chain of them that keeps the order."""
    a, b, c, d = piece
    places = _unique(left, a, b)
    others = _unique(right, c, d)
    pairs = [(place, others[item]) for item, place in places.items() if item in others]
    ends: list[int] = []  # the smallest right end of a chain, by its length
    tails: list[int] = []
    before: list[int] = []
    for index, (_, place) in enumerate(pairs):
        length = bisect_left(ends, place)
        before.append(tails[length - 1] if length else -1)
        if length == len(ends):
            ends.append(place)
            tails.append(index)
        else:
            ends[length], tails[length] = place, index
    chain: Pairs = []
    at = tails[-1] if tails else -1
    while at >= 0:
        chain.append(pairs[at])
        at = before[at]
    chain.reverse()
    return chain


def _unique(items: Sequence[Hashable], start: int, end: int) -> dict[Hashable, int]:
    """Items that occur once, in order, and where."""
    places: dict[Hashable, int] = {}
    for place in range(start, end):
        item = items[place]
        places[item] = -1 if item in places else place
    return {item: place for item, place in places.items() if place >= 0}


def _table(left: Sequence[Hashable], right: Sequence[Hashable]) -> Pairs:
    """The longest common subsequence by its table of lengths."""
    width = len(right) + 1
    rows = [[0] * width]
    for item in reversed(left):
        below, row = rows[-1], [0] * width
        for j in range(width - 2, -1, -1):
            row[j] = below[j + 1] + 1 if item == right[j] else max(below[j], row[j + 1])
        rows.append(row)
    rows.reverse()
    found: Pairs = []
    i = j = 0
    while i < len(left) and j < len(right):
        if left[i] == right[j]:
            found.append((i, j))
            i, j = i + 1, j + 1
        elif rows[i + 1][j] >= rows[i][j + 1]:
            i += 1
        else:
            j += 1
    return found


def _greedy(left: Sequence[Hashable], right: Sequence[Hashable]) -> Pairs:
    """Each item with its next occurrence, if that is not far off."""
    places: dict[Hashable, list[int]] = defaultdict(list)
    for place, item in enumerate(right):
        places[item].append(place)
    found: Pairs = []
    last = -1
    reach = max(1, len(right) // 50)
    for index, item in enumerate(left):
        of = places.get(item, [])
        next_one = bisect_right(of, last)
        if next_one < len(of) and of[next_one] <= last + reach:
            last = of[next_one]
            found.append((index, last))
    return found
