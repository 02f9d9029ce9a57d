"""Contrasts as a table."""

from __future__ import annotations

from vfnb.lab.contrast import Contrast, Contrasts
from vfnb.lab.grid import Grid
from vfnb.lab.words import number

__all__ = ["contrasts_bundle", "contrasts_text", "difference_words", "grid", "p_words", "verdict"]

_TOLD = 2  # so many contrasts are said in words too; of more, the table is easier to read
_SHORT = {"holm": "Holm", "bh": "BH"}


def p_words(p: float | None) -> str:
    """A p value; `-` if there is none."""
    return "-" if p is None else "<0.001" if p < 0.001 else f"{p:.2f}" if p >= 0.1 else f"{p:.3f}"


def difference_words(item: Contrast) -> str:
    """The difference with its interval."""
    if item.difference is None:
        return "-"
    told = f"{item.difference:+.3f}"
    return told if item.low is None else f"{told} [{item.low:+.3f}, {item.high:+.3f}]"


def verdict(item: Contrast, level: float) -> str:
    """What a contrast shows, as a sentence."""
    if item.p_adjusted is None or item.difference is None:
        return f"{item.b} and {item.a} cannot be compared"
    p = p_words(item.p_adjusted)
    p = f"p {p}" if p.startswith("<") else f"p = {p}"
    if item.p_adjusted > 1 - level:
        least = f"; a true difference of {number(item.detectable, 2)} would show in 4 of 5 such studies"
        known = item.detectable and item.p_adjusted == item.p  # it is that of the test without correction
        return f"{item.b} is not shown to differ from {item.a}, {p}" + (least if known else "")
    up = item.difference > 0
    ends = [] if item.low is None or item.high is None else [item.low, item.high]
    reach = " to ".join(number(end if up else -end) for end in (ends if up else reversed(ends)))
    by = number(abs(item.difference)) + (f" ({reach})" if reach else "")
    return f"{item.b} is {'higher' if up else 'lower'} than {item.a} by {by}, {p}"


def grid(found: Contrasts) -> Grid:
    """The table of contrasts, with what to be careful about under it."""
    corrected = found.correction in _SHORT
    against = {item.a for item in found.items}
    one = len(against) == 1  # then the title names it, and no column does
    head = ["setting", *([] if one else ["against"]), "mean", f"difference [{found.level:.0%}]", "p"]
    head += [f"p ({_SHORT[found.correction]})"] if corrected else []
    head += ["+/=/-", "tasks", "MDE"]
    rows = []
    for item in found.items:
        row = [
            item.b,
            *([] if one else [item.a]),
            number(item.mean_b),
            difference_words(item),
            p_words(item.p),
        ]
        row += [p_words(item.p_adjusted)] if corrected else []
        row += [f"{item.better}/{item.equal}/{item.worse}", str(item.tasks), number(item.detectable, 2)]
        rows.append(tuple(row))
    title = f"{found.y}, paired by task"
    if one:
        means = sorted({number(item.mean_a) for item in found.items})
        title += (
            f", against {against.pop()} ({means[0]})" if len(means) == 1 else f", against {against.pop()}"
        )
    words = found.words if len(found) <= _TOLD else []
    notes = (*found.notes, *words, *_warned(found), _methods(found))
    return Grid(title, tuple(head), tuple(rows), notes, "contrasts")


def _warned(found: Contrasts) -> list[str]:
    """Each warning once, with whom it concerns if not all."""
    who: dict[str, list[str]] = {}
    for item in found.items:
        for warning in item.warnings:
            who.setdefault(warning, []).append(item.b)
    return [
        f"warning: {text}" + ("" if len(names) == len(found) else f" ({', '.join(names)})")
        for text, names in who.items()
    ]


def _methods(found: Contrasts) -> str:
    tests = " or ".join(sorted({item.test for item in found.items if item.test}))
    intervals = " or ".join(sorted({item.interval for item in found.items if item.interval}))
    told = [f"test: {tests}" if tests else "", f"interval: {intervals}" if intervals else ""]
    return "; ".join(filter(None, [*told, "+/=/-: tasks where it is higher, equal, lower"]))


def contrasts_text(found: Contrasts) -> str:
    """The text twin."""
    return str(grid(found))


def contrasts_bundle(found: Contrasts) -> dict[str, str]:
    """Text and html."""
    return grid(found)._repr_mimebundle_()
