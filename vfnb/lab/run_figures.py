"""`run.plot` and `run.graph`: which figure is made of which numbers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any

from vfnb.errors import ConfigError
from vfnb.lab.cost_figures import plot_against, plot_time
from vfnb.lab.figures import Plot
from vfnb.lab.learning_figure import plot_blocks
from vfnb.lab.prefix_tree import plot_prefix_tree, prefix_tree
from vfnb.lab.reward_figures import plot_pass_at_k, plot_rewards, plot_tasks
from vfnb.lab.rows import Row
from vfnb.lab.schema import nearest

if TYPE_CHECKING:
    import networkx as nx
    import pandas as pd

    from vfnb.trace import Trace

__all__ = ["KINDS", "plot_run", "run_graph"]

KINDS = {
    "rewards": (),
    "tasks": (),
    "pass_at_k": ("threshold",),
    "against": ("x",),
    "time": (),
    "learning": (),
    "graph": ("task",),
}
"""Figures of a run, and the options of each."""


def plot_run(
    kind: str,
    name: str,
    rows: Callable[[], Sequence[Row]],
    frame: Callable[..., pd.DataFrame],
    load: Callable[[Sequence[str]], Iterable[Trace]],
    **options: Any,
) -> Plot:
    """One figure of a run.

    Args:
        kind: one of `KINDS`.
        name: of the run.
        rows: gives its rollouts.
        frame: gives its frames, as `run.frame`.
        load: gives traces by their ids.
        options: of the figure.

    Raises:
        ConfigError: an unknown kind, option or value, or the run has no such numbers.
    """
    if kind not in KINDS:
        raise ConfigError(f"run.plot has no kind {kind!r}; {nearest(kind, list(KINDS))}")
    for option in options:
        if option not in KINDS[kind]:
            known = ", ".join(KINDS[kind]) or "none"
            raise ConfigError(f"run.plot({kind!r}) has no option {option!r}; there are: {known}")
    match kind:
        case "rewards":
            return plot_rewards(rows(), name)
        case "tasks":
            return plot_tasks(rows(), name)
        case "pass_at_k":
            return plot_pass_at_k(rows(), name, **options)
        case "against":
            return plot_against(rows(), name, **options)
        case "learning":
            return plot_blocks(rows(), name)
        case "graph":
            return plot_prefix_tree(run_graph(rows(), load, **options), name)
    return _time(name, rows(), frame)


def _time(name: str, rows: Sequence[Row], frame: Callable[..., pd.DataFrame]) -> Plot:
    wanted = ["trace", "task", "boot_s", "setup_s", "agent_s", "finalize_s", "scoring_s"]
    return plot_time(
        frame("traces", columns=wanted, where="superseded = 0 AND state <> 'running'"),
        frame("calls", columns=["trace", "started", "time_s", "reply_node"]),
        frame("messages", columns=["trace", "node", "tool_calls"], where="sampled = 1"),
        name,
        {row.task: row.name or row.task for row in rows},
    )


def run_graph(
    rows: Sequence[Row], load: Callable[[Sequence[str]], Iterable[Trace]], task: int | str | None = None
) -> nx.DiGraph:
    """The traces of one task as one tree; see `prefix_tree`.

    Args:
        rows: the rollouts of the run.
        load: gives traces by their ids.
        task: position of the task in the run, or its key; the first one by default.

    Raises:
        ConfigError: the run has no such task.
    """
    ordered = sorted(rows, key=lambda row: (row.idx is None, row.idx or 0))
    keys = list(dict.fromkeys(row.task for row in ordered))
    key = task if isinstance(task, str) else dict(enumerate(keys)).get(task or 0)
    if key not in keys and not (task is None and not keys):
        raise ConfigError(f"no task {task!r} in this run; there are {len(keys)}: {', '.join(keys[:5])}")
    mine = [row.trace for row in ordered if row.task == key and row.trace]
    name = next((row.name for row in ordered if row.task == key and row.name), "")
    return prefix_tree(load(mine), key or "", name)
