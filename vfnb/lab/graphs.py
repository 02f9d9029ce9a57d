"""A trace as a networkx graph: message by message, or folded."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vfnb.lab.extents import sampled_tokens, times
from vfnb.lab.fold import fold
from vfnb.lab.links import links
from vfnb.lab.messages import preview
from vfnb.trace.causes import forks

if TYPE_CHECKING:
    import networkx as nx

    from vfnb.trace import Trace
    from vfnb.trace.graph import MessageGraph, Node

__all__ = ["trace_graph"]


def trace_graph(trace: Trace, collapse: str = "none") -> nx.DiGraph:
    """The messages of a trace as a directed acyclic graph; edges lead from older to newer ones.

    A node's id is the number of its (first) message in `trace.nodes`; it stays the same while the trace grows.
    Collapsed nodes end wherever another branch or a relation leaves, so that every branch point stays visible.

    Args:
        trace: the trace.
        collapse: `none` for a node per message; `turns` for a node per turn (new messages and their reply);
            `branches` for a node per stretch on which nothing branches.

    Returns:
        Node attributes:

        - `role`: of the message; `turn` or `messages` if the node holds several;
        - `label`: a few words for a drawing; `text`: the (last) message on one line, at most 200 characters;
        - `kind`: `sampled` (the node holds a reply of the model), `partial` (repeats a cut stream) or `context`;
          `sampled`: the first of these as a bool;
        - `messages`, `turns`: how many messages and replies it holds; `last`: number of its last message;
        - `depth`: messages before it;
        - `tokens`: how many it adds: exact where stored, else of replies what the provider counted, else None;
        - `reward`: its share of the trace's reward, spread evenly over sampled tokens (over replies if no tokens
          are known), 0.0 for context; the shares sum to the reward; None without one;
        - `start`, `end`: Unix seconds: of replies the time of the call, of other messages the time between the end
          of the reply that they follow and their call; None if not recorded;
        - `call`: the call that added it (the last one); `branch`: the branch that owns it (its first own
          node); `branches`: how many branches pass through it;
        - `cause`: why the branch that begins here left the others; None where none begins.

        Edge attributes: `kind` is `continuation` from a message to the next one; `spawned_by` (from the message
        with the tool call to the subagent that it started), `returned_to` (from the subagent's last reply to the
        message that carries it), `compaction_of` (from a summary to the history that starts from it) and `rewrite`
        (from a message to the one that replaced it) where the trace tells. `ancestry` is True if the newer
        message also follows the older one in a history.

        Graph attributes: `trace` (its id), `task` (its key), `version` of the message graph, `collapse`.

    Raises:
        ConfigError: another `collapse`.
    """
    import networkx as nx

    dag = trace.dag
    _, nodes = dag.snapshot()
    joined = [link for link in links(dag) if link.target < len(nodes)]
    groups = [group for group in fold(dag, joined, collapse) if group[-1] < len(nodes)]
    graph = nx.DiGraph(trace=trace.id, task=trace.task.key, version=dag.version, collapse=collapse)
    facts = _Facts(trace, nodes)
    owner = {}
    for group in groups:
        owner[group[-1]] = group[0]
        graph.add_node(group[0], **facts.of([nodes[index] for index in group], collapse))
    for group in groups:
        parent = nodes[group[0]].parent
        if parent >= 0:
            graph.add_edge(owner[parent], group[0], kind="continuation", ancestry=True)
    for link in joined:
        source = owner[link.source]
        graph.add_edge(source, link.target, kind=link.kind, ancestry=graph.has_edge(source, link.target))
    return graph


class _Facts:
    """What is known of each message, computed once for the whole trace."""

    def __init__(self, trace: Trace, nodes: Sequence[Node]) -> None:
        dag = trace.dag
        self.causes = {first: fork.cause for first, fork in forks(dag).items()}
        self.through = _through(dag, nodes)
        self.drawn = sampled_tokens(dag, nodes)
        self.times = times(dag, nodes)
        self.reward = trace.reward
        known = sum(self.drawn)
        weights = self.drawn if known else [int(node.sampled) for node in nodes]
        self.weights, self.total = weights, sum(weights)

    def of(self, members: Sequence[Node], collapse: str) -> dict[str, Any]:
        """The attributes of a node that holds these messages."""
        first, last = members[0], members[-1]
        sampled = any(node.sampled for node in members)
        turns = sum(node.sampled for node in members)
        spans = [self.times[node.index] for node in members]
        start, end = min(a for a, _ in spans), max(b for _, b in spans)
        role = "turn" if collapse == "turns" and sampled else "messages"
        role = last.message.role if len(members) == 1 else role
        text = preview(last.message, 200)
        return {
            "role": role,
            "label": _label(role, text, len(members), turns),
            "text": text,
            "kind": "sampled" if sampled else "partial" if last.partial else "context",
            "sampled": sampled,
            "messages": len(members),
            "turns": turns,
            "last": last.index,
            "depth": first.depth,
            "tokens": self._tokens(members),
            "reward": self._share(members),
            "start": start or None,
            "end": end or None,
            "call": last.call,
            "branch": first.branch,
            "branches": self.through[last.index],
            "cause": self.causes.get(first.index),
        }

    def _tokens(self, members: Sequence[Node]) -> int | None:
        known = [
            node.end - node.start if node.has_tokens else self.drawn[node.index]
            for node in members
            if node.has_tokens or self.drawn[node.index]
        ]
        return sum(known) if known else None

    def _share(self, members: Sequence[Node]) -> float | None:
        if self.reward is None:
            return None
        mine = sum(self.weights[node.index] for node in members)
        return self.reward * mine / self.total if mine else 0.0


def _label(role: str, text: str, messages: int, turns: int) -> str:
    if role == "messages":
        return f"{messages} messages, {turns} {'reply' if turns == 1 else 'replies'}"
    label = f"{role}: {text}"
    return label if len(label) <= 40 else f"{label[:39]}…"


def _through(dag: MessageGraph, nodes: Sequence[Node]) -> list[int]:
    """How many branches pass through each message."""
    through = [0] * len(nodes)
    for tip in list(dag.tips.values()):
        if tip < len(nodes):
            through[tip] += 1
    for node in reversed(nodes):
        if node.parent >= 0:
            through[node.parent] += through[node.index]
    return through
