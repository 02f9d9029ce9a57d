"""Which call's reply is the summary that a shorter history starts from."""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property
from itertools import accumulate

from vfnb.trace.calls import ModelCall
from vfnb.trace.evidence import CARRIED, Evidence, handed_on
from vfnb.trace.node import Node

__all__ = ["Summaries"]


class Summaries:
    """Declared requests first, then text that was carried over, then a call without tools before a new start."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.calls, self.nodes = evidence.calls, evidence.nodes

    def of(self, first: Node, call: ModelCall) -> ModelCall | None:
        """The call from whose reply, a summary, this shorter history starts."""
        if first.sampled:
            return None
        declared = self._declared_before(call)
        if declared is not None or (self.evidence.single(first) and self.started_from(call) is not None):
            return declared  # or it is a request itself, in which an earlier summary is told again
        kept = self._kept.get(first.index)
        return self._carried(first, call) or (
            self.calls[kept] if kept is not None else self._toolless_before(first, call)
        )

    def _declared_before(self, call: ModelCall) -> ModelCall | None:
        """The newest declared request of the same agent that no other branch has started from."""
        agent = self.evidence.agent(call)
        requests, begun = self._requests.get(agent, []), self._begun.get(agent, [])
        place = bisect_left(begun, call.index)
        after = begun[place - 1] if place else -1
        length = self.nodes[call.prompt_node].depth + 1
        for index in reversed(requests[: bisect_left(requests, call.index)]):
            reply = self.calls[index].reply_node
            if index < after:
                return None
            if reply is not None and length <= self.nodes[reply].depth:
                return self.calls[index]
        return None

    @cached_property
    def _requests(self) -> dict[str | None, list[int]]:
        """The declared summary requests of each agent."""
        found: dict[str | None, list[int]] = {}
        for call in self.calls:
            if call.markers.get("kind") == "compaction" and call.reply_node is not None:
                found.setdefault(self.evidence.agent(call), []).append(call.index)
        return found

    @cached_property
    def _begun(self) -> dict[str | None, list[int]]:
        """The calls of each agent that began a branch and are no declared requests."""
        found: dict[str | None, list[int]] = {}
        for number in sorted({self.nodes[start].call for start in self.evidence.starts}):
            call = self.calls[number]
            if call.markers.get("kind") != "compaction":
                found.setdefault(self.evidence.agent(call), []).append(number)
        return found

    def _carried(self, first: Node, call: ModelCall) -> ModelCall | None:
        """The newest earlier call whose reply ended a line and whose text this shorter history contains."""
        if self.nodes[call.prompt_node].depth + 1 > self._longest[call.index]:
            return None
        newest = -1
        for node in self.evidence.own_prompt(first, call):
            for text in self.evidence.quoted[1].get(node.index, ()):
                known = self.evidence.leaves[text]
                place = bisect_left(known, call.index)
                while place and not self._summary(self.calls[known[place - 1]], node):
                    place -= 1
                if place:
                    newest = max(newest, known[place - 1])
        return self.calls[newest] if newest >= 0 else None

    def _toolless_before(self, first: Node, call: ModelCall) -> ModelCall | None:
        """The call just before, if it asked the same agent for one text without the tools that it had so far."""
        before = call.index - 1
        while before >= 0 and self.calls[before].reply_node is None:
            before -= 1
        request = self.calls[before] if before >= 0 else call
        reply = self.evidence.reply(request)
        if (
            reply is None
            or request.tools is not None
            or self.evidence.agent(request) != self.evidence.agent(call)
        ):
            return None
        last = self.nodes[reply.parent] if reply.parent >= 0 else reply
        turn = self.nodes[last.parent] if last.parent >= 0 else reply
        while turn.parent >= 0 and not turn.sampled:
            turn = self.nodes[turn.parent]
        asked = last.message.role == "user" and turn is not reply and self.calls[turn.call].tools is not None
        shorter = self.nodes[call.prompt_node].depth < last.depth and self.evidence.early(first)
        told = len(handed_on(reply)) >= CARRIED and not getattr(reply.message, "tool_calls", None)
        return request if asked and shorter and told and not reply.children else None

    def _summary(self, request: ModelCall, node: Node) -> bool:
        """Whether a message carries a reply as a summary: not as a tool's result, nor as a turn in its place."""
        reply = self.evidence.reply(request)
        assert reply is not None
        if node.message.role == "tool" or getattr(reply.message, "tool_calls", None):
            return False
        kept = (
            node.parent >= 0
            and reply.parent >= 0
            and node.identity.key == reply.identity.key
            and self.nodes[node.parent].identity.key == self.nodes[reply.parent].identity.key
        )
        return not kept

    @cached_property
    def _kept(self) -> dict[int, int]:
        """By branch that starts anew and says a turn again: the request that had left out this turn."""
        turns = {
            node.identity.key: node
            for node in self.nodes
            if node.sampled and not node.children and getattr(node.message, "tool_calls", None)
        }
        found: dict[int, int] = {}
        for start in self.evidence.starts[1:] if turns else ():
            first = self.nodes[start]
            call = self.calls[first.call]
            shorter = self.nodes[call.prompt_node].depth + 1 <= self._longest[call.index]
            if first.sampled or not shorter or not self.evidence.fresh(first):
                continue
            for node in self.evidence.own_prompt(first, call):
                turn = turns.get(node.identity.key) if node.message.role == "assistant" else None
                asked = self._asked_at.get(turn.parent, []) if turn is not None else []
                between = [index for index in asked if turn is not None and turn.call < index < call.index]
                if between:
                    found[start] = between[-1]
        return found

    @cached_property
    def _left_out(self) -> dict[int, int]:
        """The call that started from each of those requests."""
        return {request: self.nodes[start].call for start, request in self._kept.items()}

    @cached_property
    def _asked_at(self) -> dict[int, list[int]]:
        """Calls that ended in one text, by the message before the last one of their prompt."""
        found: dict[int, list[int]] = {}
        for call in self.calls:
            reply = self.evidence.reply(call)
            if reply is None or reply.children or getattr(reply.message, "tool_calls", None):
                continue
            if call.prompt_node >= 0 and self.nodes[call.prompt_node].message.role == "user":
                found.setdefault(self.nodes[call.prompt_node].parent, []).append(call.index)
        return found

    @cached_property
    def _longest(self) -> list[int]:
        """Messages of the longest history that a call before each one had or made."""
        ends = (call.prompt_node if call.reply_node is None else call.reply_node for call in self.calls)
        depths = (self.nodes[end].depth + 1 if end >= 0 else 0 for end in ends)
        return list(accumulate(depths, max, initial=0))

    def started_from(self, request: ModelCall) -> int | None:
        """The first later call that starts a shorter history from this call's reply."""
        reply = self.evidence.reply(request)
        if reply is None:
            return None
        if request.index in self._left_out:
            return self._left_out[request.index]
        for place in self.evidence.quoting(reply):
            node = self.nodes[place]
            first, call = self.nodes[node.branch], self.calls[self.nodes[node.branch].call]
            if (
                node.call == call.index > request.index
                and node.branch != self.evidence.starts[0]
                and self.nodes[call.prompt_node].depth + 1 <= self._longest[call.index]
                and not first.sampled
                and self._summary(request, node)
            ):
                return call.index
        return None
