"""The reward lab as text and html: what was changed, and what that does."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from vfnb.lab.chart_svg import image
from vfnb.lab.html import MUTED, Page, badge, banner, esc, pre, table
from vfnb.lab.text import lines
from vfnb.lab.words import listing, number, one_line

__all__ = ["lab_bundle"]

Changed = tuple[Mapping[str, float], Mapping[str, float]]

_BARS = (520.0, 110.0)


def lab_bundle(
    name: str, signals: Mapping[str, Any], changed: Changed, result: Mapping[str, Any], code: str
) -> dict[str, str]:
    """Text and html of what a reward lab shows."""
    weights, thresholds = changed
    head = f"Reward lab of {one_line(name, 60)}"
    counts = listing(
        [
            f"{result['count']} rewards",
            f"{result['left_out']} rollouts without one" if result["left_out"] else "",
            f"mean {number(result['means'][0])} → {number(result['means'][1])}",
            f"{result['flipped']} of {result['pairs']} pairs of a task in another order",
        ]
    )
    rows = [
        [
            one_line(signal, 40),
            number(facts["weight"]),
            number(weights.get(signal, facts["weight"])),
            f"1 from {number(thresholds[signal])} on" if signal in thresholds else "",
        ]
        for signal, facts in signals.items()
    ]
    suspected = [f"{one['name']}: {one['why']}" for one in result["suspects"]]
    flips = [
        listing(
            [
                f"task {one_line(flip['task'], 30)} rollout {flip['rollout']}",
                f"{number(flip['before'])} → {number(flip['after'])}",
                f"place {flip['ranks'][0]:g} → {flip['ranks'][1]:g}",
                flip["id"][:8],
            ]
        )
        for flip in result["flips"]
    ]
    told = [
        f"{signal}: weight {old} → {new}{', ' + edit if edit else ''}"
        for signal, old, new, edit in rows
        if old != new or edit
    ]
    text = lines(
        [f"{head} · {counts}"],
        told or ["weights and thresholds are those of the run"],
        [f"suspected: {line}" for line in suspected],
        [f"code: {code}"] if code else [],
        [f"flipped: {line}" for line in flips[:8]],
        rest="lab.result",
    )
    page = Page("lab")
    page.add(f"<div><b>{esc(head)}</b> {esc(counts)}</div>")
    page.add(banner([f"suspected: {line}" for line in suspected], "warn"))
    page.add(
        table(["reward", "weight", "new weight", "threshold"], [[esc(cell) for cell in row] for row in rows])
    )
    page.add(image(bars(result["edges"], result["before"], result["after"]), "rewards before and after"))
    page.add(pre(code) if code else "")
    if flips:
        cut = f"{min(20, len(flips))} of {result['flips_total']} traces in another order within their task"
        page.add(f"<div>{badge(cut, 'none')}</div>")
        for line in flips[:20]:
            page.add(f'<div style="{MUTED}">{esc(line)}</div>')
    return {"text/plain": text, "text/html": page.close("lab.result")}


def bars(edges: Sequence[float], before: Sequence[int], after: Sequence[int]) -> str:
    """Two histograms in one drawing: before hollow, after filled."""
    width, height = _BARS
    most = max(1, *before, *after)
    step = width / max(1, len(before))
    marks = []
    for at, (old, new) in enumerate(zip(before, after, strict=True)):
        x, tall, line = 20 + at * step, height * new / most, height * old / most
        marks.append(
            f'<rect x="{x + 1:.1f}" y="{20 + height - tall:.1f}" width="{step - 2:.1f}" height="{tall:.1f}" '
            f'fill="#0072b2" fill-opacity="0.55"/><rect x="{x + 1:.1f}" y="{20 + height - line:.1f}" '
            f'width="{step - 2:.1f}" height="{line:.1f}" fill="none" stroke="#333333"/>'
        )
    base, low, high = 20 + height, esc(number(edges[0])), esc(number(edges[-1]))
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" width="{width + 40:g}" height="{height + 45:g}" '
        f'viewBox="0 0 {width + 40:g} {height + 45:g}" font-family="sans-serif" font-size="11">'
        '<rect width="100%" height="100%" fill="#ffffff"/>'
        f'<text x="20" y="13" fill="#333333">rewards: outline before, filled after</text>{"".join(marks)}'
        f'<path d="M20 {base:g}H{20 + width:g}" stroke="#999999"/>'
        f'<text x="20" y="{base + 15:g}" fill="#333333">{low}</text>'
        f'<text x="{20 + width:g}" y="{base + 15:g}" text-anchor="end" fill="#333333">{high}</text>'
        "</svg>"
    )
