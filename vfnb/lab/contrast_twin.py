"""Contrasts as a table."""

from __future__ import annotations

from vfnb.lab.contrast import Contrast, Contrasts
from vfnb.lab.grid import Grid
from vfnb.lab.words import number

__all__ = ["contrasts_bundle", "contrasts_text", "difference_words", "grid", "p_words"]

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
    return Grid(
        title, tuple(head), tuple(rows), (*_warned(found), *found.notes, _methods(found)), "contrasts"
    )


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
