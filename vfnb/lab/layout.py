"""Where the messages of a trace are drawn: branches as lanes, time to the right, no two in one place."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from vfnb.lab.links import Link
    from vfnb.trace.graph import MessageGraph

__all__ = ["Layout", "layout"]


@dataclass(frozen=True, slots=True)
class Layout:
    """Grid places by node number."""

    x: list[int]
    """Column: right of the parent. A later root starts after what was said before it."""
    y: list[int]
    """Lane, 0 on top. A branch keeps its lane; a lane is used again when its branch has ended."""
    columns: int
    lanes: int


def layout(dag: MessageGraph, joined: Iterable[Link] = ()) -> Layout:
    """Place the nodes of a graph; O(n + b log b) for n nodes and b branches. Relations too lead to the right."""
    nodes = dag.nodes[: len(dag.nodes)]
    sources: dict[int, list[int]] = defaultdict(list)
    for link in joined:
        sources[link.target].append(link.source)
    x: list[int] = []
    last: dict[int, int] = {}
    for node in nodes:
        before = node.parent if node.parent >= 0 else node.index - 1
        column = x[before] + 1 if before >= 0 else 0
        x.append(max([column, *(x[source] + 1 for source in sources.get(node.index, ()))]))
        last[node.branch] = x[-1]  # a branch's own nodes come in order
    # Classic interval partitioning: by start, each branch takes the topmost lane that is free.
    busy: list[tuple[int, int]] = []
    free: list[int] = []
    lane: dict[int, int] = {}
    for branch in sorted(last, key=lambda first: (x[first], first)):
        while busy and busy[0][0] < x[branch] - 1:  # one empty column between two branches
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane[branch] = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (last[branch], lane[branch]))
    y = [lane[node.branch] for node in nodes]
    return Layout(x, y, max(x, default=-1) + 1, max(y, default=-1) + 1)
