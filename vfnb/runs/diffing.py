"""`vf.diff`: two traces, branches, runs or configs side by side."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, overload

from pydantic import BaseModel

from vfnb.errors import ConfigError
from vfnb.lab.diff import Diff, diff_configs, diff_nodes
from vfnb.lab.run_diff import RunDiff, diff_runs
from vfnb.lab.scored_by import scored_by, unlike
from vfnb.runs.run import Run
from vfnb.trace import Branch, Trace

__all__ = ["diff"]


@overload
def diff(a: Run, b: Run, *, threshold: float = 1.0) -> RunDiff: ...
@overload
def diff(a: Any, b: Any, *, threshold: float = 1.0) -> Diff: ...
def diff(a: Any, b: Any, *, threshold: float = 1.0) -> Diff:
    """Two traces, branches, runs or configs side by side.

    Messages are aligned by a longest common subsequence over their content: of traces those of the main branch.
    Runs are matched by task key, their rewards compared in pairs.

    Args:
        a: what is on the left.
        b: what is on the right: as `a`, or a branch beside a trace.
        threshold: of runs: the reward at which a rollout passes.

    Raises:
        ConfigError: the two cannot be compared.
    """
    if isinstance(a, Run) and isinstance(b, Run):
        names = _named(a.name, b.name, f"version {a.version}", f"version {b.version}")
        settings = [{key: value for key, value in run.config.items() if key != "dir"} for run in (a, b)]
        config = diff_configs(settings[0], settings[1], names)
        scored = {name: scored_by(run._reader, run.version) for name, run in zip(names, (a, b), strict=True)}
        warning = unlike(scored) if a.dir.resolve() != b.dir.resolve() else ""  # versions are meant to differ
        notes = [warning] if warning else []
        return diff_runs(a._rows(), b._rows(), names, config, threshold=threshold, notes=notes)
    if isinstance(a, Trace | Branch) and isinstance(b, Trace | Branch):
        kind = "traces" if isinstance(a, Trace) and isinstance(b, Trace) else "branches"
        sides = [_line(one) for one in (a, b)]
        notes = [note for one, side in ((a, "left"), (b, "right")) for note in _others(one, side)]
        nodes = [[line.graph.nodes[index] for index in line.path] if line else [] for line in sides]
        return diff_nodes(nodes[0], nodes[1], (_name(a), _name(b)), kind, notes)
    if all(isinstance(one, Mapping | BaseModel) and not isinstance(one, Trace) for one in (a, b)):
        return diff_configs(_values(a), _values(b))
    kinds = " and ".join(type(one).__name__ for one in (a, b))
    raise ConfigError(f"diff cannot compare {kinds}; give two traces, branches, runs or configs")


def _named(a: str, b: str, more_a: str, more_b: str) -> tuple[str, str]:
    return (f"{a} {more_a}", f"{b} {more_b}") if a == b else (a, b)


def _line(one: Trace | Branch) -> Branch | None:
    return one if isinstance(one, Branch) else one.main


def _others(one: Trace | Branch, side: str) -> list[str]:
    if isinstance(one, Branch) or len(one.dag.tips) < 2:
        return []
    return [
        f"the {side} trace has {len(one.dag.tips)} branches; this is its main one (give branches to compare others)"
    ]


def _name(one: Trace | Branch) -> str:
    if isinstance(one, Branch):
        return f"branch {one.id}"
    return f"{one.task.name or one.task.key or one.task.idx} #{one.rollout} ({one.id[:8]})"


def _values(config: Any) -> Mapping[str, Any]:
    return config if isinstance(config, Mapping) else config.model_dump(mode="json")
