"""Advantages: how much better a rollout did than the others of its group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import mean
from typing import Literal

from vfnb.errors import ConfigError

__all__ = ["METHODS", "Advantage", "advantages"]

Advantage = Literal["grpo", "leave_one_out"]
METHODS = ("grpo", "leave_one_out")


def advantages(rewards: Mapping[str, Sequence[float]], method: Advantage) -> dict[str, list[float]]:
    """The advantage of each reward, by group.

    `grpo`: reward minus the mean of its group. This is the group baseline of GRPO (Shao et al. 2024,
    arXiv:2402.03300, section 4.1) without the division by the standard deviation, as Dr. GRPO has it (Liu et al.
    2025, arXiv:2503.20783, section 3.2) and as prime-rl computes it.

    `leave_one_out`: reward minus the mean of the *others* of its group, `n / (n - 1)` times the former (RLOO;
    Kool et al. 2019; Ahmadian et al. 2024, arXiv:2402.14740, section 2.2).

    A group of one has nothing to be compared with: 0.0 in both. Means are exact before they are rounded once, so
    that equal rewards give 0.0 exactly.

    Raises:
        ConfigError: another method.
    """
    if method not in METHODS:
        raise ConfigError(f"advantage={method!r} is unknown; give 'grpo', 'leave_one_out' or None")
    return {group: _against_mean(list(map(float, values)), method) for group, values in rewards.items()}


def _against_mean(values: list[float], method: Advantage) -> list[float]:
    if len(values) < 2:
        return [0.0] * len(values)
    baseline = mean(values)
    scale = len(values) / (len(values) - 1) if method == "leave_one_out" else 1.0
    return [(value - baseline) * scale for value in values]
