"""Which harnesses there are, and what each of them can do: a table over classes, nothing is started."""

from __future__ import annotations

import inspect
from importlib.metadata import EntryPoint, entry_points
from typing import TYPE_CHECKING, Any

from vfnb.agents.base import Harness
from vfnb.agents.function import harness
from vfnb.agents.loading import GROUP

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["COLUMNS", "catalog", "harnesses"]

COLUMNS = (
    *(
        "name",
        "kind",
        "version",
        "installed",
        "tested",
        "dialects",
        "runtimes",
        "tools",
        "tool_name",
        "resume",
    ),
    *("system_prompt", "images", "skills", "disabled_tools", "max_turns", "tool_interception", "rewrites"),
    *("where", "error"),
)


def harnesses() -> pd.DataFrame:
    """All registered harnesses, third-party ones too, a row each: what it is, and what it supports.

    Columns:
        name: by which it is found.
        kind: `loop` (its own, in this process or as a small program), `program` (someone else's, installed),
            `command` (any) or `function`.
        version, installed: the pinned version, and what is on this machine, None if nothing is.
        tested: its package's tests run it for real.
        dialects, runtimes: the default first.
        tools, tool_name: whether it offers those of the task, and what the model sees them called.
        resume: it can go on with a conversation.
        system_prompt, images, skills, disabled_tools: whether it takes them.
        max_turns: who counts: the `harness`, the `program` or the `server`.
        tool_interception: it asks the task before a tool runs.
        rewrites: what it does to its own history.
        where, error: where it comes from, and why it cannot be loaded.
    """
    import pandas as pd

    rows = catalog()
    columns = {name: [row.get(name) for row in rows] for name in COLUMNS}
    kinds = {
        name: bool if {type(value) for value in values} == {bool} else object
        for name, values in columns.items()
    }
    return pd.DataFrame({name: pd.Series(values, dtype=kinds[name]) for name, values in columns.items()})


def catalog() -> list[dict[str, Any]]:
    """The rows of `harnesses`, by name."""
    points = sorted(entry_points(group=GROUP), key=lambda point: (point.name, point.value))
    return [_row(point) for point in dict.fromkeys(points)]


def _row(point: EntryPoint) -> dict[str, Any]:
    blank = dict.fromkeys(COLUMNS)
    known = {"name": point.name, "where": point.value}
    try:
        found = point.load()
        if callable(found) and not inspect.isclass(found) and not isinstance(found, Harness):
            found = harness(found)
        kind = found if inspect.isclass(found) else type(found)
        if not issubclass(kind, Harness):
            raise TypeError(f"{found!r} is neither a Harness nor a function of (session, task)")
        return {**blank, **kind.described(), **known}
    except (Exception, SystemExit) as error:  # whatever a plug-in does when it is imported
        return {**blank, **known, "error": f"{type(error).__name__}: {error}"}
