"""Inspect's scores as rewards. It has no sum: the first scorer's value is the reward, the others weigh 0."""

from __future__ import annotations

import math
from typing import Any

from vfnb.exchange.imports.build import Lost
from vfnb.exchange.imports.fields import BadField
from vfnb.trace import Reward, Trace

__all__ = ["take_scores"]

_WORDS = {"C": 1.0, "P": 0.5, "I": 0.0, "N": 0.0, "yes": 1.0, "true": 1.0, "no": 0.0, "false": 0.0}
"""As Inspect's own `value_to_float` has them."""


def take_scores(trace: Trace, scores: dict[str, Any], lost: Lost) -> None:
    """Put the scores of a sample on its trace; answers and explanations go to `info["scores"]`.

    Raises:
        BadField: a score is no object.
    """
    for name, score in scores.items():
        if not isinstance(score, dict):
            raise BadField(f"scores.{name}", "is no object")
        value = score.get("value")
        parts = (
            {f"{name}.{key}": part for key, part in value.items()}
            if isinstance(value, dict)
            else {name: value}
        )
        for part, given in parts.items():
            number = _number(given)
            if number is None:
                trace.metrics[part] = None
                lost.add("scores that are no numbers (kept in info)")
            else:
                trace.rewards[part] = Reward(value=number, weight=0.0 if trace.rewards else 1.0)
    if scores:
        trace.info["scores"] = scores


def _number(value: Any) -> float | None:
    if isinstance(value, int | float):
        return float(value) if math.isfinite(value) else None
    if isinstance(value, str):
        if value in _WORDS or value.lower() in _WORDS:
            return _WORDS.get(value, _WORDS.get(value.lower()))
        try:
            number = float(value)
        except ValueError:
            return None
        return number if math.isfinite(number) else None
    return None
