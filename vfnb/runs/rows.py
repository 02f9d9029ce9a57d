"""The rollouts of a stored run as plain records."""

from __future__ import annotations

from msgspec import structs

from vfnb.lab.rows import Row
from vfnb.store import RunReader

__all__ = ["stored_rows"]


def stored_rows(reader: RunReader, version: int | None = None) -> list[Row]:
    """One record per stored rollout with the scores of a version (the newest by default), without its messages."""
    chosen = reader.newest() if version is None else version
    scores = {row.trace: row for row in reader.scores(chosen)}
    ended = None if reader.unfinished_state == "running" else "cancelled"  # of a process that died
    rows = []
    for head in reader.heads("superseded = 0", version=chosen):
        score = scores.get(head.id)
        failed = head.state == "error"
        if score is not None and score.error is not None and not failed:  # scored anew, in vain
            head = structs.replace(
                head, state="error", error="ScoringError", error_boundary="scoring", error_message=score.error
            )
            failed = True
        rows.append(
            Row(
                task=head.task_key,
                idx=head.task_idx,
                name=head.task_name or "",
                trace=head.id,
                rollout=head.rollout,
                reward=head.reward if not failed else None,
                ok=head.ok,
                end_state=ended if head.state == "running" else head.state,
                stop=head.stop,
                error=head.error if failed else None,
                boundary=head.error_boundary or "",
                message=head.error_message or "",
                skipped=not failed and head.reward == 0.0 and score is not None and not score.rewards,
                rewards={name: value for name, (value, _) in score.rewards.items()} if score else {},
                weights={name: weight for name, (_, weight) in score.rewards.items()} if score else {},
                metrics=score.metrics if score else {},
                turns=head.turns or 0,
                tokens_in=head.prompt_tokens or 0,
                tokens_out=head.completion_tokens or 0,
                cost=head.cost,
                time_s=head.ended - head.started if head.ended and head.started else None,
            )
        )
    return rows
