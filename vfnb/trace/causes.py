"""Why a branch left the others. The table of causes, first match wins:

subagent, compaction, side_call, retokenized, tools_changed, retry, resample, history_edited.

Forks are explained when somebody asks, and again when the graph has grown: a reply that returns only later turns
a side call into a compaction.
"""

from __future__ import annotations

from dataclasses import dataclass

from vfnb.trace.calls import ModelCall
from vfnb.trace.evidence import Evidence, evidence
from vfnb.trace.graph import MessageGraph
from vfnb.trace.node import Node
from vfnb.trace.spawns import Spawns
from vfnb.trace.summaries import Summaries

__all__ = ["CAUSES", "Explainer", "Fork", "explained", "fork", "forks", "returns"]

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
    if len(graph.tips) < 2:
        return {}
    cached = graph.cache.get("forks")
    if cached is not None and cached[0] == graph.version:
        found: dict[int, Fork] = cached[1]
        return found
    version = graph.version
    result = explained(graph).forks
    graph.cache["forks"] = (version, result)
    return result


def explained(graph: MessageGraph) -> Explainer:
    """The forks of a graph with what they were read from."""
    cached = graph.cache.get("explained")
    if cached is None or cached[0] != graph.version:
        version = graph.version
        cached = graph.cache["explained"] = (version, Explainer(evidence(graph)))
    found: Explainer = cached[1]
    return found


def returns(graph: MessageGraph, call: ModelCall) -> bool:
    """Whether a call's reply came into any later history: continued, sent again, or quoted."""
    return evidence(graph).returns(call)


class Explainer:
    """The table, one method for each row."""

    def __init__(self, evidence: Evidence) -> None:
        self.evidence = evidence
        self.spawns = Spawns(evidence)
        self.summaries = Summaries(evidence)
        self.nodes, self.calls = evidence.nodes, evidence.calls
        self._used_requests: dict[int, bool] = {}
        self.forks = {start: self._fork(self.nodes[start]) for start in evidence.starts[1:]}
        """By branch, oldest first."""

    def _fork(self, first: Node) -> Fork:
        call = self.calls[first.call]
        cause, detail = self._cause(first, call)
        position = first.retokenized if cause in ("retokenized", "tools_changed") else -1
        older = self.evidence.eldest(first.parent)
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
        agent = self.evidence.agent(call)
        kind = call.markers.get("kind")
        if agent is not None:
            if self.evidence.first_calls[agent] == call.index and kind not in ("compaction", "side_call"):
                return "subagent", agent
        elif kind == "subagent" and self.evidence.early(first) and self._compaction(first, call) is None:
            return "subagent", "declared"
        if kind is None and self.evidence.early(first) and not self._known_agent(agent):
            spawn = self.spawns.of(first, call)
            if spawn is not None:
                return "subagent", f"task of node {spawn.node}"
        return None

    def _known_agent(self, agent: str | None) -> bool:
        """Whether agents are declared in this trace, and this one has called before."""
        return agent is not None and len(self.evidence.first_calls) > 1

    def _compaction(self, first: Node, call: ModelCall) -> tuple[str, str] | None:
        if call.markers.get("kind") == "compaction":
            return "compaction", "request"
        if self.summaries.of(first, call) is not None:
            return "compaction", "summary"
        if self.summaries.started_from(call) is not None:
            return "compaction", "request"
        beside = first.parent >= 0 and not first.sampled and self.evidence.single(first)
        if beside and self._beside_request(first.parent):
            return None if self.evidence.returns(call) else ("compaction", "unused_request")
        return None

    def _beside_request(self, parent: int) -> bool:
        """Whether a summary request that was used begins at the same place."""
        if parent not in self._used_requests:
            self._used_requests[parent] = any(
                self.summaries.started_from(self.calls[sibling.call]) is not None
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
        other = self.evidence.eldest(first.parent)
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
        if self.evidence.left_behind(first.branch, call):
            return True
        no_turns = all(node.message.role != "assistant" for node in self.evidence.own_prompt(first, call))
        return no_turns and self.evidence.fresh(first)

    def _tokens(self, first: Node, call: ModelCall) -> tuple[str, str] | None:
        if first.retokenized < 0:
            return None
        older = self.evidence.eldest(first.parent)
        if older is not first and self.calls[older.call].tools != call.tools and self.evidence.fresh(first):
            return "tools_changed", f"at token {first.retokenized}"
        return "retokenized", f"at token {first.retokenized}"

    def _same_request(self, first: Node, call: ModelCall) -> tuple[str, str] | None:
        if call.reply_node != first.index:
            return None
        if call.retry_of is not None:
            return "retry", f"of call {call.retry_of}"
        other = self.evidence.same_prompt(call)
        if other is None:
            return "resample", ""
        failed = other.reply_node is None or not other.delivered
        return "retry" if failed else "resample", f"of call {other.index}"

    def _drops_reply(self, first: Node) -> bool:
        """The program went on from a prompt that had got a reply, without that reply."""
        reply = self.evidence.sampled_child.get(first.parent, first.index)
        return first.message.role != "assistant" and reply < first.index

    def _edit(self, first: Node) -> str:
        if first.partial:
            return "partial_echo"
        if self._drops_reply(first):
            return "reply_dropped"
        if first.message.role == "assistant":
            return "reply_rewritten" if first.parent in self.evidence.sampled_child else ""
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
