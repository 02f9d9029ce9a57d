"""Rows and run snapshots for display tests."""

from __future__ import annotations

from vfnb.lab.rows import Row
from vfnb.lab.stats import summarise
from vfnb.lab.views import RunView

HOSTILE = '<script>alert(1)</script>\x1b[31m \u202e https://example.test/?a=1&b="2" <img src=x onerror=y>'


def rows(tasks: int = 4, rollouts: int = 4) -> list[Row]:
    """Half of the rollouts pass; the last one of each task ends in an error."""
    found = []
    for task in range(tasks):
        for rollout in range(rollouts):
            failed = rollout == rollouts - 1
            found.append(
                Row(
                    task=f"t{task}",
                    name=f"task {task}",
                    trace=f"{task}-{rollout}",
                    rollout=rollout,
                    reward=None if failed else float((task + rollout) % 2),
                    ok=not failed,
                    end_state="error" if failed else "completed",
                    error="UpstreamConnection" if failed else None,
                    boundary="model" if failed else "",
                    message="cannot connect to 127.0.0.1:1; start the server" if failed else "",
                    rewards={} if failed else {"exact": float((task + rollout) % 2)},
                    weights={} if failed else {"exact": 1.0},
                    metrics={"length": None if failed else 3.0 + rollout},
                    turns=1,
                    tokens_in=100,
                    tokens_out=10,
                    cost=0.001,
                    time_s=0.5,
                )
            )
    return found


def view(done: int = 16, total: int = 16, **fields: object) -> RunView:
    """A run of `total` rollouts of which `done` ended."""
    some = rows()[:done]
    given: dict[str, object] = {
        "name": "sums-1234",
        "total": total,
        "done": done,
        "failed": sum(row.outcome == "error" for row in some),
        "state": "finished" if done >= total else "running",
        "summary": summarise(some, planned=total),
        "rows": some,
        "rows_total": len(some),
        "taskset": "Sums",
        "model": "scripted",
        "harness": "null",
        "dir": "runs/sums-1234",
        "elapsed_s": 12.0,
    }
    return RunView(**{**given, **fields})  # type: ignore[arg-type]
