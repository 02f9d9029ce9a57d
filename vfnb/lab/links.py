"""What joins branches beyond ancestry: a subagent's task and its answer, a summary, a rewritten history."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

from vfnb.trace.causes import Fork, forks
from vfnb.trace.graph import MessageGraph, Node

__all__ = ["Link", "links"]

_QUOTED = 16
"""A text shorter than this (characters) may be in another message by chance."""
_TASK = re.compile(r"task of node (\d+)")


@dataclass(frozen=True, slots=True)
class Link:
    """A relation from an older node to a newer one."""

    source: int
    target: int
    kind: str
    """`subagent_call`, `subagent_return`, `compaction` or `rewrite`."""


def links(dag: MessageGraph) -> list[Link]:
    """All relations that the forks of a graph tell of, oldest target first."""
    found = [link for fork in forks(dag).values() for link in _of(dag, fork) if link.source < link.target]
    return sorted(found, key=lambda link: (link.target, link.source))


def _of(dag: MessageGraph, fork: Fork) -> Iterator[Link]:
    nodes = dag.nodes
    match fork.cause:
        case "subagent":
            task = _TASK.fullmatch(fork.detail)
            if task:
                yield Link(int(task[1]), fork.node, "subagent_call")
            answer = nodes[dag.tips.get(fork.node, fork.node)]
            if answer.sampled and (target := _quoting(dag, answer)) is not None:
                yield Link(answer.index, target, "subagent_return")
        case "compaction" if fork.detail == "summary":
            if (source := _summary(dag, fork)) is not None:
                yield Link(source, fork.node, "compaction")
        case "history_edited":
            older = [child for child in dag.children(nodes[fork.node].parent) if child < fork.node]
            if older:
                yield Link(older[-1], fork.node, "rewrite")
        case _:
            pass


def _quoting(dag: MessageGraph, answer: Node) -> int | None:
    """The first later tool result outside the branch that has the answer's text."""
    text = answer.message.text.strip()
    if len(text) < _QUOTED:
        return None
    for node in dag.nodes[answer.index + 1 :]:
        if node.branch != answer.branch and node.message.role == "tool" and text in node.message.text:
            return node.index
    return None


def _summary(dag: MessageGraph, fork: Fork) -> int | None:
    """The newest earlier reply whose text the branch's first own messages carry."""
    call = dag.calls[fork.call]
    texts = []
    index = call.prompt_node
    while index >= fork.node:
        texts.append(dag.nodes[index].message.text)
        index = dag.nodes[index].parent
    for older in reversed(dag.calls[: fork.call]):
        if older.reply_node is None:
            continue
        text = dag.nodes[older.reply_node].message.text.strip()
        if len(text) >= _QUOTED and any(text in carried for carried in texts):
            return older.reply_node
    return None
