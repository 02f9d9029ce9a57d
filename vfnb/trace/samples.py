"""Training samples: one per branch that owns sampled tokens, as typed arrays."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vfnb.trace.branches import Branch

if TYPE_CHECKING:
    from vfnb.trace.causes import Fork
    from vfnb.trace.graph import MessageGraph

__all__ = ["Sample", "samples", "unused_compaction"]


@dataclass(slots=True)
class Sample:
    """One sequence to train on. Arrays may be views of the trace: copy before writing."""

    token_ids: Any
    """int32[n]: what the model saw and sampled, exactly."""
    mask: Any
    """bool[n]: the tokens to train, each sampled token of a trace in exactly one sample."""
    logprobs: Any
    """float32[n]: of the sampled tokens, 0.0 elsewhere."""
    branch: int
    """The branch's id: its first own node."""
    trace_id: str = ""
    episode_id: str | None = None
    group_id: str | None = None
    task_key: str = ""
    reward: float | None = None
    advantage: float | None = None
    """Against the other rollouts of the group: `run.samples()` gives it."""
    weight: float = 1.0
    """1 / (samples of the trace): summed over a rollout's samples it is 1."""
    source: Branch = field(repr=False, kw_only=True)
    """The branch itself: content mask, routed experts, calls."""

    @property
    def cause(self) -> str | None:
        """Why the branch left the others; None for the first."""
        why = self.source.cause
        return why.cause if why else None

    @property
    def fork(self) -> Fork | None:
        """The cause with its place, difference and detail."""
        return self.source.cause

    def __len__(self) -> int:
        return len(self.token_ids)


def samples(graph: MessageGraph, *, unused_compactions: bool = False) -> list[Sample]:
    """The samples of a graph; none without tokens.

    Without forks the arrays are views. The tokens of a compaction attempt that the harness declared and whose
    summary it then did not use are masked unless `unused_compactions`.
    """
    columns = graph.columns
    tips = list(graph.tips.items())
    if columns is None or not tips:
        return []
    made = []
    for index, (start, leaf) in enumerate(tips):
        branch = Branch(graph, index, start, leaf)
        if len(tips) == 1 and graph.linear:
            length = graph.nodes[leaf].total
            ids, mask, logprobs = columns.ids[:length], columns.mask[:length], columns.logprobs[:length]
        else:
            ids, mask, logprobs = branch.token_ids, branch.mask, branch.logprobs
        if not unused_compactions and unused_compaction(branch):
            mask = mask.copy()
            mask[len(mask) - (graph.nodes[leaf].end - graph.nodes[leaf].start) :] = False
        if mask.any():
            made.append(Sample(ids, mask, logprobs, start, source=branch))
    for sample in made:
        sample.weight = 1.0 / len(made)
    return made


def unused_compaction(branch: Branch) -> bool:
    """Whether the branch ends in a declared compaction request whose reply came into no history."""
    graph = branch.graph
    number = graph.nodes[branch.leaf].call
    if number >= len(graph.calls):  # being committed
        return False
    call = graph.calls[number]
    if call.markers.get("kind") != "compaction" or call.reply_node != branch.leaf:
        return False
    from vfnb.trace.causes import returns

    return not returns(graph, call)
