"""A trace as the records of other programs have it: nodes with their own tokens, the task with its hash."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vfnb.trace.samples import unused_compaction

if TYPE_CHECKING:
    from vfnb.trace import Trace
    from vfnb.types import Message

__all__ = ["NodeRow", "faults", "has_images", "node_rows", "task_hash", "task_record"]

ABOVE_ZERO = 1e-6
"""How far a logprob may be above 0.0: engines round."""


@dataclass(slots=True)
class NodeRow:
    """One message with the tokens that it adds."""

    parent: int | None
    sampled: bool
    message: Message
    raw: bytes
    """The message as JSON."""
    call: int
    ids: Any = None
    """int32[n]; None without tokens."""
    mask: Any = None
    """bool[n]: the tokens to train."""
    logprobs: Any = None
    """float32, one per true in `mask`."""


def node_rows(trace: Trace) -> list[NodeRow]:
    """The nodes of a trace. Tokens of a compaction attempt whose summary was not used are not trained."""
    graph = trace.dag
    columns = graph.columns
    unused = {branch.leaf for branch in trace.branches if columns is not None and unused_compaction(branch)}
    rows = []
    for node in list(graph.nodes):
        parent = node.parent if node.parent >= 0 else None
        row = NodeRow(parent, node.sampled, node.message, node.raw, node.call)
        if columns is not None and node.has_tokens:
            row.ids = columns.ids[node.start : node.end]
            row.mask = columns.mask[node.start : node.end]
            if node.index in unused:
                row.mask = row.mask & False
            row.logprobs = columns.logprobs[node.start : node.end][row.mask]
        rows.append(row)
    return rows


def faults(rows: list[NodeRow]) -> Iterator[tuple[int, str]]:
    """What contradicts itself in the nodes: `(node, reason)`."""
    import numpy as np

    for index, row in enumerate(rows):
        if row.parent is not None and not 0 <= row.parent < index:
            yield index, f"its parent {row.parent} is not an earlier node"
        if row.ids is None:
            continue
        if len(row.mask) != len(row.ids):
            yield index, f"mask has {len(row.mask)} values for {len(row.ids)} tokens"
            continue
        trained = int(np.count_nonzero(row.mask))
        if trained and not row.sampled:
            yield index, "mask is true on a message that the model did not sample"
        if len(row.logprobs) != trained:
            yield index, f"{len(row.logprobs)} logprobs for {trained} sampled tokens"
        elif not np.isfinite(row.logprobs).all():
            yield index, "a logprob is not finite"
        elif trained and float(row.logprobs.max()) > ABOVE_ZERO:
            yield index, f"a logprob is positive ({float(row.logprobs.max()):g})"


def has_images(rows: list[NodeRow]) -> int | None:
    """The first node whose content has other parts than text; None if there is none."""
    for index, row in enumerate(rows):
        content = getattr(row.message, "content", None)
        if isinstance(content, list) and any(part.type not in ("text", "reasoning") for part in content):
            return index
    return None


# The task

_BASE = {"network_allow": ["*"], "network_block": [], "artifacts": [], "timeout": {}, "resources": {}}


def task_record(trace: Trace) -> dict[str, Any]:
    """`type, data, key, hash` as verifiers at commit a60a606e have them.

    `data` is the task's data with that version's defaults and without nulls, and `hash` is its own.
    """
    given = _without_nulls(trace.task.data)
    key = given.pop("key", None)
    network = given.pop("network", None)
    data: dict[str, Any] = {"idx": trace.task.idx, **_BASE, **given}
    if isinstance(network, dict):
        data["network_allow"] = network.get("allow", ["*"])
        data["network_block"] = network.get("block", [])
    digest = task_hash(data)
    return {"type": "Task", "data": data, "key": str(key or digest), "hash": digest}


def task_hash(data: dict[str, Any]) -> str:
    """64 hex digits: SHA-256 of `json.dumps(data, sort_keys=True)`, the rule of verifiers."""
    return hashlib.sha256(json.dumps(data, sort_keys=True).encode()).hexdigest()


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _without_nulls(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_without_nulls(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value
