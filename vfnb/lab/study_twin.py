"""A study as text, as html and as one terminal line, from its snapshot."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from vfnb.lab.html import MAX_ROWS, MUTED, Page, badge, banner, esc, table
from vfnb.lab.study_cells import StudyCell, reward_of
from vfnb.lab.text import columns, folded, lines
from vfnb.lab.views import RunState
from vfnb.lab.words import count, listing, number, one_line, seconds

__all__ = ["StudyView", "study_bundle", "study_line", "study_text"]

_TONES = {"running": "none", "finished": "good", "cancelled": "warn", "failed": "bad", "interrupted": "warn"}
_HEAD = ["setting", "reward", "interval", "scored", "errors", "tokens out", "time"]


@dataclass(frozen=True, slots=True, kw_only=True)
class StudyView:
    """A study at one moment."""

    name: str
    design: str
    taskset: str
    axes: tuple[str, ...]
    cells: tuple[StudyCell, ...]
    state: RunState
    running: int = 0
    reused: int = 0
    elapsed_s: float | None = None
    eta_s: float | None = None
    dir: str = ""
    errors: tuple[str, ...] = ()
    """Why runs stopped."""
    notes: tuple[str, ...] = ()

    @property
    def total(self) -> int:
        """Rollouts planned."""
        return sum(cell.planned for cell in self.cells)

    @property
    def done(self) -> int:
        """Rollouts that ended in any way."""
        return sum(len(cell.rows) for cell in self.cells)

    @property
    def failed(self) -> int:
        """Rollouts that ended by an error."""
        return sum(row.outcome == "error" for cell in self.cells for row in cell.rows)


def _counts(view: StudyView) -> str:
    cancelled = sum(row.outcome == "cancelled" for cell in view.cells for row in cell.rows)
    return listing(
        [
            f"{view.done} of {view.total} rollouts",
            f"{view.running} running" if view.running else "",
            f"{view.failed} failed" if view.failed else "",
            f"{cancelled} cancelled" if cancelled else "",
            f"{view.reused} reused, {view.done - view.reused} run" if view.reused else "",
            f"{seconds(view.eta_s)} left"
            if view.eta_s is not None
            else seconds(view.elapsed_s)
            if view.elapsed_s is not None
            else "",
        ]
    )


def study_line(view: StudyView) -> str:
    """Progress in one line."""
    state = "" if view.state == "running" else view.state
    return listing([f"{one_line(view.name, 30)} {len(view.cells)} settings", state, _counts(view)])


def _trouble(view: StudyView) -> list[str]:
    """What stopped runs, and the first cause of failed rollouts of each setting."""
    told = [one_line(error, 300) for error in view.errors]
    for cell in view.cells:
        failed = [row for row in cell.rows if row.outcome == "error"]
        if failed:
            what = f"{cell.name}: {len(failed)} of {cell.planned} failed, first {failed[0].error}"
            told.append(one_line(f"{what}: {failed[0].message}", 300))
    return told


def _setting(view: StudyView) -> str:
    return listing([view.design, f"axes {', '.join(view.axes)}", f"taskset {one_line(view.taskset, 40)}"])


def _cells(cell: StudyCell) -> list[str]:
    reward = reward_of(cell)
    times = [row.time_s for row in cell.rows if row.ok and row.time_s is not None]
    return [
        cell.name,
        number(reward.mean) + (f" ± {number(reward.se, 2)}" if reward.se is not None else ""),
        f"{number(reward.low)} to {number(reward.high)}" if reward.low is not None else "-",
        f"{reward.n} of {cell.planned}",
        str(sum(row.outcome == "error" for row in cell.rows)),
        count(sum(row.tokens_out for row in cell.rows)),
        seconds(sum(times) / len(times)) if times else "-",
    ]


def study_text(view: StudyView) -> str:
    """The text twin: a line per setting."""
    head = [
        listing([f"Study {one_line(view.name, 40)}: {len(view.cells)} settings", view.state, _counts(view)]),
        _setting(view),
    ]
    trouble = _trouble(view)
    cut = [f"… {len(trouble) - 4} more settings with errors"] if len(trouble) > 4 else []
    body = columns(_HEAD, [_cells(cell) for cell in view.cells], widest=48)
    told = [part for note in (*trouble[:4], *cut, *view.notes[:2]) for part in folded(note)]
    return lines(head, told, body, rest="study.settings")


def study_bundle(view: StudyView) -> dict[str, str]:
    """Text and html."""
    page = Page("study")
    told = esc(_counts(view))
    title = f"<b>Study {esc(one_line(view.name, 60))}</b> {len(view.cells)} settings"
    page.add(f"<div>{title} {badge(view.state, _TONES[view.state])} {told}</div>")
    if view.state == "running" and view.total:
        bar = f'<progress value="{view.done}" max="{view.total}" style="width:100%;max-width:400px">'
        page.add(f"<div>{bar}</progress></div>")
    page.add(banner(_trouble(view)[:20]))
    page.add(banner([one_line(note, 300) for note in view.notes[:10]], "warn"))
    page.add(f"<div>{esc(_setting(view))}</div>")
    page.add(_table(view.cells))
    page.add(f'<div style="{MUTED}">stored in {esc(view.dir)}</div>' if view.dir else "")
    return {"text/plain": study_text(view), "text/html": page.close("study.settings")}


def _table(cells: Sequence[StudyCell]) -> str:
    shown = cells[:MAX_ROWS]
    rows = [[esc(one_line(text, 90)) for text in _cells(cell)] for cell in shown]
    cut = (
        f"{len(shown)} of {len(cells)} settings shown; study.settings has all"
        if len(cells) > len(shown)
        else ""
    )
    return table(_HEAD, rows, caption=cut)
