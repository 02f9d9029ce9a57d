"""Messages folded into groups: turns, or whole stretches between the places where branches leave."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from vfnb.errors import ConfigError

if TYPE_CHECKING:
    from vfnb.lab.links import Link
    from vfnb.trace.graph import MessageGraph

__all__ = ["COLLAPSE", "fold"]

COLLAPSE = ("none", "turns", "branches")


def fold(dag: MessageGraph, joined: Iterable[Link], collapse: str) -> list[list[int]]:
    """The messages of a graph in groups of consecutive ones of a branch, by first message.

    `none` leaves each message alone; `turns` ends a group at each sampled message; `branches` goes on as long as
    nothing branches. Groups also end where a branch or a relation leaves and begin where one arrives, so that
    each edge between groups goes from the last message of one to the first message of the other.

    Raises:
        ConfigError: another `collapse`.
    """
    if collapse not in COLLAPSE:
        raise ConfigError(f"collapse={collapse!r} is none of {', '.join(COLLAPSE)}")
    nodes = dag.nodes[: len(dag.nodes)]
    if collapse == "none":
        return [[node.index] for node in nodes]
    leaves = {link.source for link in joined}
    arrives = {link.target for link in joined}
    group_of: dict[int, list[int]] = {}
    found: list[list[int]] = []
    for node in nodes:
        group = group_of.get(node.parent)
        if group is not None and node.index not in arrives and nodes[node.parent].branch == node.branch:
            group.append(node.index)
        else:
            group = [node.index]
            found.append(group)
        children = node.children or ()
        if len(children) < 2 and node.index not in leaves and not (collapse == "turns" and node.sampled):
            group_of[node.index] = group
    return found
