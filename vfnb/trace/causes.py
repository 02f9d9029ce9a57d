"""Why a branch left the others. The table of causes, first match wins:

subagent, compaction, side_call, retokenized, tools_changed, retry, resample, history_edited.

Forks are explained when somebody asks, and again when the graph has grown: a reply that returns only later turns
a side call into a compaction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from vfnb.trace.calls import ModelCall
from vfnb.trace.graph import MessageGraph, Node
from vfnb.types import AssistantMessage, TextContentPart

__all__ = ["CAUSES", "Fork", "fork", "forks", "returns"]

CAUSES = (
    "subagent",
    "compaction",
    "side_call",
    "retokenized",
    "tools_changed",
    "retry",
    "resample",
    "history_edited",
)
_CARRIED = 16
"""A reply shorter than this (characters) is not recognised inside another message: it could be there by chance."""
_TASK = 8
"""The same for the task text of a subagent."""


@dataclass(frozen=True, slots=True)
class Fork:
    """Where and why a branch begins."""

    cause: str
    index: int
    """Message index of the divergence (0 for a new root)."""
    diff: str
    """The first message that differs, older branch against this one, short."""
    detail: str
    """`reply_dropped`, `partial_echo`, `request`, `summary`, ...; `""` if there is nothing to add."""
    node: int
    """First node of the branch."""
    call: int
    """The call that made it."""
    position: int = -1
    """Token position of the divergence, for `retokenized` and `tools_changed`."""


def fork(graph: MessageGraph, branch: int) -> Fork | None:
    """The fork that began a branch; None for the first branch of the trace."""
    return forks(graph).get(branch)


def forks(graph: MessageGraph) -> dict[int, Fork]:
    """All forks by branch. Computed once per version of the graph."""
    cached = graph.cache.get("forks")
    if cached is not None and cached[0] == graph.version:
        found: dict[int, Fork] = cached[1]
        return found
    version = graph.version
    explained = _Explainer(graph)
    result = {start: explained.fork(explained.nodes[start]) for start in explained.starts()[1:]}
    graph.cache["forks"] = (version, result)
    return result


def returns(graph: MessageGraph, call: ModelCall) -> bool:
    """Whether a call's reply came into any later history: continued, sent again, or quoted."""
    return _Explainer(graph).returns(call)


class _Explainer:
    """One pass over a graph, with its texts decoded once."""

    def __init__(self, graph: MessageGraph) -> None:
        self.graph = graph
        # a commit lists its nodes before its call: nodes of a call that is not there yet are left out
        self.calls = list(graph.calls)
        self.nodes = [node for node in list(graph.nodes) if node.call < len(self.calls)]
        self._returns: dict[int, bool] = {}
        self._requests: dict[int, int | None] = {}
        self._tool_texts: list[tuple[int, int, list[str]]] | None = None

    def starts(self) -> list[int]:
        """First own node of each branch."""
        return [start for start in list(self.graph.tips) if start < len(self.nodes)]

    def _children(self, parent: int) -> list[Node]:
        return [self.nodes[index] for index in self.graph.children(parent) if index < len(self.nodes)]

    def fork(self, first: Node) -> Fork:
        call = self.calls[first.call]
        cause, detail = self._cause(first, call)
        position = first.retokenized if cause in ("retokenized", "tools_changed") else -1
        return Fork(cause, first.depth, self._diff(first), detail, first.index, call.index, position)

    def _cause(self, first: Node, call: ModelCall) -> tuple[str, str]:
        for rule in (self._subagent, self._compaction, self._side_call, self._tokens, self._same_request):
            found = rule(first, call)
            if found is not None:
                return found
        return "history_edited", self._edit(first, call)

    # subagent

    def _subagent(self, first: Node, call: ModelCall) -> tuple[str, str] | None:
        agent = call.markers.get("agent")
        if call.markers.get("kind") == "subagent":
            return "subagent", agent or "declared"
        if agent and all(older.markers.get("agent") != agent for older in self.calls[: call.index]):
            return "subagent", agent
        if not self._fresh(first):
            return None
        asked = [text for text in self._user_texts(first, call) if len(text) >= _TASK]
        for owner, maker, texts in self._tasks():
            if maker >= call.index or owner == first.branch:
                continue
            for text in texts:
                if any(text == other or text in other or other in text for other in asked):
                    return "subagent", f"task of node {self.calls[maker].reply_node}"
        return None

    def _fresh(self, first: Node) -> bool:
        """Whether the branch shares nothing but system messages with the others."""
        parent = first.parent
        while parent >= 0:
            if self.nodes[parent].message.role != "system":
                return False
            parent = self.nodes[parent].parent
        return True

    def _user_texts(self, first: Node, call: ModelCall) -> list[str]:
        texts = []
        for node in self._own_prompt(first, call):
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

    # compaction

    def _compaction(self, first: Node, call: ModelCall) -> tuple[str, str] | None:
        if call.markers.get("kind") == "compaction":
            return "compaction", "request"
        if self._summary_of(first, call) is not None:
            return "compaction", "summary"
        if self._carried_by(call) is not None:
            return "compaction", "request"
        for sibling in self._children(first.parent):
            if sibling is first or sibling.sampled or first.sampled or self._count(first) != 1:
                continue
            request = self.calls[sibling.call]
            if self._carried_by(request) is not None and not self.returns(call):
                return "compaction", "unused_request"
        return None

    def _summary_of(self, first: Node, call: ModelCall) -> int | None:
        """The summary request whose reply this shorter history carries."""
        if first.sampled:
            return None
        length = self.nodes[call.prompt_node].depth + 1
        for request in reversed(self.calls[: call.index]):
            if request.reply_node is None:
                continue
            if request.markers.get("kind") == "compaction":
                used = any(self._starts_between(request, call))
                if not used and length < self.nodes[request.reply_node].depth + 1:
                    return request.index
            if self._carries(first, call, request):
                return request.index
        return None

    def _starts_between(self, request: ModelCall, call: ModelCall) -> Iterator[bool]:
        """Other branches that began after a declared request and before this call."""
        for start in self.starts():
            made = self.calls[self.nodes[start].call]
            if request.index < made.index < call.index and made.markers.get("kind") != "compaction":
                yield made.markers.get("agent") == call.markers.get("agent")

    def _carries(self, first: Node, call: ModelCall, request: ModelCall) -> bool:
        """Whether a new history is shorter than an older one and contains the text of a reply that ended there."""
        if request.reply_node is None or request.index >= call.index:
            return False
        reply = self.nodes[request.reply_node]
        message = reply.message
        text = message.text.strip()
        if reply.children or len(text) < _CARRIED or getattr(message, "tool_calls", None):
            return False
        if self.nodes[call.prompt_node].depth + 1 > self._longest(call.index):
            return False
        return any(text in node.message.text for node in self._own_prompt(first, call))

    def _longest(self, before: int) -> int:
        """Messages of the longest history that an earlier call had or made."""
        ends = (
            call.prompt_node if call.reply_node is None else call.reply_node for call in self.calls[:before]
        )
        return max((self.nodes[end].depth + 1 for end in ends if end >= 0), default=0)

    def _carried_by(self, request: ModelCall) -> int | None:
        """The later call that starts from this call's summary."""
        if request.index not in self._requests:
            found = None
            for start in self.starts()[1:]:
                first = self.nodes[start]
                call = self.calls[first.call]
                if call.index > request.index and not first.sampled and self._carries(first, call, request):
                    found = call.index
                    break
            self._requests[request.index] = found
        return self._requests[request.index]

    # side calls

    def _side_call(self, first: Node, call: ModelCall) -> tuple[str, str] | None:
        if call.markers.get("kind") == "side_call":
            return "side_call", "declared"
        if first.sampled or first.retokenized >= 0:
            return None
        if self._count(first) == 1 and not self._drops_reply(first) and not self.returns(call):
            later = any(
                self.nodes[other.prompt_node].branch != first.branch
                for other in self.calls[call.index + 1 :]
                if other.prompt_node >= 0
            )
            aside = all(node.message.role != "assistant" for node in self._own_prompt(first, call))
            if later or (aside and self._fresh(first)):
                return "side_call", ""
        other = self._children(first.parent)[0]
        aside = self.calls[other.call]
        if (
            first.parent >= 0
            and self.nodes[first.parent].sampled
            and not other.sampled
            and self._count(other) == 1
            and not self.returns(aside)
        ):
            return "side_call", f"call {aside.index} left this line for one reply"
        return None

    def _count(self, first: Node) -> int:
        """Calls that own something in the subtree of a node: 1, or 2 for more."""
        end = first
        seen = first.call
        while end.children:
            if len(end.children) > 1 or end.children[0] >= len(self.nodes):
                return 2
            end = self.nodes[end.children[0]]
            if end.call != seen:
                return 2
        return 1

    def returns(self, call: ModelCall) -> bool:
        """Whether a call's reply came into a later history."""
        if call.reply_node is None:
            return False
        if call.index not in self._returns:
            self._returns[call.index] = self._find_reply(call, self.nodes[call.reply_node])
        return self._returns[call.index]

    def _find_reply(self, call: ModelCall, reply: Node) -> bool:
        if reply.children:
            return True
        key, text = reply.identity.key, reply.message.text.strip()
        long = len(text) >= _CARRIED
        for node in self.nodes[reply.index + 1 :]:
            if node.sampled:
                continue
            if (node.message.role == "assistant" and node.identity.key == key) or (
                long and text in node.message.text
            ):
                return True
        return False

    # tokens, repeats, edits

    def _tokens(self, first: Node, call: ModelCall) -> tuple[str, str] | None:
        if first.retokenized < 0:
            return None
        others = [other for other in self._children(first.parent) if other is not first]
        if others and self.calls[others[0].call].tools != call.tools and self._fresh(first):
            return "tools_changed", f"at token {first.retokenized}"
        return "retokenized", f"at token {first.retokenized}"

    def _same_request(self, first: Node, call: ModelCall) -> tuple[str, str] | None:
        if call.reply_node != first.index:
            return None
        older = [other for other in self.calls[: call.index] if other.prompt_node == call.prompt_node]
        if call.retry_of is not None:
            return "retry", f"of call {call.retry_of}"
        if older and (older[-1].reply_node is None or not older[-1].delivered):
            return "retry", f"of call {older[-1].index}"
        return "resample", f"of call {older[-1].index}" if older else ""

    def _drops_reply(self, first: Node) -> bool:
        """The program went on from a prompt that had got a reply, without that reply."""
        return first.message.role != "assistant" and any(
            other.sampled and other.index < first.index for other in self._children(first.parent)
        )

    def _edit(self, first: Node, call: ModelCall) -> str:
        if first.partial:
            return "partial_echo"
        if self._drops_reply(first):
            return "reply_dropped"
        if first.message.role == "assistant":
            siblings = self._children(first.parent)
            return "reply_rewritten" if any(other.sampled for other in siblings) else ""
        if first.parent < 0:
            return "new_root"
        return ""

    # texts

    def _own_prompt(self, first: Node, call: ModelCall) -> list[Node]:
        """The prompt messages of a call from the branch's first node on."""
        found = []
        index = call.prompt_node
        while index >= first.index:
            found.append(self.nodes[index])
            index = self.nodes[index].parent
        found.reverse()
        return found

    def _diff(self, first: Node) -> str:
        older = [other for other in self._children(first.parent) if other.index < first.index]
        return _difference(older[0], first)


def _strings(value: Any) -> Iterator[str]:
    if isinstance(value, str):
        yield value
    elif isinstance(value, dict):
        for item in value.values():
            yield from _strings(item)
    elif isinstance(value, list):
        for item in value:
            yield from _strings(item)


def _plain(node: Node) -> str:
    message = node.message
    calls = "".join(f" {call.name}({call.arguments})" for call in getattr(message, "tool_calls", None) or ())
    return message.text + calls


def _line(node: Node, start: int = 0) -> str:
    text = _plain(node)
    cut = text[start : start + 60]
    return f"{node.message.role}: {'…' if start else ''}{cut!r}{'…' if len(text) > start + 60 else ''}"


def _difference(old: Node, new: Node) -> str:
    """Both messages from shortly before their first difference on."""
    a, b = _plain(old), _plain(new)
    if old.message.role != new.message.role:
        return f"- {_line(old)}\n+ {_line(new)}"
    same = next((i for i, (x, y) in enumerate(zip(a, b, strict=False)) if x != y), min(len(a), len(b)))
    start = max(0, same - 20) if same > 30 else 0
    return f"- {_line(old, start)}\n+ {_line(new, start)}"
