"""A trace's messages and calls as plain columns, without building a graph: what bulk reading needs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from vfnb.trace.calls import plain_call
from vfnb.trace.pack import Packed, token_counts, unpack_structure

if TYPE_CHECKING:
    from vfnb.trace.trace import Trace

__all__ = ["Skim", "skim_pack", "skim_trace"]


class Skim(msgspec.Struct):
    """Columns over the nodes of one trace, and its calls."""

    parent: list[int]
    """-1 for a root."""
    call: list[int]
    sampled: set[int]
    partial: set[int]
    raws: list[bytes]
    """Per node: the message as JSON."""
    calls: list[dict[str, Any]]
    """`vfnb.trace.calls.plain_call` of each."""
    tokens: dict[int, int]
    """How many tokens a node adds; empty if unknown or not asked for."""


def skim_pack(packed: Packed, fetch: Callable[[bytes], bytes]) -> Skim:
    """The columns of a pack; tokens are counted if `packed.tokens` is given."""
    structure, texts = unpack_structure(packed, fetch)
    return Skim(
        parent=[index - back if back else -1 for index, back in enumerate(structure.parent)],
        call=structure.call,
        sampled=set(structure.sampled),
        partial=set(structure.partial),
        raws=[texts[place] for place in structure.content],
        calls=structure.calls,
        tokens=token_counts(packed.tokens),
    )


def skim_trace(trace: Trace) -> Skim:
    """The columns of a loaded trace."""
    nodes = list(trace.dag.nodes)
    return Skim(
        parent=[node.parent for node in nodes],
        call=[node.call for node in nodes],
        sampled={node.index for node in nodes if node.sampled},
        partial={node.index for node in nodes if node.partial},
        raws=[node.raw for node in nodes],
        calls=[plain_call(call) for call in trace.dag.calls],
        tokens={node.index: node.end - node.start for node in nodes if node.has_tokens},
    )
