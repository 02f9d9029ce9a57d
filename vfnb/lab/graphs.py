"""A trace as a networkx graph."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vfnb.lab.links import links
from vfnb.lab.messages import preview
from vfnb.trace.causes import forks

if TYPE_CHECKING:
    import networkx as nx

    from vfnb.trace import Trace

__all__ = ["trace_graph"]


def trace_graph(trace: Trace) -> nx.DiGraph:
    """The messages of a trace as a directed acyclic graph; a node's id is its number in `trace.nodes`.

    Node attributes: `role`, `text` (one line, at most 200 characters), `kind` (`sampled`, `partial` or
    `context`), `sampled` (bool), `depth` (messages before it), `tokens` (how many it adds; None without
    tokens), `call` (index of the call that added it), `branch` (the branch that owns it: its first own node),
    `branches` (how many branches pass through it) and `cause` (why the branch that begins here left the
    others; None where none begins).

    Edge attribute `kind`: `continuation` from a message to the next one; `spawned_by` (from the message with the
    tool call to the subagent that it started), `returned_to` (from the subagent's last reply to the message that
    carries it), `compaction_of` (from a summary to the history that starts from it) and `rewrite` (from a
    message to the one that replaced it) where the trace tells. Edges go from older nodes to newer ones.

    Graph attributes: `trace` (its id), `task` (its key), `version` of the message graph.
    """
    import networkx as nx

    dag = trace.dag
    nodes = dag.nodes[: len(dag.nodes)]
    causes = {first: fork.cause for first, fork in forks(dag).items()}
    through = [0] * len(nodes)
    for tip in list(dag.tips.values()):
        if tip < len(nodes):
            through[tip] += 1
    for node in reversed(nodes):
        if node.parent >= 0:
            through[node.parent] += through[node.index]
    graph = nx.DiGraph(trace=trace.id, task=trace.task.key, version=dag.version)
    for node in nodes:
        message = node.message
        graph.add_node(
            node.index,
            role=message.role,
            text=preview(message, 200),
            kind="sampled" if node.sampled else "partial" if node.partial else "context",
            sampled=node.sampled,
            depth=node.depth,
            tokens=node.end - node.start if node.has_tokens else None,
            call=node.call,
            branch=node.branch,
            branches=through[node.index],
            cause=causes.get(node.index),
        )
    graph.add_edges_from(
        ((node.parent, node.index) for node in nodes if node.parent >= 0), kind="continuation"
    )
    for link in links(dag):
        if link.target < len(nodes):
            graph.add_edge(link.source, link.target, kind=link.kind)
    return graph
