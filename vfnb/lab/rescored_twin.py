"""A rescoring as text and html."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

from vfnb.lab.html import MAX_ROWS, Page, banner, esc, table
from vfnb.lab.summary_twin import estimate_words
from vfnb.lab.text import columns, lines
from vfnb.lab.words import count, listing, money, number, one_line, seconds

if TYPE_CHECKING:
    from vfnb.lab.rescored import Change, Rescored

__all__ = ["rescored_bundle", "rescored_line", "rescored_text"]

_HEAD = ["signal", "old", "new", "change", "n", "only old", "only new"]


def rescored_line(made: Rescored) -> str:
    """It in a few words."""
    change = made.reward.change
    words = f"reward {number(made.reward.old.mean)} → {number(made.reward.new.mean)}"
    if change.mean is not None:
        words += f", change {_signed(change.mean)}" + (
            f" ± {number(change.se, 2)}" if change.se is not None else ""
        )
    return f"version {made.base} → {made.version}, {words}"


def _signed(value: float) -> str:
    return ("+" if value > 0 else "") + number(value)


def _title(made: Rescored) -> str:
    label = f"“{one_line(made.label, 50)}”" if made.label else ""
    return f"Rescored {one_line(made.run, 40)} · version {made.base} → {made.version} {label}".rstrip()


def _counts(made: Rescored) -> str:
    return listing(
        [
            f"{made.scored:,} traces scored anew",
            f"{made.kept:,} kept their scores" if made.kept else "",
            *(f"{n:,} not scored: {one_line(reason, 60)}" for reason, n in made.left_out.items()),
            seconds(made.seconds),
        ]
    )


def _reward(made: Rescored) -> list[str]:
    one = made.reward
    change = one.change
    flips = f"passes (reward >= {number(made.threshold)}): {one.won} won, {one.lost} lost"
    paired = "no trace has both rewards"
    if change.mean is not None:
        paired = f"change {_signed(change.mean)}" + (
            f" ± {number(change.se, 2)}" if change.se is not None else ""
        )
        if change.low is not None and change.method == "t":
            paired += f" [{number(change.low)}, {number(change.high)}]"
        paired += f" paired over {change.n:,} traces, {change.clusters:,} tasks"
    return [
        f"reward {estimate_words(one.old)} → {estimate_words(one.new)}",
        listing([paired, flips]),
        listing(
            [
                f"{one.only_new} traces have a reward now and had none" if one.only_new else "",
                f"{one.only_old} had one and have none now" if one.only_old else "",
            ]
        ),
        f"variance within a task {number(one.old_spread)} → {number(one.new_spread)}"
        if one.old_spread is not None or one.new_spread is not None
        else "",
    ]


def _judges(made: Rescored) -> str:
    if not made.judge_calls:
        return ""
    return f"judges: {made.judge_calls:,} calls, {count(made.judge_tokens)} tokens, {money(made.judge_cost)}"


def _errors(made: Rescored) -> list[str]:
    if not made.errors:
        return []
    causes = Counter(one_line(text, 200) for text in made.errors.values())
    found = [f"{len(made.errors)} traces could not be scored in full (no value, not counted as 0):"]
    found += [f"  {n} x {text}" for text, n in causes.most_common(4)]
    if len(causes) > 4:
        found.append(f"  {len(causes) - 4} more kinds of error; rescored.errors has them")
    return found


def _cells(one: Change) -> list[str]:
    change = "-" if one.change.mean is None else _signed(one.change.mean)
    if one.change.se is not None:
        change += f" ± {number(one.change.se, 2)}"
    return [
        one_line(one.name, 32),
        number(one.old.mean),
        number(one.new.mean),
        change,
        str(one.change.n),
        str(one.only_old),
        str(one.only_new),
    ]


def rescored_text(made: Rescored) -> str:
    """The text twin."""
    signals = made.signals
    told = columns(_HEAD, [_cells(one) for one in signals[:8]]) if signals else []
    if len(signals) > 8:
        told.append(f"{len(signals) - 8} more signals; rescored.frame() has all")
    notes = [f"note: {note}" for note in made.notes[:3]]
    head = [_title(made), _counts(made)]
    return lines(head, _errors(made), notes, _reward(made), [_judges(made)], told, rest="rescored.frame()")


def rescored_bundle(made: Rescored) -> dict[str, str]:
    """Text and html."""
    page = Page("rescored")
    page.add(f"<div><b>{esc(_title(made))}</b></div><div>{esc(_counts(made))}</div>")
    page.add(banner(_errors(made)))
    page.add(banner([one_line(note, 300) for note in made.notes[:10]], "warn"))
    for line in (*_reward(made), _judges(made)):
        page.add(f"<div>{esc(line)}</div>" if line else "")
    if made.signals:
        shown = made.signals[:MAX_ROWS]
        cut = f"{len(shown)} of {len(made.signals)} signals shown; rescored.frame() has all"
        rows = [[esc(cell) for cell in _cells(one)] for one in shown]
        page.add(table(_HEAD, rows, caption=cut if len(made.signals) > MAX_ROWS else ""))
    return {"text/plain": rescored_text(made), "text/html": page.close("rescored.frame()")}
