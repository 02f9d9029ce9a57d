"""A trace as a view gets it: structure, places and one line a message; whole texts stay in Python."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from vfnb.lab.layout import layout
from vfnb.lab.links import links
from vfnb.lab.messages import preview
from vfnb.lab.trace_twin import trace_facts
from vfnb.lab.tree_figure import role_of
from vfnb.trace.causes import forks

if TYPE_CHECKING:
    from vfnb.trace import Trace

__all__ = ["ROLES", "outline"]

ROLES = ("system", "user", "assistant", "tool", "other")
_PREVIEW = 90


def outline(trace: Trace) -> dict[str, Any]:
    """Plain JSON values. Lists have one entry a node; `role` indexes `roles`; `tips` are `[branch, leaf]`,
    oldest branch first; `links` are `[source, target, kind]`; `forks` explain branches by their first node."""
    dag = trace.dag
    _, nodes = dag.snapshot()
    size = len(nodes)
    joined = [link for link in links(dag) if link.target < size]
    places = layout(dag, joined)
    main = trace.main
    return {
        "id": trace.id,
        **trace_facts(trace),
        "roles": list(ROLES),
        "x": places.x[:size],
        "y": places.y[:size],
        "columns": places.columns,
        "lanes": places.lanes,
        "parent": [node.parent for node in nodes],
        "branch": [node.branch for node in nodes],
        "role": [ROLES.index(role_of(node.message.role)) for node in nodes],
        "name": {node.index: node.message.role for node in nodes if role_of(node.message.role) == "other"},
        "sampled": [int(node.sampled) for node in nodes],
        "tokens": [node.end - node.start for node in nodes] if dag.columns is not None else None,
        "call": [node.call for node in nodes],
        "text": [preview(node.message, _PREVIEW) for node in nodes],
        "tips": [[branch, leaf] for branch, leaf in list(dag.tips.items()) if leaf < size],
        "main": main.id if main is not None and main.leaf < size else -1,
        "links": [[link.source, link.target, link.kind.replace("_", " ")] for link in joined],
        "forks": {
            first: {"cause": fork.cause, "detail": fork.detail, "index": fork.index}
            for first, fork in forks(dag).items()
            if first < size
        },
    }
