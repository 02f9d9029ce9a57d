"""A summary as text and html."""

from __future__ import annotations

from vfnb.lab.html import Page, banner, esc, table
from vfnb.lab.intervals import Estimate
from vfnb.lab.stats import Signal, Summary
from vfnb.lab.text import lines
from vfnb.lab.words import count, listing, money, number, one_line

__all__ = [
    "error_lines",
    "estimate_words",
    "headline",
    "pass_words",
    "reward_words",
    "summary_blocks",
    "summary_bundle",
    "summary_lines",
    "summary_text",
    "usage_words",
]


def estimate_words(value: Estimate) -> str:
    """`0.742 ± 0.031 [0.68, 0.80]`, with what is known of it."""
    if value.mean is None:
        return "none"
    words = number(value.mean)
    if value.se is not None:
        words += f" ± {number(value.se, 2)}"
    if value.low is not None:
        words += f" [{number(value.low)}, {number(value.high)}]"
    return words


def headline(summary: Summary) -> str:
    """The run in a few words."""
    reward = summary.reward
    words = "no reward" if reward.mean is None else f"reward {number(reward.mean)}"
    if reward.se is not None:
        words += f" ± {number(reward.se, 2)}"
    return listing(
        [
            f"{summary.finished} of {summary.n} finished"
            if not summary.complete
            else f"{summary.n} rollouts",
            words,
            f"{summary.failed} failed" if summary.failed else "",
        ],
        ", ",
    )


def reward_words(summary: Summary) -> str:
    """The mean reward and who is left out of it."""
    over = f"over {summary.scored} of {summary.n} rollouts, {summary.reward.clusters} tasks"
    return listing(
        [
            f"reward {estimate_words(summary.reward)} {over}",
            f"left out: {summary.left_out}" if summary.left_out else "",
            f"{summary.skipped} scored 0 by a stop or setting that skips scoring" if summary.skipped else "",
        ]
    )


def pass_words(summary: Summary) -> str:
    """pass@k for each k, with the number of tasks where it is not all."""
    if not summary.pass_at_k:
        return ""
    most = summary.pass_at_k[0].tasks
    each = [
        f"pass@{p.k} {number(p.value)}" + (f" ({p.tasks} tasks)" if p.tasks < most else "")
        for p in summary.pass_at_k
    ]
    return listing([*each, f"pass: reward >= {number(summary.threshold)}"])


def error_lines(summary: Summary, limit: int = 4) -> list[str]:
    """The failures by class, boundary and first cause."""
    if not summary.errors:
        return []
    found = [f"{summary.failed} of {summary.n} rollouts failed (not counted as reward 0):"]
    for error in summary.errors[:limit]:
        where = f" at {error.boundary}" if error.boundary else ""
        found.append(f"  {error.count} x {error.type}{where}: {one_line(error.message, 200)}")
    if len(summary.errors) > limit:
        found.append(f"  {len(summary.errors) - limit} more kinds of error; summary.errors has them")
    return found


def usage_words(summary: Summary) -> str:
    """Tokens and cost."""
    cost = money(summary.cost)
    if summary.cost is not None and summary.cost_unknown:
        cost += f" ({summary.cost_unknown} rollouts of unknown cost)"
    tokens = f"{count(summary.tokens_in)} tokens in, {count(summary.tokens_out)} out"
    return listing([f"{count(summary.turns)} turns", tokens, cost])


def _signal_words(signals: tuple[Signal, ...], limit: int = 6) -> str:
    shown = [
        f"{one_line(s.name, 32)} {number(s.mean)}"
        + (f" ± {number(s.se, 2)}" if s.se is not None else "")
        + (f" ({s.missing} without)" if s.missing else "")
        for s in signals[:limit]
    ]
    if len(signals) > limit:
        shown.append(f"{len(signals) - limit} more in summary.to_dict()")
    return listing(shown)


def summary_lines(summary: Summary) -> list[str]:
    """Everything but the errors, one fact a line."""
    rewards, metrics = _signal_words(summary.rewards), _signal_words(summary.metrics)
    stops = listing([f"{one_line(name, 32)} {n}" for name, n in list(summary.stops.items())[:6]])
    return [
        reward_words(summary),
        pass_words(summary),
        f"variance within a task {number(summary.task_variance)}"
        if summary.task_variance is not None
        else "",
        f"rewards: {rewards}" if rewards else "",
        f"metrics: {metrics}" if metrics else "",
        f"stops: {stops}" if stops else "",
        usage_words(summary),
    ]


def summary_text(summary: Summary) -> str:
    """The text twin."""
    head = [listing([headline(summary), f"{summary.reused} reused" if summary.reused else ""])]
    return lines(head, error_lines(summary), summary_lines(summary), rest="summary.to_dict()")


def summary_blocks(summary: Summary) -> list[str]:
    """The figures in html: one table of the reward, one of all signals."""
    percent = (
        f"{summary.level:.0%} interval ({summary.reward.method})" if summary.reward.method else "interval"
    )
    reward = summary.reward
    figures = [
        ["reward, mean", number(reward.mean)],
        ["standard error", number(reward.se, 2)],
        [percent, f"{number(reward.low)} to {number(reward.high)}" if reward.low is not None else "-"],
        ["over", f"{summary.scored} of {summary.n} rollouts, {reward.clusters} tasks"],
        ["left out", summary.left_out or "none"],
        *([["scoring skipped", f"{summary.skipped}, counted as 0"]] if summary.skipped else []),
        *[[f"pass@{p.k}", f"{number(p.value)} over {p.tasks} tasks"] for p in summary.pass_at_k],
        *(
            [["a rollout passes", f"at a reward of {number(summary.threshold)} or more"]]
            if summary.scored
            else []
        ),
        ["variance within a task", number(summary.task_variance)],
        ["usage", usage_words(summary)],
        *(
            [["stops", listing(f"{k} {n}" for k, n in list(summary.stops.items())[:10])]]
            if summary.stops
            else []
        ),
    ]
    blocks = [table([], [[esc(name), esc(value)] for name, value in figures])]
    signals = [*summary.rewards, *summary.metrics]
    if signals:
        shown = [
            [s.name, s.kind, number(s.weight), number(s.mean), number(s.se, 2), str(s.n), str(s.missing)]
            for s in signals[:50]
        ]
        cut = (
            f"{len(shown)} of {len(signals)} signals; summary.to_dict() has all" if len(signals) > 50 else ""
        )
        head = ["signal", "kind", "weight", "mean", "se", "n", "without"]
        blocks.append(table(head, [[esc(one_line(cell)) for cell in row] for row in shown], caption=cut))
    return blocks


def summary_bundle(summary: Summary) -> dict[str, str]:
    """Text and html."""
    page = Page("summary")
    page.add(f"<div><b>Summary</b> {esc(headline(summary))}</div>")
    page.add(banner(error_lines(summary)))
    for block in summary_blocks(summary):
        page.add(block)
    return {"text/plain": summary_text(summary), "text/html": page.close("summary.to_dict()")}
