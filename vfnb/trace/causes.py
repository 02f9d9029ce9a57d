"""Why a branch left the others. The table of causes, first match wins:

subagent, compaction, side_call, retokenized, tools_changed, retry, resample, history_edited.

Forks are explained when somebody asks, and again when the graph has grown: a reply that returns only later turns
a side call into a compaction.
"""

from __future__ import annotations

from dataclasses import dataclass

from vfnb.trace.calls import ModelCall
from vfnb.trace.evidence import Evidence
from vfnb.trace.graph import MessageGraph
from vfnb.trace.node import Node

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
    evidence = Evidence(graph)
    explained = _Explainer(evidence)
    result = {start: explained.fork(evidence.nodes[start]) for start in evidence.starts[1:]}
    graph.cache["forks"] = (version, result)
    return result


def returns(graph: MessageGraph, call: ModelCall) -> bool:
    """Whether a call's reply came into any later history: continued, sent again, or quoted."""
    return Evidence(graph).returns(call)


class _Explainer:
    """The table, one method for each row."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.nodes, self.calls = evidence.nodes, evidence.calls
        self._used_requests: dict[int, bool] = {}

    def fork(self, first: Node) -> Fork:
        call = self.calls[first.call]
        cause, detail = self._cause(first, call)
        position = first.retokenized if cause in ("retokenized", "tools_changed") else -1
        older = self.evidence.children(first.parent)[0]
        return Fork(cause, first.depth, _difference(older, first), detail, first.index, call.index, position)

    def _cause(self, first: Node, call: ModelCall) -> tuple[str, str]:
        if call.shown_node == first.index:
            return "history_edited", "intercepted"
        for rule in (self._subagent, self._compaction, self._side_call, self._tokens, self._same_request):
            found = rule(first, call)
            if found is not None:
                return found
        return "history_edited", self._edit(first)

    def _subagent(self, first: Node, call: ModelCall) -> tuple[str, str] | None:
        agent = call.markers.get("agent")
        if call.markers.get("kind") == "subagent":
            return "subagent", agent or "declared"
        if agent and all(older.markers.get("agent") != agent for older in self.calls[: call.index]):
            return "subagent", agent
        if self.evidence.fresh(first):
            maker = self.evidence.task_of(first, call)
            if maker is not None:
                return "subagent", f"task of node {maker}"
        return None

    def _compaction(self, first: Node, call: ModelCall) -> tuple[str, str] | None:
        if call.markers.get("kind") == "compaction":
            return "compaction", "request"
        if self.evidence.summary_of(first, call) is not None:
            return "compaction", "summary"
        if self.evidence.started_from(call) is not None:
            return "compaction", "request"
        if not first.sampled and self.evidence.single(first) and self._beside_request(first.parent):
            return None if self.evidence.returns(call) else ("compaction", "unused_request")
        return None

    def _beside_request(self, parent: int) -> bool:
        """Whether a summary request that was used begins at the same place."""
        if parent not in self._used_requests:
            self._used_requests[parent] = any(
                self.evidence.started_from(self.calls[sibling.call]) is not None
                for sibling in self.evidence.children(parent)
                if not sibling.sampled
            )
        return self._used_requests[parent]

    def _side_call(self, first: Node, call: ModelCall) -> tuple[str, str] | None:
        if call.markers.get("kind") == "side_call":
            return "side_call", "declared"
        if first.sampled or first.retokenized >= 0:
            return None
        if self._aside(first, call):
            return "side_call", ""
        other = self.evidence.children(first.parent)[0]
        left = self.calls[other.call]
        if (
            first.parent >= 0
            and self.nodes[first.parent].sampled
            and not other.sampled
            and self.evidence.single(other)
            and not self.evidence.returns(left)
        ):
            return "side_call", f"call {left.index} left this line for one reply"
        return None

    def _aside(self, first: Node, call: ModelCall) -> bool:
        """One call, whose reply is of no use to any history, while others go on or with nothing but a prompt."""
        if not self.evidence.single(first) or self._drops_reply(first) or self.evidence.returns(call):
            return False
        for other in self.calls[call.index + 1 :]:
            if other.prompt_node >= 0 and self.nodes[other.prompt_node].branch != first.branch:
                return True
        no_turns = all(node.message.role != "assistant" for node in self.evidence.own_prompt(first, call))
        return no_turns and self.evidence.fresh(first)

    def _tokens(self, first: Node, call: ModelCall) -> tuple[str, str] | None:
        if first.retokenized < 0:
            return None
        older = self.evidence.children(first.parent)[0]
        if older is not first and self.calls[older.call].tools != call.tools and self.evidence.fresh(first):
            return "tools_changed", f"at token {first.retokenized}"
        return "retokenized", f"at token {first.retokenized}"

    def _same_request(self, first: Node, call: ModelCall) -> tuple[str, str] | None:
        if call.reply_node != first.index:
            return None
        if call.retry_of is not None:
            return "retry", f"of call {call.retry_of}"
        for other in reversed(self.calls[: call.index]):
            if other.prompt_node == call.prompt_node:
                failed = other.reply_node is None or not other.delivered
                return "retry" if failed else "resample", f"of call {other.index}"
        return "resample", ""

    def _drops_reply(self, first: Node) -> bool:
        """The program went on from a prompt that had got a reply, without that reply."""
        return first.message.role != "assistant" and any(
            other.sampled and other.index < first.index for other in self.evidence.children(first.parent)
        )

    def _edit(self, first: Node) -> str:
        if first.partial:
            return "partial_echo"
        if self._drops_reply(first):
            return "reply_dropped"
        if first.message.role == "assistant":
            siblings = self.evidence.children(first.parent)
            return "reply_rewritten" if any(other.sampled for other in siblings) else ""
        return "new_root" if first.parent < 0 else ""


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
