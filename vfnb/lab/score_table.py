"""The stored scores of one version of a run as arrays."""

from __future__ import annotations

from collections import Counter
from typing import Any

import numpy as np

from vfnb.lab.frames import frame
from vfnb.lab.reward_math import Scores, Values
from vfnb.store.reader import RunReader

__all__ = ["SIZES", "score_table"]

SIZES = ("tokens_out", "turns", "time_s")
"""What of a rollout is compared with its rewards, beside metrics."""


def score_table(reader: RunReader, version: int) -> Scores:
    """The rewards and metrics of the rollouts that have a reward in this version."""
    heads = reader.query(
        "SELECT num, id, task_key, rollout, totals.reward, task_name FROM traces JOIN totals ON totals.trace = num "
        "AND totals.version = ? WHERE superseded = 0 AND totals.reward IS NOT NULL ORDER BY num",
        (version,),
    )
    ((planned,),) = reader.query("SELECT count(*) FROM traces WHERE superseded = 0")
    row_of = {head[0]: row for row, head in enumerate(heads)}
    size = len(heads)
    found: dict[tuple[str, str], tuple[Values, Values]] = {}
    for num, kind, name, value, weight in reader.query(
        "SELECT trace, kind, name, value, weight FROM scores WHERE version = ? ORDER BY trace, pos",
        (version,),
    ):
        row = row_of.get(num)
        if row is None:
            continue
        columns = found.get((kind, name))
        if columns is None:
            columns = found[kind, name] = (np.full(size, np.nan), np.full(size, np.nan))
        columns[0][row] = np.nan if value is None else value
        columns[1][row] = np.nan if weight is None else weight
    names = [name for kind, name in found if kind == "reward"]
    pairs = [found["reward", name] for name in names]
    _, ids, tasks, rollouts, reward, titles = zip(*heads, strict=True) if heads else ((),) * 6
    return Scores(
        list(ids),
        list(tasks),
        list(rollouts),
        np.array(reward, np.float64),
        names,
        np.array([_usual(weights) for _, weights in pairs]),
        np.nan_to_num(np.stack([values for values, _ in pairs], 1)) if pairs else np.zeros((size, 0)),
        np.nan_to_num(np.stack([weights for _, weights in pairs], 1)) if pairs else np.zeros((size, 0)),
        {name: values for (kind, name), (values, _) in found.items() if kind == "metric"}
        | _sizes(reader, list(ids)),
        left_out=planned - size,
        titles={key: title for key, title in zip(tasks, titles, strict=True) if title},
    )


def _usual(weights: Values) -> float:
    counts = Counter(weights[~np.isnan(weights)].tolist())
    return float(counts.most_common(1)[0][0]) if counts else 1.0


def _sizes(reader: RunReader, ids: list[Any]) -> dict[str, Values]:
    table = frame(reader, "traces", columns=["trace", *SIZES]).set_index("trace").reindex(ids)
    return {name: table[name].to_numpy(np.float64, na_value=np.nan) for name in SIZES}
