"""Where things of a trace are drawn: branches as lanes, time to the right, no two in one place."""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Hashable, Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import networkx as nx

    from vfnb.lab.links import Link
    from vfnb.trace.graph import MessageGraph

__all__ = ["Box", "Layout", "boxes", "lanes", "layout"]

T = TypeVar("T", bound=Hashable)


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
    lane = lanes({branch: (x[branch], end + 1) for branch, end in last.items()}, gap=1)
    y = [lane[node.branch] for node in nodes]
    return Layout(x, y, max(x, default=-1) + 1, max(y, default=-1) + 1)


def lanes(extents: Mapping[T, tuple[float, float]], *, gap: float = 0.0) -> dict[T, int]:
    """A lane for each thing that lies from `start` to `end`, so that those of one lane are `gap` apart.

    Classic interval partitioning: by start, each takes the topmost lane that is free.
    """
    busy: list[tuple[float, int]] = []
    free: list[int] = []
    lane: dict[T, int] = {}
    for thing in sorted(extents, key=lambda one: extents[one][0]):
        start, end = extents[thing]
        while busy and busy[0][0] + gap <= start:
            heapq.heappush(free, heapq.heappop(busy)[1])
        lane[thing] = heapq.heappop(free) if free else len(busy)
        heapq.heappush(busy, (end, lane[thing]))
    return lane


@dataclass(frozen=True, slots=True)
class Box:
    """A place with a size: `[x, x + width]` by `[y, y + height]`, y downwards."""

    x: float
    y: float
    width: float
    height: float


def boxes(
    graph: nx.DiGraph,
    widths: Mapping[Any, float],
    *,
    height: float = 1.0,
    gap: float = 1.0,
    in_turn: bool = True,
) -> dict[Any, Box]:
    """A box for each node of a graph of messages (`trace.graph`, `run.graph`), none over another.

    Every edge leads to the right, with `gap` between its boxes. Nodes with the same attribute `branch` share a
    lane; a lane is used again when its branch has ended. O(n log n) for n nodes and edges.

    Args:
        graph: acyclic, nodes listed in order of time: no edge leads to an earlier one.
        widths: of the box of each node.
        height: of every box; lanes are `height + gap` apart.
        gap: free room between boxes.
        in_turn: a later root starts where the node listed before it ends; else all roots start at 0.
    """
    start: dict[Any, float] = {}
    ends: dict[Any, tuple[float, float]] = {}
    previous = 0.0
    for node, data in graph.nodes(data=True):
        before = [start[source] + widths[source] + gap for source in graph.predecessors(node)]
        start[node] = max(before, default=previous if in_turn else 0.0)
        end = start[node] + widths[node]
        previous = end + gap
        first, last = ends.get(data["branch"], (start[node], end))
        ends[data["branch"]] = min(first, start[node]), max(last, end)
    lane = lanes(ends, gap=gap)
    return {
        node: Box(start[node], lane[data["branch"]] * (height + gap), widths[node], height)
        for node, data in graph.nodes(data=True)
    }
