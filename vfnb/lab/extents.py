"""How far each message of a trace reaches: in tokens, in seconds, in turns."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vfnb.errors import ConfigError

if TYPE_CHECKING:
    from vfnb.trace.graph import MessageGraph, Node

__all__ = ["EXTENTS", "Extent", "extents", "known_extents", "sampled_tokens", "times"]

Extent = tuple[float, float]
EXTENTS = ("tokens", "seconds", "turns")


def extents(dag: MessageGraph, x: str) -> list[Extent]:
    """Where each message begins and ends on its line, by node number.

    Args:
        dag: the messages.
        x: `tokens` along the line: exact where token ids are stored; else by the usage of the calls, where the
            new messages of a prompt share its tokens by their length in bytes. `seconds` after the first call: a
            reply lasts as its call did, the messages before it since the end of the reply that they follow.
            `turns`: the new messages of a call in its first half, its reply in the second. With tokens and turns a
            later root begins where the message recorded before it ended.

    Raises:
        ConfigError: another `x`, or the trace has no such numbers.
    """
    if x not in EXTENTS:
        raise ConfigError(f"x={x!r} is none of {', '.join(EXTENTS)}")
    calls = dag.calls[: len(dag.calls)]
    nodes = [node for node in dag.nodes[: len(dag.nodes)] if node.call < len(calls)]
    if x not in known_extents(dag):
        other = "turns" if x != "turns" else "seconds"
        raise ConfigError(f"the calls of this trace have no {x}; use x={other!r}")
    if x == "turns":
        return _turns(dag, nodes)
    if x == "seconds":
        zero = min((call.start for call in calls if call.start), default=0.0)
        return [(start - zero, end - zero) for start, end in times(dag, nodes)]
    return _exact(nodes) if dag.columns is not None else _counted(dag, nodes)


def known_extents(dag: MessageGraph) -> list[str]:
    """Which of `EXTENTS` the trace has numbers for; `turns` always."""
    calls = dag.calls[: len(dag.calls)]
    used = any(call.usage is not None and call.usage.prompt_tokens for call in calls)
    timed = any(call.start and call.end for call in calls)
    found = {"tokens": dag.columns is not None or used, "seconds": timed, "turns": True}
    return [name for name in EXTENTS if found[name]]


def sampled_tokens(dag: MessageGraph, nodes: Sequence[Node]) -> list[int]:
    """How many tokens of each message were sampled: exact, else as the usage of its call says; 0 if unknown."""
    columns = dag.columns
    if columns is not None:
        import numpy as np

        upto = np.concatenate([[0], np.cumsum(columns.mask[: columns.size])])
        return [int(upto[node.end] - upto[node.start]) if node.has_tokens else 0 for node in nodes]
    usages = [dag.calls[node.call].usage if node.sampled else None for node in nodes]
    return [usage.completion_tokens if usage is not None else 0 for usage in usages]


def times(dag: MessageGraph, nodes: Sequence[Node]) -> list[Extent]:
    """Begin and end of each message in Unix seconds; see `extents`."""
    found: list[Extent] = []
    for node in nodes:
        call = dag.calls[node.call]
        if node.sampled:
            found.append((call.start, max(call.start, call.end)))
            continue
        above = dag.nodes[node.parent] if node.parent >= 0 else None
        if above is None or (above.call != node.call and not above.sampled):
            found.append((call.start, call.start))
        elif above.call == node.call and not above.sampled:
            found.append(found[above.index])
        else:
            found.append((min(call.start, found[above.index][1]), call.start))
    return found


def _exact(nodes: Sequence[Node]) -> list[Extent]:
    found: list[Extent] = []
    for node in nodes:
        start = _begin(node, found)
        found.append((start, start + max(0, node.end - node.start)))
    return found


def _begin(node: Node, found: Sequence[Extent]) -> float:
    """Where a message begins: its parent's end; of a later root, the end of the message recorded before it."""
    before = node.parent if node.parent >= 0 else node.index - 1
    return found[before][1] if before >= 0 else 0.0


def _counted(dag: MessageGraph, nodes: Sequence[Node]) -> list[Extent]:
    """By usage. A prompt's new messages end where the prompt ends."""
    size: dict[int, int] = {}  # bytes of each call's new prompt messages
    for node in nodes:
        if not node.sampled:
            size[node.call] = size.get(node.call, 0) + len(node.raw)
    zero: list[float] = []  # where the root of each message's line begins
    more: dict[int, float] = {}  # tokens of each call's new prompt messages
    found: list[Extent] = []
    for node in nodes:
        usage = dag.calls[node.call].usage
        start = _begin(node, found)
        zero.append(zero[node.parent] if node.parent >= 0 else start)
        if node.sampled:
            found.append((start, start + (usage.completion_tokens if usage else 0)))
            continue
        prompt = usage.prompt_tokens if usage else 0
        new = more.setdefault(node.call, max(0.0, prompt - (start - zero[node.index])))
        found.append((start, start + new * len(node.raw) / size[node.call]))
    return found


def _turns(dag: MessageGraph, nodes: Sequence[Node]) -> list[Extent]:
    new: dict[int, int] = {}
    for node in nodes:
        if not node.sampled:
            new[node.call] = new.get(node.call, 0) + 1
    replied = {node.call for node in nodes if node.sampled}
    found: list[Extent] = []
    for node in nodes:
        start = _begin(node, found)
        if node.sampled:
            found.append((start, int(start) + 1.0))
        else:
            room = 0.5 if node.call in replied else 1.0
            found.append((start, round(start + room / new[node.call], 9)))
    return found
