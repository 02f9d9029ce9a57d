"""Traces and branches as text and html."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vfnb.lab.chart_svg import chart_svg, image
from vfnb.lab.html import BAD, MAX_ROWS, Page, badge, banner, details, esc, pre, span, table
from vfnb.lab.message_twin import message_blocks, message_lines
from vfnb.lab.rows import trace_row
from vfnb.lab.text import MAX_LINES, lines
from vfnb.lab.tree_figure import tree_chart
from vfnb.lab.words import clip, count, listing, money, number, one_line, plain, seconds
from vfnb.trace.causes import Fork, forks
from vfnb.trace.links import links as links_of

if TYPE_CHECKING:
    from vfnb.trace import Branch, Link, Trace
    from vfnb.trace.graph import MessageGraph, Node

__all__ = ["branch_bundle", "branch_text", "trace_bundle", "trace_facts", "trace_text"]


def _state(trace: Trace) -> tuple[str, str]:
    """The end state in words, and its tone."""
    state = trace.end_state
    if state is None:
        return "running", "none"
    if str(state).startswith("error"):
        return "error", "bad"
    if str(state).startswith("dropped"):
        return listing(["dropped", one_line(trace.dropped or "", 80)], ": "), "warn"
    if str(state).startswith("cancelled"):
        return "cancelled", "warn"
    if trace.stop_condition:
        return f"stopped by {one_line(trace.stop_condition, 60)}", "good"
    return str(state), "good"


def _reward(trace: Trace) -> str:
    if trace.info.get("scoring_skipped"):
        return "reward 0.0 (scoring skipped)"
    return "no reward" if trace.reward is None else f"reward {number(trace.reward)}"


def _headline(trace: Trace) -> str:
    task = one_line(trace.task.name or trace.task.key or "", 60)
    return listing([f"Trace {trace.id[:8]}", f"task {task}" if task else "", f"rollout {trace.rollout}"])


def _errors(trace: Trace, limit: int = 3) -> list[str]:
    shown = trace.errors[-limit:]
    found = [
        f"{error.type} at {error.boundary}{f' ({error.stage})' if error.stage else ''}: "
        + one_line(error.message, 300)
        for error in shown
    ]
    if len(trace.errors) > len(shown):
        found.append(f"{len(trace.errors) - len(shown)} earlier errors; trace.errors has them")
    return found


def _error_word(trace: Trace) -> str:
    return "error" if trace.has_error else "error on the way"


def _signals(trace: Trace) -> str:
    rewards = [
        f"{one_line(name, 40)} {number(reward.value)}"
        + (f" x {number(reward.weight)}" if reward.weight != 1 else "")
        for name, reward in list(trace.rewards.items())[:10]
    ]
    metrics = [f"{one_line(name, 40)} {number(value)}" for name, value in list(trace.metrics.items())[:10]]
    return listing(
        [
            f"rewards: {', '.join(rewards)}" if rewards else "",
            f"metrics: {', '.join(metrics)}" if metrics else "",
        ]
    )


def _size(trace: Trace) -> str:
    row = trace_row(trace)
    calls, dag = len(trace.dag.calls), trace.dag
    return listing(
        [
            f"{row.turns} turns, {calls} calls",
            f"{count(row.tokens_in)} tokens in, {count(row.tokens_out)} out",
            money(row.cost) if row.cost is not None else "",
            f"{len(dag.tips)} {'branch' if len(dag.tips) == 1 else 'branches'}, {len(dag.nodes)} messages",
            seconds(row.time_s) if row.time_s is not None else "",
        ]
    )


def _stages(trace: Trace) -> str:
    spans = [f"{name} {seconds(span.seconds)}" for name, span in trace.timing.items() if span.end is not None]
    return ", ".join(spans[:8])


def _remarks(trace: Trace) -> list[str]:
    return [
        f"{len(trace.attempts)} earlier attempts failed" if trace.attempts else "",
        f"tags: {one_line(', '.join(map(str, trace.tags)), 200)}" if trace.tags else "",
        f"labels: {one_line(', '.join(f'{k} {v}' for k, v in trace.labels.items()), 200)}"
        if trace.labels
        else "",
        f"notes: {one_line('; '.join(map(str, trace.notes)), 200)}" if trace.notes else "",
        f"info: {one_line(trace.info, 200)}" if trace.info else "",
    ]


def _main(trace: Trace) -> list[Node]:
    """The nodes of the main branch."""
    main = trace.main
    return [trace.dag.nodes[index] for index in main.path] if main is not None else []


def _fork_line(fork: Fork, linked: str = "") -> str:
    begins = f"branch at node {fork.node}: {fork.cause}"
    return listing([begins, one_line(fork.detail, 40), linked, one_line(fork.diff, 80)])


def _linked(dag: MessageGraph) -> dict[int, str]:
    """The links of each branch in words."""
    told: dict[int, list[str]] = {}
    for link in links_of(dag):
        line = f"{link.kind.replace('_', ' ')} node {link.target}"
        told.setdefault(dag.nodes[link.source].branch, []).append(line)
    return {branch: ", ".join(lines) for branch, lines in told.items()}


def trace_facts(trace: Trace) -> dict[str, Any]:
    """What stands above a trace: `title`, `state` and its `tone`, `reward`, `errors` and `lines` of numbers."""
    state, tone = _state(trace)
    return {
        "title": _headline(trace),
        "state": state,
        "tone": tone,
        "reward": _reward(trace),
        "errors": [f"{_error_word(trace)}: {line}" for line in _errors(trace)],
        "lines": [line for line in (_signals(trace), _size(trace), *_remarks(trace)) if line],
    }


def trace_text(trace: Trace) -> str:
    """The text twin, at most 20 lines: state, errors, scores, sizes, forks, then as many messages as fit."""
    causes = list(forks(trace.dag).values())
    linked = _linked(trace.dag)
    told = [_fork_line(fork, linked.get(fork.node, "")) for fork in causes[:4]]
    if len(causes) > 4:
        told.append(f"{len(causes) - 4} more branches; trace.branches has them")
    head = [
        listing([_headline(trace), _state(trace)[0], _reward(trace)]),
        *(f"{_error_word(trace)}: {line}" for line in _errors(trace)),
        _signals(trace),
        _size(trace),
        f"stages: {_stages(trace)}" if _stages(trace) else "",
        *_remarks(trace),
        *told,
    ]
    head = [line for line in head if line]
    main = _main(trace)
    key = "messages of the main branch (* sampled):" if main else ""
    return lines(head, [key], message_lines(main, MAX_LINES - len(head) - 1, "trace.messages"), rest="trace")


def trace_bundle(trace: Trace) -> dict[str, str]:
    """Text and html."""
    page = Page("trace")
    state, tone = _state(trace)
    page.add(f"<div><b>{esc(_headline(trace))}</b> {badge(state, tone)} {esc(_reward(trace))}</div>")
    found = _errors(trace)
    tone = "bad" if trace.has_error else "warn"
    page.add(banner([f"{_error_word(trace)}: {line}" for line in found], tone))
    if trace.errors and (text := trace.errors[-1].traceback):
        page.add(details(span("last traceback", BAD), pre(clip(text, 4000))))
    for line in [_signals(trace), _size(trace), _stages(trace), *_remarks(trace)]:
        page.add(f"<div>{esc(line)}</div>" if line else "")
    causes = forks(trace.dag)
    if causes:
        page.add(image(chart_svg(tree_chart(trace, static=True)), "branches as lanes, time to the right"))
        page.add(_fork_table(causes, _linked(trace.dag)))
    main = _main(trace)
    page.add(f"<div><b>Main branch</b>, {len(main)} messages</div>" if main else "<div>no messages yet</div>")
    for block in message_blocks(main, "trace.messages"):
        page.add(block)
    return {"text/plain": trace_text(trace), "text/html": page.close("trace.messages")}


def _fork_table(causes: Mapping[int, Fork], linked: Mapping[int, str]) -> str:
    shown = list(causes.values())[:MAX_ROWS]
    rows = [
        [
            esc(fork.node),
            esc(fork.cause),
            esc(fork.index),
            esc(one_line(fork.detail, 80)),
            esc(linked.get(fork.node, "")),
            "<br>".join(esc(one_line(line, 120)) for line in plain(fork.diff).splitlines()[:4]),
        ]
        for fork in shown
    ]
    cut = (
        f"{len(shown)} of {len(causes)} forks shown; trace.branches has all" if len(causes) > MAX_ROWS else ""
    )
    return table(["branch at node", "cause", "message", "detail", "links", "difference"], rows, caption=cut)


def _about(link: Link, branch: Branch) -> bool:
    return branch.id in (branch.graph.nodes[link.source].branch, branch.graph.nodes[link.target].branch)


def _link_line(link: Link, branch: Branch) -> str:
    """One link as seen from a branch of its."""
    nodes, said = branch.graph.nodes, link.kind.replace("_", " ")
    if nodes[link.source].branch == branch.id:
        return f"{said} node {link.target} of branch {nodes[link.target].branch}"
    return f"node {link.source} of branch {nodes[link.source].branch} is {said} node {link.target} here"


def _branch_lines(branch: Branch) -> list[str]:
    cause = branch.cause
    tokens: Any = branch.token_ids
    return [
        f"Branch {branch.id} · {len(branch.path)} messages, {branch.shared} shared with older branches",
        _fork_line(cause) if cause else "the first branch",
        listing([_link_line(link, branch) for link in links_of(branch.graph) if _about(link, branch)]),
        f"{len(tokens):,} tokens, {int(branch.mask.sum()):,} sampled and owned here"
        if tokens is not None
        else "",
        "reasoning was dropped from its history" if branch.dropped_reasoning else "",
    ]


def branch_text(branch: Branch) -> str:
    """The text twin, at most 20 lines."""
    head = [line for line in _branch_lines(branch) if line]
    nodes = [branch.graph.nodes[index] for index in branch.path]
    return lines(head, message_lines(nodes, MAX_LINES - len(head), "branch.messages"), rest="branch.messages")


def branch_bundle(branch: Branch) -> dict[str, str]:
    """Text and html."""
    page = Page("branch")
    first, *others = [line for line in _branch_lines(branch) if line]
    page.add(f"<div><b>{esc(first)}</b></div>")
    for line in others:
        page.add(f"<div>{esc(line)}</div>")
    nodes = [branch.graph.nodes[index] for index in branch.path]
    for block in message_blocks(nodes, "branch.messages", start=branch.shared):
        page.add(block)
    return {"text/plain": branch_text(branch), "text/html": page.close("branch.messages")}
