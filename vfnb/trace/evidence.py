"""What the causes of forks are read from: where a reply came back, what a history carries, who asked for what.

Everything is computed once per pass, so that explaining many forks costs little more than reading the texts.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from itertools import accumulate
from typing import Any

from vfnb.trace.calls import ModelCall
from vfnb.trace.graph import MessageGraph
from vfnb.trace.node import Node
from vfnb.types import AssistantMessage, TextContentPart

__all__ = ["Evidence"]

_CARRIED = 16
"""A reply shorter than this (characters) is not recognised inside another message: it may be there by chance."""
_TASK = 8
"""The same for the task text of a subagent."""
_SUMMARY = re.compile(r"<summary>(.*)</summary>", re.DOTALL)
"""Programs ask for an analysis and a summary in tags, and hand on only what is inside the latter."""


class Evidence:
    """A snapshot of a graph with its texts decoded once."""

    def __init__(self, graph: MessageGraph) -> None:
        self.graph = graph
        self.calls, self.nodes = graph.snapshot()
        self.starts = [start for start in list(graph.tips) if start < len(self.nodes)]
        """First own node of each branch, oldest first."""
        self._returns: dict[int, bool] = {}
        self._users: dict[int, int | None] = {}
        self._tool_texts: list[tuple[int, int, list[str]]] | None = None
        self._context: tuple[str, list[int], dict[bytes, int]] | None = None
        self._longest: list[int] | None = None
        self._summaries: list[tuple[int, str]] | None = None

    # Shape

    def children(self, parent: int) -> list[Node]:
        """Children in order of creation; of -1, the roots."""
        return [self.nodes[index] for index in self.graph.children(parent) if index < len(self.nodes)]

    def own_prompt(self, first: Node, call: ModelCall) -> list[Node]:
        """The prompt messages of a call from the branch's first node on."""
        found = []
        index = call.prompt_node
        while index >= first.index:
            found.append(self.nodes[index])
            index = self.nodes[index].parent
        found.reverse()
        return found

    def fresh(self, first: Node) -> bool:
        """Whether a branch shares nothing but system messages with the others."""
        parent = first.parent
        while parent >= 0:
            if self.nodes[parent].message.role != "system":
                return False
            parent = self.nodes[parent].parent
        return True

    def single(self, first: Node) -> bool:
        """Whether one call made all that hangs below a node."""
        end = first
        while end.children:
            if len(end.children) > 1 or end.children[0] >= len(self.nodes):
                return False
            end = self.nodes[end.children[0]]
            if end.call != first.call:
                return False
        return True

    # Subagents

    def task_of(self, first: Node, call: ModelCall) -> int | None:
        """The sampled node of another branch whose tool call contains the task that this branch begins with."""
        asked = [text for text in self._user_texts(first, call) if len(text) >= _TASK]
        for owner, maker, texts in self._tasks():
            if maker >= call.index or owner == first.branch:
                continue
            for text in texts:
                if any(text in other or other in text for other in asked):
                    return self.calls[maker].reply_node
        return None

    def _user_texts(self, first: Node, call: ModelCall) -> list[str]:
        texts = []
        for node in self.own_prompt(first, call):
            if node.message.role == "user":
                body = node.message.content
                if isinstance(body, list):
                    texts += [part.text.strip() for part in body if isinstance(part, TextContentPart)]
                else:
                    texts.append(node.message.text.strip())
        return texts

    def _tasks(self) -> list[tuple[int, int, list[str]]]:
        """(branch, call, strings in the arguments) of each sampled message with tool calls."""
        if self._tool_texts is None:
            self._tool_texts = []
            for node in self.nodes:
                if node.sampled and isinstance(node.message, AssistantMessage) and node.message.tool_calls:
                    strings = [
                        text.strip()
                        for call in node.message.tool_calls
                        for text in _strings(call.parsed)
                        if len(text.strip()) >= _TASK
                    ]
                    self._tool_texts.append((node.branch, node.call, strings))
        return self._tool_texts

    # Replies that come back

    def returns(self, call: ModelCall) -> bool:
        """Whether a call's reply came into a later history: continued, sent again, or quoted."""
        if call.reply_node is None:
            return False
        if call.index not in self._returns:
            got = call.reply_node if call.shown_node is None else call.shown_node
            self._returns[call.index] = self._find_reply(self.nodes[got])
        return self._returns[call.index]

    def _find_reply(self, reply: Node) -> bool:
        if reply.children:
            return True
        whole, places, turns = self._contexts()
        if turns.get(reply.identity.key, -1) > reply.index:
            return True
        text = _handed_on(reply)
        return len(text) >= _CARRIED and whole.find(text, places[reply.index + 1]) >= 0

    def _contexts(self) -> tuple[str, list[int], dict[bytes, int]]:
        """All context texts joined, where each node's begins, and the last context node of each assistant turn."""
        if self._context is None:
            texts = ["" if node.sampled else node.message.text + "\0" for node in self.nodes]
            places = list(accumulate(map(len, texts), initial=0))
            turns = {
                node.identity.key: node.index
                for node in self.nodes
                if not node.sampled and node.message.role == "assistant"
            }
            self._context = "".join(texts), places, turns
        return self._context

    # Compaction

    def summary_of(self, first: Node, call: ModelCall) -> int | None:
        """The summary request from whose reply this shorter history starts."""
        if first.sampled:
            return None
        length = self.nodes[call.prompt_node].depth + 1
        for request in reversed(self.calls[: call.index]):
            if request.markers.get("kind") != "compaction" or request.reply_node is None:
                continue
            if length <= self.nodes[request.reply_node].depth and not self._used(request, call):
                return request.index
        return self._carried(first, call)

    def _used(self, request: ModelCall, call: ModelCall) -> bool:
        """Whether another branch of the same agent began after a declared request and before this call."""
        for start in self.starts:
            made = self.calls[self.nodes[start].call]
            if (
                request.index < made.index < call.index
                and made.markers.get("kind") != "compaction"
                and made.markers.get("agent") == call.markers.get("agent")
            ):
                return True
        return False

    def _carried(self, first: Node, call: ModelCall) -> int | None:
        """The newest earlier call whose reply ended a line and whose text this shorter history contains."""
        if self.nodes[call.prompt_node].depth + 1 > self._longest_before(call.index):
            return None
        texts = "\0".join(node.message.text for node in self.own_prompt(first, call))
        for index, text in reversed(self._ended()):
            if index < call.index and len(text) <= len(texts) and text in texts:
                return index
        return None

    def _ended(self) -> list[tuple[int, str]]:
        """Calls whose reply is a text without tool calls and ends its line."""
        if self._summaries is None:
            self._summaries = []
            for call in self.calls:
                if call.reply_node is None or self.nodes[call.reply_node].children:
                    continue
                node = self.nodes[call.reply_node]
                text = _handed_on(node)
                if len(text) >= _CARRIED and not getattr(node.message, "tool_calls", None):
                    self._summaries.append((call.index, text))
        return self._summaries

    def _longest_before(self, call: int) -> int:
        """Messages of the longest history that an earlier call had or made."""
        if self._longest is None:
            ends = (item.prompt_node if item.reply_node is None else item.reply_node for item in self.calls)
            depths = (self.nodes[end].depth + 1 if end >= 0 else 0 for end in ends)
            self._longest = list(accumulate(depths, max, initial=0))
        return self._longest[call]

    def started_from(self, request: ModelCall) -> int | None:
        """The first later call that starts a shorter history from this call's reply."""
        if request.index not in self._users:
            found = None
            if self.returns(request):
                text = next((text for index, text in self._ended() if index == request.index), None)
                found = self._first_with(text, request) if text else None
            self._users[request.index] = found
        return self._users[request.index]

    def _first_with(self, text: str, request: ModelCall) -> int | None:
        for start in self.starts[1:]:
            first = self.nodes[start]
            call = self.calls[first.call]
            if call.index <= request.index or first.sampled:
                continue
            if self.nodes[call.prompt_node].depth + 1 > self._longest_before(call.index):
                continue
            if any(text in node.message.text for node in self.own_prompt(first, call)):
                return call.index
        return None


def _handed_on(reply: Node) -> str:
    """What of a reply's text a program would put into another history."""
    text = reply.message.text
    tagged = _SUMMARY.search(text)
    return (tagged[1] if tagged else text).strip()


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)
