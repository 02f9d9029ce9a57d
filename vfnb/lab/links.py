"""What joins branches beyond ancestry, as edges that run with time: the trace's links, and rewritten histories."""

from __future__ import annotations

from dataclasses import dataclass

from vfnb.trace.causes import forks
from vfnb.trace.graph import MessageGraph
from vfnb.trace.links import links as trace_links

__all__ = ["Link", "links"]


@dataclass(frozen=True, slots=True)
class Link:
    """A relation from an older node to a newer one."""

    source: int
    target: int
    kind: str
    """`spawned_by`, `returned_to`, `compaction_of` or `rewrite`."""


def links(dag: MessageGraph) -> list[Link]:
    """All relations between the branches of a graph, oldest target first."""
    found = [
        Link(min(link.source, link.target), max(link.source, link.target), link.kind)
        for link in trace_links(dag)
    ]
    for fork in forks(dag).values():
        if fork.cause == "history_edited":
            older = [child for child in dag.children(dag.nodes[fork.node].parent) if child < fork.node]
            if older:
                found.append(Link(older[-1], fork.node, "rewrite"))
    return sorted(found, key=lambda link: (link.target, link.source))
