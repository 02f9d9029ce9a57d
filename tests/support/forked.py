"""What real programs make of their conversations: why there are several lines, and who trains what."""

from __future__ import annotations

from typing import Any

import vfnb as vf

__all__ = ["causes", "linked", "owned_once"]


def causes(trace: vf.Trace) -> list[str]:
    """Why the later branches left the first one."""
    return [branch.cause.cause for branch in trace.branches if branch.cause is not None]


def linked(trace: vf.Trace) -> list[tuple[str, Any, Any]]:
    """The links between branches: kind, and the messages that they join."""
    return [
        (link.kind, trace.nodes[link.source].message, trace.nodes[link.target].message)
        for link in trace.links
    ]


def owned_once(trace: vf.Trace) -> bool:
    """Whether every sampled message is trained by exactly one branch."""
    own = [node for branch in trace.branches for node in branch.own if trace.nodes[node].sampled]
    return sorted(own) == [node.index for node in trace.nodes if node.sampled]
