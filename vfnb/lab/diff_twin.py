"""Diffs as text and html: what changed, with a little of what is around it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any

from vfnb.lab.html import BAD, GOOD, MAX_MESSAGE, MAX_ROWS, MUTED, Page, banner, details, esc, span, table
from vfnb.lab.messages import preview
from vfnb.lab.run_diff import RunDiff
from vfnb.lab.summary_twin import estimate_words
from vfnb.lab.text import MAX_LINES, columns, lines
from vfnb.lab.words import clip, count, listing, number, one_line

if TYPE_CHECKING:
    from vfnb.lab.diff import CallDiff, Diff, DiffRow, DiffSpan

__all__ = ["diff_bundle", "diff_text"]

_SIGNS = {"same": "=", "changed": "~", "left": "-", "right": "+"}
_LOOK = {"same": MUTED, "changed": "font-weight:bold", "left": BAD, "right": GOOD}
AROUND = 1  # rows that are the same, shown before and after one that is not
SAME = 60  # characters of an equal piece between two changed ones


def _title(diff: Diff) -> str:
    return f"Diff of {diff.kind}: {one_line(diff.left, 40)} ↔ {one_line(diff.right, 40)}"


def _counts(diff: Diff) -> str:
    found = diff.counts
    words = {"same": "the same", "changed": "changed", "left": "only left", "right": "only right"}
    told = listing([f"{found[kind]} {word}" for kind, word in words.items() if found[kind]], ", ")
    left, right = diff.tokens
    tokens = "" if left is None or right is None else f"{count(left)} and {count(right)} tokens"
    return listing([told or "both are empty", tokens])


def _first(diff: Diff) -> str:
    row = diff.first
    if row is None:
        return "no difference"
    where = [("left", row.left_at, row.left_node), ("right", row.right_at, row.right_node)]
    told = [f"message {at} {side} (node {node})" for side, at, node in where if at is not None]
    return f"first difference: {', '.join(told)}"


def _near(diff: Diff) -> Iterator[tuple[int, DiffRow | None]]:
    """The rows to show; None with a number stands for so many equal ones."""
    rows = diff.rows
    near = {
        index + step
        for index, row in enumerate(rows)
        if row.kind != "same"
        for step in range(-AROUND, AROUND + 1)
    }
    skipped = 0
    for index, row in enumerate(rows):
        if index not in near:
            skipped += 1
            continue
        if skipped:
            yield skipped, None
            skipped = 0
        yield 0, row
    if skipped:
        yield skipped, None


# Text


def diff_text(diff: Diff) -> str:
    """The text twin, at most 20 lines."""
    if isinstance(diff, RunDiff):
        return _runs_text(diff)
    if diff.kind == "configs":
        body = [_config_line(row) for row in diff.rows if row.kind != "same"]
        return lines([listing([_title(diff), _counts(diff)])], body, rest="diff.frame()")
    head = [_title(diff), listing([_counts(diff), _first(diff)]), *(f"note: {note}" for note in diff.notes)]
    near = list(_near(diff))
    shown = near if len(near) <= MAX_LINES - len(head) else near[: MAX_LINES - len(head) - 1]
    body = [f"  … {skipped} the same" if row is None else _line(row) for skipped, row in shown]
    rest = sum(skipped or 1 for skipped, _ in near[len(shown) :])
    return lines(head, body, [f"… {rest} more rows; diff.frame() has all" if rest else ""])


def _line(row: DiffRow) -> str:
    sign = _SIGNS[row.kind]
    places = "/".join("" if at is None else str(at) for at in (row.left_at, row.right_at))
    if row.kind == "changed":
        said = _changes(row.spans) or listing(_call_line(call) for call in row.calls if call.kind != "same")
    else:
        said = preview(row.left if row.left is not None else row.right, 90)
    return f"{sign} {places:>9} {row.role:<10} {one_line(said, 90)}"


def _changes(spans: Sequence[DiffSpan]) -> str:
    """The changed pieces of a text with a little around them: `the answer is [-4-]{+5+}`."""
    told = []
    for index, piece in enumerate(spans):
        if piece.kind == "left":
            told.append(f"[-{piece.text}-]")
        elif piece.kind == "right":
            told.append(f"{{+{piece.text}+}}")
        elif len(spans) > 1:
            told.append(_shortened(piece.text, first=index == 0, last=index == len(spans) - 1, keep=20))
    return "".join(told)


def _shortened(text: str, *, first: bool, last: bool, keep: int) -> str:
    """An equal piece: its end before a change, its start after one."""
    if len(text) <= 2 * keep:
        return text
    head = "" if first else text[:keep]
    tail = "" if last else text[-keep:]
    return f"{head}…{tail}"


def _call_line(call: CallDiff) -> str:
    name = call.left.name if call.left is not None else call.right.name if call.right is not None else ""
    told = listing(call.arguments[:4], ", ")
    return f"{_SIGNS[call.kind]} {name}({told})"


def _value(value: Any) -> str:
    return one_line(value if isinstance(value, str) else json.dumps(value, default=str), 60)


def _config_line(row: DiffRow) -> str:
    if row.kind == "changed":
        return f"~ {row.key}: {_value(row.left)} → {_value(row.right)}"
    return f"{_SIGNS[row.kind]} {row.key}: {_value(row.left if row.kind == 'left' else row.right)}"


def _run_lines(diff: RunDiff) -> list[str]:
    change = diff.change
    unmatched, unscored, flipped = diff.unmatched, diff.unscored, diff.flipped
    both = len(diff.rows) - len(unmatched)
    sides = [f"{diff.counts[side]} only {side}" for side in ("left", "right") if diff.counts[side]]
    settings = [row for row in diff.config.rows if row.kind != "same"]
    return [
        listing(
            [f"{both} tasks in both", *sides, f"{len(unscored)} without a reward in one" if unscored else ""]
        ),
        f"reward, right minus left: {estimate_words(change)} paired over {change.n} tasks"
        if change.mean is not None
        else "no task has a reward in both",
        f"{diff.wins} wins, {diff.ties} ties, {diff.losses} losses of the right; {len(flipped)} flipped",
        f"flipped: {one_line(', '.join(flipped), 90)}" if flipped else "",
        f"unmatched: {one_line(', '.join(unmatched), 90)}" if unmatched else "",
        *(f"setting {_config_line(row)}" for row in settings[:4]),
        f"{len(settings) - 4} more settings differ; diff.config has them" if len(settings) > 4 else "",
    ]


_TASKS = ["task", "left", "right", "change", "passed", "flipped"]


def _tasks(diff: RunDiff) -> list[DiffRow]:
    """The rows that differ, largest change first."""
    changes = diff.changes
    rows = [row for row in diff.rows if row.kind != "same"]
    return sorted(rows, key=lambda row: -abs(changes.get(row.key, 0.0)))


def _task_cells(diff: RunDiff, row: DiffRow) -> list[str]:
    change = diff.changes.get(row.key)
    passed = [
        "-" if scored is None else f"{passed} of {scored}"
        for scored, passed in (
            (row.facts["left_scored"], row.facts["left_passed"]),
            (row.facts["right_scored"], row.facts["right_passed"]),
        )
    ]
    return [
        one_line(row.facts["name"], 32),
        number(row.left),
        number(row.right),
        f"only {row.kind}" if row.kind in ("left", "right") else number(change),
        " → ".join(passed),
        "yes" if row.facts["flipped"] else "",
    ]


def _runs_text(diff: RunDiff) -> str:
    told = columns(_TASKS, [_task_cells(diff, row) for row in _tasks(diff)])
    return lines([_title(diff)], _run_lines(diff), told if len(told) > 1 else [], rest="diff.frame()")


# Html


def diff_bundle(diff: Diff) -> dict[str, str]:
    """Text and html."""
    page = Page("diff")
    page.add(f"<div><b>{esc(_title(diff))}</b></div>")
    if isinstance(diff, RunDiff):
        for line in _run_lines(diff):
            page.add(f"<div>{esc(line)}</div>" if line else "")
        rows = _tasks(diff)
        shown = [[esc(cell) for cell in _task_cells(diff, row)] for row in rows[:MAX_ROWS]]
        cut = f"{len(shown)} of {len(rows)} tasks that differ; diff.frame() has all"
        page.add(table(_TASKS, shown, caption=cut) if shown else "")
    elif diff.kind == "configs":
        page.add(f"<div>{esc(_counts(diff))}</div>")
        differ = [row for row in diff.rows if row.kind != "same"]
        cells = [
            [
                f"{_SIGNS[row.kind]} {row.kind}",
                row.key,
                *("" if v is None else _value(v) for v in (row.left, row.right)),
            ]
            for row in differ[:MAX_ROWS]
        ]
        cut = (
            f"{len(cells)} of {len(differ)} differences; diff.frame() has all"
            if len(differ) > MAX_ROWS
            else ""
        )
        page.add(
            table(["", "key", "left", "right"], [[esc(cell) for cell in row] for row in cells], caption=cut)
        )
    else:
        _messages(page, diff)
    return {"text/plain": diff_text(diff), "text/html": page.close("diff.frame()")}


def _messages(page: Page, diff: Diff) -> None:
    page.add(f"<div>{esc(listing([_counts(diff), _first(diff)]))}</div>")
    page.add(banner(diff.notes, "warn"))
    near = list(_near(diff))
    for skipped, row in near[:MAX_ROWS]:
        page.add(f'<div style="{MUTED}">… {skipped} the same</div>' if row is None else _block(row))
    if len(near) > MAX_ROWS:
        rest = sum(skipped or 1 for skipped, _ in near[MAX_ROWS:])
        page.add(
            f'<div style="{MUTED}">{rest} of {len(diff.rows)} rows not shown; diff.frame() has all</div>'
        )


def _block(row: DiffRow) -> str:
    places = ["left" if row.left_at is not None else "", "right" if row.right_at is not None else ""]
    nodes = [
        f"node {node} {side}"
        for side, node in zip(places, (row.left_node, row.right_node), strict=True)
        if side
    ]
    sign = span(f"{_SIGNS[row.kind]} {row.kind}", _LOOK[row.kind], title=", ".join(nodes))
    one = row.left if row.left is not None else row.right
    head = f"{sign} <b>{esc(row.role)}</b> "
    if row.kind == "same":
        return f"<div>{head}{span(preview(one, 100), MUTED)}</div>"
    short = preview(one, 100) if row.kind != "changed" else one_line(_changes(row.spans), 100)
    body = "".join(_piece(piece) for piece in _bounded(row.spans))
    calls = "".join(_call(call) for call in row.calls)
    text = '<div style="white-space:pre-wrap;overflow-wrap:break-word;font-family:monospace">'
    return details(head + esc(short), f"{text}{body}</div>{calls}", opened=row.kind == "changed")


def _bounded(spans: Sequence[DiffSpan]) -> list[DiffSpan]:
    """Pieces up to the bound of a message; long equal ones keep their ends."""
    found, room = [], MAX_MESSAGE
    for index, piece in enumerate(spans):
        text = piece.text
        if piece.kind == "same" and len(spans) > 1:
            text = _shortened(text, first=index == 0, last=index == len(spans) - 1, keep=SAME)
        found.append(piece._replace(text=clip(text, room)))
        room -= len(text)
        if room <= 0:
            break
    return found


def _piece(piece: DiffSpan) -> str:
    if piece.kind == "same":
        return esc(piece.text)
    marks = ("[-", "-]") if piece.kind == "left" else ("{+", "+}")
    return span(f"{marks[0]}{piece.text}{marks[1]}", _LOOK[piece.kind])


def _call(call: CallDiff) -> str:
    sides = [f"{one.name}({clip(one.arguments, 300)})" for one in (call.left, call.right) if one is not None]
    told = esc(" → ".join(sides) if call.kind == "changed" else sides[0])
    differ = f" {esc(', '.join(call.arguments[:8]))} differ" if call.arguments else ""
    return f"<div>{span(f'{_SIGNS[call.kind]} call', _LOOK[call.kind])} {told}{differ}</div>"
