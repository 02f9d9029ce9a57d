"""A calibration as text and html."""

from __future__ import annotations

from typing import TYPE_CHECKING

from vfnb.lab.html import Page, esc, table
from vfnb.lab.text import columns, lines
from vfnb.lab.words import listing, number, one_line

if TYPE_CHECKING:
    from vfnb.lab.calibration import Calibration

__all__ = ["calibration_bundle", "calibration_line", "calibration_text"]

SHOWN = 10  # categories in a display


def calibration_line(one: Calibration) -> str:
    """It in a few words."""
    return f"{one_line(one.score, 30)} against {one_line(one.label, 30)}: {_kappa(one)}, n={one.n}"


def _kappa(one: Calibration) -> str:
    if one.kappa is None:
        return "kappa undefined (one side has a single answer)"
    return f"kappa {number(one.kappa)}" + (
        f" ± {number(one.kappa_se, 2)}" if one.kappa_se is not None else ""
    )


def _facts(one: Calibration) -> list[str]:
    low, high = one.agreement_low, one.agreement_high
    rule = f"yes from {number(one.threshold)}" if one.threshold is not None else "numbers as they are"
    return [
        f"Calibration of {one_line(one.score, 40)} against the label {one_line(one.label, 40)} · {rule}",
        f"agreement {number(one.agreement)} [{number(low)}, {number(high)}] over {one.n} traces · {_kappa(one)}",
        f"weighted kappa {number(one.weighted_kappa)} (quadratic)" if one.weighted_kappa is not None else "",
        f"precision {number(one.precision)} · recall {number(one.recall)}"
        if one.threshold is not None
        else "",
        listing(
            [
                f"{one.unlabelled} scored traces have no such label" if one.unlabelled else "",
                f"{one.unscored} labelled ones have no such score" if one.unscored else "",
            ]
        ),
    ]


def _table(one: Calibration) -> tuple[list[str], list[list[str]], str]:
    names = [str(name) for name in one.confusion.columns]
    shown = names[:SHOWN]
    rows = [[f"label {name}", *(str(one.confusion.loc[name, other]) for other in shown)] for name in shown]
    cut = f"{len(shown)} of {len(names)} values; confusion has all" if len(names) > SHOWN else ""
    return ["", *(f"score {name}" for name in shown)], rows, cut


def calibration_text(one: Calibration) -> str:
    """The text twin."""
    head, rows, cut = _table(one)
    return lines(_facts(one), columns(head, rows), [cut])


def calibration_bundle(one: Calibration) -> dict[str, str]:
    """Text and html."""
    page = Page("calibration")
    first, *others = _facts(one)
    page.add(f"<div><b>{esc(first)}</b></div>")
    for line in others:
        page.add(f"<div>{esc(line)}</div>" if line else "")
    head, rows, cut = _table(one)
    page.add(table(head, [[esc(cell) for cell in row] for row in rows], caption=cut))
    return {"text/plain": calibration_text(one), "text/html": page.close("confusion")}
