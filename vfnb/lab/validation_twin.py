"""The checks of a taskset as text and html, through the attributes that they have."""

from __future__ import annotations

from typing import Any

from vfnb.lab.html import MAX_ROWS, Page, badge, banner, esc, table
from vfnb.lab.text import columns, lines
from vfnb.lab.words import one_line

__all__ = ["headline", "validation_bundle", "validation_text"]

_HEAD = ["task", "gold", "untouched", "seconds", ""]


def headline(report: Any) -> str:
    """The outcome in one line."""
    checks, failed = report.checks, report.failed
    parts = [f"{report.name}: {len(checks)} tasks", f"{len(failed)} failed"]
    if not report.only_setup:
        gold = sum(check.gold is True for check in checks)
        none = sum(check.gold is None and check.error is None for check in checks)
        parts += [f"{gold} passed their gold check", f"{none} have none"]
    below = sum(check.noop is not None and not check.failed for check in checks)
    broken = sum(check.noop_error is not None for check in checks)
    untouched = [f"{below} below full reward"] if below else []
    untouched += [f"{broken} unscorable"] if broken else []
    return ", ".join(parts) + (f"; untouched: {', '.join(untouched)}" if untouched else "")


def _told(check: Any) -> str:
    if check.problem is not None:
        return str(check.problem)
    return f"untouched: {check.noop_error}" if check.noop_error else ""


def _row(check: Any) -> list[str]:
    gold = {True: "yes", False: "no", None: ""}[check.gold]
    noop = "" if check.noop is None else f"{check.noop:.3g} of {check.full:.3g}"
    return [one_line(check.task.name, 40), gold, noop, f"{check.seconds:.2f}", one_line(_told(check), 200)]


def _sorted(report: Any) -> list[Any]:
    """What needs a look first."""
    return sorted(report.checks, key=lambda check: (not check.failed, check.noop_error is None))


def validation_text(report: Any) -> str:
    """The text twin."""
    shown = [check for check in _sorted(report) if _told(check)]
    told = columns(_HEAD, [_row(check) for check in shown], widest=70) if shown else []
    return lines([headline(report)], told, rest="frame()")


def validation_bundle(report: Any) -> dict[str, str]:
    """Text and html."""
    page = Page("validation")
    page.add(f"<div><b>{esc(headline(report))}</b></div>")
    page.add(banner([f"{len(report.failed)} tasks are not fit to be run"] if report.failed else []))
    rows = []
    for check in _sorted(report)[:MAX_ROWS]:
        tone = "bad" if check.failed else "warn" if check.noop_error else "good"
        mark = badge("failed" if check.failed else "ok", tone)
        rows.append([mark, *(esc(cell) for cell in _row(check))])
    more = len(report.checks) - len(rows)
    cut = f"{len(rows)} of {len(report.checks)} tasks shown; frame() has all" if more else ""
    page.add(table(["", *_HEAD], rows, caption=cut))
    return {"text/plain": validation_text(report), "text/html": page.close("frame()")}
