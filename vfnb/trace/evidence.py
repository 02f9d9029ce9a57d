"""What the causes of forks are read from: who asked, where a reply came back, what a history carries.

Everything is computed once per pass, when it is first needed: to explain many forks costs little more than to read
the texts.
"""

from __future__ import annotations

import re
from bisect import bisect_left
from functools import cached_property

from vfnb.trace.calls import ModelCall
from vfnb.trace.graph import MessageGraph
from vfnb.trace.node import Node
from vfnb.trace.quotes import Quotes

__all__ = ["CARRIED", "Evidence", "evidence", "handed_on"]

CARRIED = 16
"""A reply shorter than this (characters) is not recognised inside another message: it may be there by chance."""
_SUMMARY = re.compile(r"<summary>(.*)</summary>", re.DOTALL)
"""Programs ask for an analysis and a summary in tags, and hand on only what is inside the latter."""
_SYSTEM, _PROMPT, _TURNS = range(3)


def evidence(graph: MessageGraph) -> Evidence:
    """The evidence of a graph as it stands, kept until it grows."""
    cached = graph.cache.get("evidence")
    if cached is None or cached[0] != graph.version:
        version = graph.version
        cached = graph.cache["evidence"] = (version, Evidence(graph))
    found: Evidence = cached[1]
    return found


class Evidence:
    """A snapshot of a graph with its texts decoded once."""

    def __init__(self, graph: MessageGraph) -> None:
        self.graph = graph
        self.calls, self.nodes = graph.snapshot()
        self.starts = [start for start in list(graph.tips) if start < len(self.nodes)]
        """First own node of each branch, oldest first."""
        self._singles: dict[int, bool] = {}

    # Shape

    def eldest(self, parent: int) -> Node:
        """The first child; of -1, the first root."""
        return self.nodes[self.graph.roots[0] if parent < 0 else (self.nodes[parent].children or [parent])[0]]

    def children(self, parent: int) -> list[Node]:
        """Children in order of creation; of -1, the roots."""
        return [self.nodes[index] for index in self.graph.children(parent) if index < len(self.nodes)]

    @cached_property
    def sampled_child(self) -> dict[int, int]:
        """The first reply below each node that has one."""
        found: dict[int, int] = {}
        for node in self.nodes:
            if node.sampled:
                found.setdefault(node.parent, node.index)
        return found

    def own_prompt(self, first: Node, call: ModelCall) -> list[Node]:
        """The prompt messages of a call from the branch's first node on."""
        found = []
        index = call.prompt_node
        while index >= first.index:
            found.append(self.nodes[index])
            index = self.nodes[index].parent
        found.reverse()
        return found

    @cached_property
    def _prefixes(self) -> list[int]:
        """Of the messages up to each node: only system ones, system and user ones, or others too."""
        found: list[int] = []
        for node in self.nodes:
            role = node.message.role
            own = _SYSTEM if role == "system" else _PROMPT if role == "user" else _TURNS
            found.append(own if node.parent < 0 else max(own, found[node.parent]))
        return found

    def fresh(self, first: Node) -> bool:
        """Whether a branch shares nothing but system messages with the others."""
        return first.parent < 0 or self._prefixes[first.parent] == _SYSTEM

    def early(self, first: Node) -> bool:
        """Whether it shares no turn of a model with them: a conversation of its own below the same preamble."""
        return first.parent < 0 or self._prefixes[first.parent] <= _PROMPT

    def single(self, first: Node) -> bool:
        """Whether one call made all that hangs below a node; others may share its system messages."""
        if first.index not in self._singles:
            self._singles[first.index] = self._single(first)
        return self._singles[first.index]

    def _single(self, first: Node) -> bool:
        end = first
        while end.children:
            shared = len(end.children) > 1 and self._prefixes[end.index] != _SYSTEM
            if shared or end.children[0] >= len(self.nodes):
                return False
            end = self.nodes[end.children[0]]
            if end.call != first.call:
                return False
        return True

    # Who asks

    def agent(self, call: ModelCall) -> str | None:
        """The agent that a call declares."""
        return call.markers.get("agent")

    @cached_property
    def first_calls(self) -> dict[str | None, int]:
        """The first call of each agent that is declared."""
        found: dict[str | None, int] = {}
        for call in self.calls:
            found.setdefault(self.agent(call), call.index)
        return found

    def same_prompt(self, call: ModelCall) -> ModelCall | None:
        """The last earlier call with the same prompt."""
        known = self._by_prompt[call.prompt_node]
        place = bisect_left(known, call.index)
        return self.calls[known[place - 1]] if place else None

    @cached_property
    def _by_prompt(self) -> dict[int, list[int]]:
        found: dict[int, list[int]] = {}
        for call in self.calls:
            found.setdefault(call.prompt_node, []).append(call.index)
        return found

    def left_behind(self, branch: int, call: ModelCall) -> bool:
        """Whether a later call belongs to another branch."""
        other = self._later[call.index]
        return other is not None and other != branch

    @cached_property
    def _later(self) -> list[int | None]:
        """Of the calls after each: None if there are none, -1 if they are of several branches, else their one."""
        found: list[int | None] = []
        seen: int | None = None
        for call in reversed(self.calls):
            found.append(seen)
            if call.prompt_node >= 0:
                branch = self.nodes[call.prompt_node].branch
                seen = branch if seen is None or seen == branch else -1
        found.reverse()
        return found

    # Replies that come back

    def reply(self, call: ModelCall) -> Node | None:
        """What the program got."""
        if call.reply_node is None:
            return None
        return self.nodes[call.reply_node if call.shown_node is None else call.shown_node]

    def returns(self, call: ModelCall) -> bool:
        """Whether a call's reply came into a later history: continued, sent again, or quoted."""
        reply = self.reply(call)
        if reply is None:
            return False
        return (
            bool(reply.children)
            or self._echoes.get(reply.identity.key, -1) > reply.index
            or bool(self.quoting(reply))
        )

    @cached_property
    def _echoes(self) -> dict[bytes, int]:
        """The last context node of each assistant turn."""
        return {
            node.identity.key: node.index
            for node in self.nodes
            if not node.sampled and node.message.role == "assistant"
        }

    @cached_property
    def leaves(self) -> dict[str, list[int]]:
        """The calls whose reply nothing follows, by its text."""
        found: dict[str, list[int]] = {}
        for call in self.calls:
            reply = self.reply(call)
            if reply is not None and not reply.children:
                text = handed_on(reply)
                if len(text) >= CARRIED:
                    found.setdefault(text, []).append(call.index)
        return found

    @cached_property
    def quoted(self) -> tuple[dict[str, list[int]], dict[int, list[str]]]:
        """The context nodes that contain each of those texts, and the texts in each node."""
        quotes = Quotes(self.leaves)
        where: dict[str, list[int]] = {}
        texts: dict[int, list[str]] = {}
        if self.leaves:
            for node in self.nodes:
                if not node.sampled:
                    for text in quotes.within(node.message.text):
                        where.setdefault(text, []).append(node.index)
                        texts.setdefault(node.index, []).append(text)
        return where, texts

    def quoting(self, reply: Node) -> list[int]:
        """The later context nodes that contain the text of a reply which nothing follows."""
        if reply.children:
            return []
        places = self.quoted[0].get(handed_on(reply), [])
        return places[bisect_left(places, reply.index) :]


def handed_on(reply: Node) -> str:
    """What of a reply's text a program would put into another history."""
    text = reply.message.text
    tagged = _SUMMARY.search(text)
    return (tagged[1] if tagged else text).strip()
