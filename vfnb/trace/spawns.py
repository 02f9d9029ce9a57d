"""Which tool call started which subagent, read from the task's text and from who was waiting."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from vfnb.trace.calls import ModelCall
from vfnb.trace.evidence import Evidence
from vfnb.trace.node import Node
from vfnb.trace.quotes import Quotes
from vfnb.types import AssistantMessage, TextContentPart

__all__ = ["Spawn", "Spawns"]

_TASK = 8
"""A task text shorter than this (characters) is not recognised: it may be there by chance."""
_MOST, _SOME = 0.5, 0.2
"""How much of a prompt its task is, or of a task the prompt; less will do for the one tool call that still waits.
With texts of several calls it is an account of a conversation, to be summarised or named."""


@dataclass(frozen=True, slots=True)
class Spawn:
    """The sampled node that started a subagent, and its tool call."""

    node: int
    tool_call: str


@dataclass(slots=True)
class _Task:
    """A string in the arguments of a tool call."""

    text: str
    node: Node
    tool_call: str


class Spawns:
    """Looks up tasks once for all branches."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self._found: dict[int, Spawn | None] = {}
        self._taken: set[tuple[int, str]] = set()

    def of(self, first: Node, call: ModelCall) -> Spawn | None:
        """The tool call of another branch whose task this branch begins with. Ask in the order of the branches."""
        if first.index not in self._found:
            spawn = self._find(first, call)
            self._found[first.index] = spawn
            if spawn is not None:
                self._taken.add((spawn.node, spawn.tool_call))
        return self._found[first.index]

    def waiting(self, call: ModelCall) -> Spawn | None:
        """The newest earlier reply with one tool call that nobody had answered when a call came."""
        for node in reversed(self._callers):
            if node.call < call.index and self._pending(node, call):
                calls = getattr(node.message, "tool_calls", None) or []
                return Spawn(node.index, calls[0].id) if len(calls) == 1 else None
        return None

    @cached_property
    def _callers(self) -> list[Node]:
        nodes = self.evidence.nodes
        return [node for node in nodes if node.sampled and getattr(node.message, "tool_calls", None)]

    @cached_property
    def _tasks(self) -> dict[str, list[_Task]]:
        """The strings in the arguments of sampled tool calls."""
        found: dict[str, list[_Task]] = {}
        for node in self._callers:
            assert isinstance(node.message, AssistantMessage)
            for made in node.message.tool_calls:
                for text in _strings(made.parsed):
                    text = text.strip()
                    if len(text) >= _TASK:
                        found.setdefault(text, []).append(_Task(text, node, made.id))
        return found

    @cached_property
    def _asked(self) -> dict[int, list[str]]:
        """The user texts with which each conversation of its own begins, by the branch."""
        evidence, found = self.evidence, {}
        for start in evidence.starts[1:]:
            first = evidence.nodes[start]
            if evidence.early(first):
                texts = _user_texts(evidence.own_prompt(first, evidence.calls[first.call]))
                found[start] = [text for text in texts if len(text) >= _TASK]
        return found

    @cached_property
    def _quotes(self) -> Quotes:
        return Quotes(self._tasks)

    @cached_property
    def _wrapped(self) -> dict[str, list[str]]:
        """The tasks that contain each text which was asked."""
        asked = Quotes(text for texts in self._asked.values() for text in texts)
        found: dict[str, list[str]] = {}
        for task in self._tasks:
            for text in asked.within(task):
                found.setdefault(text, []).append(task)
        return found

    def _find(self, first: Node, call: ModelCall) -> Spawn | None:
        best: tuple[bool, float, int, bool] | None = None
        spawn = None
        parent = call.markers.get("parent")
        for asked in self._asked.get(first.index, ()):
            texts = {*self._quotes.within(asked), *self._wrapped.get(asked, ())}
            tasks = [
                (text, task) for text in texts for task in self._tasks[text] if task.node.call < call.index
            ]
            alone = len({task.node.index for _, task in tasks}) == 1
            for text, task in tasks:
                free = (task.node.index, task.tool_call) not in self._taken
                share = min(len(text), len(asked)) / max(len(text), len(asked))
                waits = share >= _SOME and alone and free and self._pending(task.node, call)
                if task.node.branch != first.branch and (share >= _MOST or waits):
                    own = self.evidence.agent(self.evidence.calls[task.node.call])
                    rank = (parent is not None and own == parent, share, task.node.index, free)
                    if best is None or rank > best:
                        best, spawn = rank, Spawn(task.node.index, task.tool_call)
        return spawn

    def _pending(self, node: Node, call: ModelCall) -> bool:
        """Whether a reply had no answer yet when a call came."""
        return not node.children or self.evidence.nodes[node.children[0]].call >= call.index


def _user_texts(nodes: list[Node]) -> list[str]:
    texts = []
    for node in nodes:
        if node.message.role == "user":
            body = node.message.content
            if isinstance(body, list):
                texts += [part.text.strip() for part in body if isinstance(part, TextContentPart)]
            else:
                texts.append(node.message.text.strip())
    return texts


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
