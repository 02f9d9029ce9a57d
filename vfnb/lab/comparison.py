"""Several runs of one taskset side by side: a row per harness, per harness and task, or per rollout."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import pandas as pd

from vfnb.lab.frames import frame
from vfnb.lab.intervals import estimate
from vfnb.store.reader import RunReader
from vfnb.trace.causes import CAUSES

__all__ = ["LEVELS", "compared", "rollout_table"]

LEVELS = ("harness", "task", "rollout")
_FORKS = [f"fork_{cause}" for cause in CAUSES]
_OWN = (
    "task",
    "task_name",
    "rollout",
    "trace",
    "state",
    "ok",
    "stop",
    "error",
    "reward",
    "turns",
    "tokens_in",
    "tokens_out",
)
_COUNTS = ("tool_calls", "branches", *_FORKS)
_TIMES = ("time_s", "model_s", "harness_s")
_MEANS = ("turns", "tokens_in", "tokens_out", "tool_calls", "branches", "rewrites", *_TIMES)


def rollout_table(reader: RunReader) -> pd.DataFrame:
    """A row per rollout of one run that has ended: how it went, what it used, why it branched, where its time went.

    `model_s` is the time in which at least one model call was under way, `harness_s` the rest of the agent stage;
    `tool_calls` are those that the model asked for; `rewrites` the branches that exist because the program changed
    its own history.
    """
    wanted = [*_OWN, "cost", "time_s", "agent_s"]
    found = frame(reader, "traces", columns=wanted, where="superseded = 0 AND state <> 'running'")
    found = found.set_index("trace", drop=False)
    branches = frame(reader, "branches", columns=["trace", "cause"])
    messages = frame(reader, "messages", columns=["trace", "tool_calls"], where="sampled = 1")
    calls = frame(reader, "calls", columns=["trace", "started", "time_s"])
    found["tool_calls"] = messages.groupby("trace")["tool_calls"].sum()
    found["branches"] = branches.groupby("trace").size()
    causes = branches.groupby(["trace", "cause"]).size()
    for cause, column in zip(CAUSES, _FORKS, strict=True):
        there = cause in causes.index.get_level_values("cause")
        found[column] = causes.xs(cause, level="cause") if there else 0
    for column in _COUNTS:
        found[column] = found[column].fillna(0).astype("Int64")
    found["rewrites"] = found["fork_history_edited"]
    busy = {trace: _covered(part) for trace, part in calls.groupby("trace")}
    found["model_s"] = pd.Series(busy, dtype="Float64").reindex(found.index).fillna(0.0)
    found["harness_s"] = (found["agent_s"] - found["model_s"]).clip(lower=0)
    columns = [*_OWN, "tool_calls", "branches", "rewrites", *_FORKS, "cost", *_TIMES]
    return found.sort_values(["task", "rollout"])[columns].reset_index(drop=True)


def _covered(calls: pd.DataFrame) -> float:
    """Seconds in which at least one of some calls was under way."""
    starts = calls["started"].astype("int64") / 1e9
    spans = sorted(zip(starts, starts + calls["time_s"].fillna(0.0), strict=True))
    total, until = 0.0, float("-inf")
    for start, end in spans:
        total += max(0.0, end - max(start, until))
        until = max(until, end)
    return total


def compared(tables: Mapping[str, pd.DataFrame], planned: Mapping[str, int], level: str) -> pd.DataFrame:
    """The rollout tables of several harnesses as one frame.

    Args:
        tables: `rollout_table` by harness, in order.
        planned: rollouts planned, by harness.
        level: `harness`, `task` or `rollout`.

    Returns:
        For `rollout`, the tables with a column `harness` in front. Else, per harness (and task): `n` rollouts
        planned (per task: ended), `scored`, `errors`, `reward` (mean over the scored) with `reward_se`,
        `reward_low`, `reward_high` (95 %, clustered by task); means per rollout that ended in order of `turns`,
        `tokens_in`, `tokens_out`, `tool_calls`, `branches`, `rewrites`, `time_s`, `model_s`, `harness_s`; sums of
        `fork_<cause>` and `cost` (US dollars).
    """
    every = [table.assign(harness=name) for name, table in tables.items()]
    if level == "rollout":
        whole = pd.concat(every, ignore_index=True)
        return whole[["harness", *(name for name in whole.columns if name != "harness")]]
    rows: list[dict[str, Any]] = []
    for name, table in tables.items():
        if level == "harness":
            rows.append({"harness": name, **_row(table, planned[name])})
        else:
            rows += [
                {
                    "harness": name,
                    "task": task,
                    "task_name": part["task_name"].iloc[0],
                    **_row(part, len(part)),
                }
                for task, part in table.groupby("task", sort=False)
            ]
    head = ["harness"] if level == "harness" else ["harness", "task", "task_name"]
    return pd.DataFrame(rows, columns=[*head, *_columns()])


def _columns() -> Sequence[str]:
    reward = ("reward", "reward_se", "reward_low", "reward_high")
    return ("n", "scored", "errors", *reward, *_MEANS, *_FORKS, "cost")


def _row(table: pd.DataFrame, n: int) -> dict[str, Any]:
    scored = table[table["reward"].notna()]
    reward = estimate([float(value) for value in scored["reward"]], list(scored["task"]))
    fine = table[table["ok"].fillna(value=False)]
    return {
        "n": n,
        "scored": len(scored),
        "errors": int((table["state"] == "error").sum()),
        "reward": reward.mean,
        "reward_se": reward.se,
        "reward_low": reward.low,
        "reward_high": reward.high,
        **{name: _mean(fine[name]) for name in _MEANS},
        **{name: int(table[name].sum()) for name in _FORKS},
        "cost": float(table["cost"].sum()) if table["cost"].notna().any() else None,
    }


def _mean(values: Iterable[Any]) -> float | None:
    known = [float(value) for value in values if not pd.isna(value)]
    return sum(known) / len(known) if known else None
