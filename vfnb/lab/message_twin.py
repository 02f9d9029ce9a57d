"""A list of messages as text lines and as html blocks, bounded, first and last ones kept."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from vfnb.lab.html import MAX_MESSAGE, MAX_ROWS, MUTED, details, esc, pre, span
from vfnb.lab.messages import full_text, preview
from vfnb.lab.words import clip

if TYPE_CHECKING:
    from vfnb.trace.graph import Node

__all__ = ["message_blocks", "message_lines"]


def _ends(nodes: Sequence[Node], limit: int) -> tuple[Sequence[Node], Sequence[Node]]:
    """The first and the last nodes, `limit` in all; a third of them at the start."""
    if len(nodes) <= limit:
        return nodes, []
    head = max(1, limit // 3)
    return nodes[:head], nodes[len(nodes) - (limit - head) :]


def message_lines(nodes: Sequence[Node], limit: int, rest: str) -> list[str]:
    """At most `limit` lines, one a message; the cut is told on one of them."""
    if len(nodes) <= limit:
        return [_line(node) for node in nodes]
    if limit < 2:
        return [f"{len(nodes)} messages; {rest} has them"][:limit]
    head, tail = _ends(nodes, limit - 1)
    shown = len(head) + len(tail)
    cut = f"  … {shown} of {len(nodes)} messages shown; {rest} has all"
    return [*map(_line, head), cut, *map(_line, tail)]


def _line(node: Node) -> str:
    role = node.message.role + ("*" if node.sampled else "")
    return f"  {node.index:>4} {role:<10} {preview(node.message, 90)}"


def message_blocks(nodes: Sequence[Node], rest: str, *, start: int = 0) -> list[str]:
    """Html, one block a message, folded where it is long; before depth `start` they are other branches'."""
    head, tail = _ends(nodes, MAX_ROWS)
    blocks = [_block(node, node.depth < start) for node in head]
    if tail:
        told = f"{len(head) + len(tail)} of {len(nodes)} messages shown; {rest} has all"
        blocks.append(f'<div style="{MUTED}">… {esc(told)}</div>')
        blocks += [_block(node, node.depth < start) for node in tail]
    return blocks


def _block(node: Node, shared: bool) -> str:
    message = node.message
    text = full_text(message)
    short = preview(message, 110)
    facts = [f"node {node.index}", f"call {node.call}"]
    if node.has_tokens:
        facts.append(f"{node.end - node.start} tokens")
    if shared:
        facts.append("of an older branch")
    role = esc(message.role) + (" (sampled)" if node.sampled else " (cut)" if node.partial else "")
    head = f"<b>{role}</b> {span(short, MUTED if shared else '', title=', '.join(facts))}"
    if text.strip() == short:
        return f"<div>{head}</div>"
    return details(head, pre(clip(text, MAX_MESSAGE)))
