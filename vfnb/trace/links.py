"""What joins branches beyond ancestry: a summary, a task that was handed on, an answer that came back."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vfnb.trace.causes import Explainer, Fork, explained
from vfnb.trace.evidence import handed_on
from vfnb.trace.graph import MessageGraph
from vfnb.trace.node import Node
from vfnb.trace.spawns import Spawn

__all__ = ["LINKS", "Link", "links"]

LINKS = ("compaction_of", "spawned_by", "returned_to")
_QUOTED = 16
"""An answer shorter than this (characters) is not recognised by its text alone."""


@dataclass(frozen=True, slots=True)
class Link:
    """A relation between two messages of different branches."""

    kind: str
    """`compaction_of`: a branch goes on from a summary. `spawned_by`: a subagent does the task of a tool call.
    `returned_to`: its answer came back."""
    source: int
    """The first own node of the branch that goes on or does the task; for `returned_to`, its last reply."""
    target: int
    """The summary; the sampled message with the tool call; the message that carries the answer."""
    call: int
    """The model call that made the later of the two."""
    detail: str = ""
    """The branch that is continued, as `branch 4`; of subagents the id of the tool call, if it is known."""


def links(graph: MessageGraph) -> list[Link]:
    """All links by the branch that they are about, oldest first. Computed once per version of the graph."""
    if len(graph.tips) < 2:
        return []
    cached = graph.cache.get("links")
    if cached is None or cached[0] != graph.version:
        version = graph.version
        table = explained(graph)
        summaries = {fork.node: _summary(table, fork) for fork in table.forks.values()}
        onward = {made[0]: node for node, made in summaries.items() if made is not None}
        found: list[Link] = []
        for fork in table.forks.values():
            made = summaries[fork.node]
            found += [made[1]] if made is not None else _of(table, fork, onward)
        cached = graph.cache["links"] = (version, found)
    return list(cached[1])


def _summary(table: Explainer, fork: Fork) -> tuple[int, Link] | None:
    """The branch that a branch continues from a summary, and the link to that summary."""
    if fork.cause != "compaction" or fork.detail != "summary":
        return None
    request = table.summaries.of(table.nodes[fork.node], table.calls[fork.call])
    if request is None or request.reply_node is None:
        return None
    past = _continued(table, request.index)
    return past, Link("compaction_of", fork.node, request.reply_node, fork.call, f"branch {past}")


def _of(table: Explainer, fork: Fork, onward: dict[int, int]) -> Iterator[Link]:
    if fork.cause == "subagent":
        first, call = table.nodes[fork.node], table.calls[fork.call]
        spawn = table.spawns.of(first, call) or table.spawns.waiting(call)
        if spawn is not None:
            yield Link("spawned_by", first.index, spawn.node, call.index, spawn.tool_call)
        last = first.index
        while last in onward:  # it ended on another branch, after summaries
            last = onward[last]
        yield from _answers(table, last, spawn)


def _continued(table: Explainer, request: int) -> int:
    """The branch whose history a summary request told of: the one that it hangs on, else the last one before it."""
    evidence, call = table.evidence, table.calls[request]
    prompt = table.nodes[call.prompt_node]
    begun = table.nodes[prompt.branch]
    if begun.call != request:
        return prompt.branch
    if begun.parent >= 0 and not evidence.early(begun):
        return table.nodes[begun.parent].branch
    for older in reversed(table.calls[:request]):
        if older.reply_node is not None and evidence.agent(older) == evidence.agent(call):
            return table.nodes[older.reply_node].branch
    return evidence.starts[0]


def _answers(table: Explainer, branch: int, spawn: Spawn | None) -> Iterator[Link]:
    """Where the last reply of a subagent went: into the result of its tool call, or into a later message.

    Args:
        branch: the first node of the branch on which it ended.
    """
    answer = table.nodes[table.evidence.graph.tips.get(branch, branch)]
    if not answer.sampled:
        return
    found = _result(table, answer, spawn) or _quoted(table, answer)
    if found is not None:
        tool_call = getattr(found.message, "tool_call_id", "") or (spawn.tool_call if spawn else "")
        yield Link("returned_to", answer.index, found.index, found.call, tool_call)


def _result(table: Explainer, answer: Node, spawn: Spawn | None) -> Node | None:
    """The result of the tool call that started it, unless that came before the answer."""
    index = spawn.node if spawn is not None else -1
    while index >= 0:
        below = [child for child in table.nodes[index].children or () if child < len(table.nodes)]
        index = -1
        for child in below:
            node = table.nodes[child]
            if node.message.role != "tool" or node.sampled:
                continue
            if getattr(node.message, "tool_call_id", None) == (spawn.tool_call if spawn else None):
                return node if node.index > answer.index else None
            index = child if index < 0 else index  # results of one turn come one after the other
    return None


def _quoted(table: Explainer, answer: Node) -> Node | None:
    """The first later message outside the branch that has the answer's text, tool results first."""
    if len(handed_on(answer)) < _QUOTED:
        return None
    nodes = [table.nodes[place] for place in table.evidence.quoting(answer)]
    outside = [
        node for node in nodes if node.branch != answer.branch and node.message.role in ("tool", "user")
    ]
    return min(outside, key=lambda node: (node.message.role != "tool", node.index), default=None)
