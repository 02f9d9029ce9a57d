"""The adapter of Reasoning Gym, with the library itself and without it."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.examples import replies, solve
from vfnb_tasksets.reasoning_gym import ReasoningGymTaskset, _generator

from vfnb.errors import MissingExtra, TasksetError


def test_entries_are_scored_by_the_library(tmp_path: Path) -> None:
    taskset = ReasoningGymTaskset(num_tasks=3, params={"min_terms": 2, "max_terms": 2})
    gold = [entry["answer"] for entry in _generator("chain_sum", 0, 3, '{"max_terms": 2, "min_terms": 2}')]
    model = replies(taskset, f"It is <answer>{gold[0]}</answer>", gold[1], "<answer>nothing</answer>")
    first, second, third = solve(taskset, model, tmp_path)
    assert (first.reward, second.reward) == (1.0, 1.0)
    assert third.reward is not None and third.reward < 0.1


def test_wrong_names_and_settings_say_so() -> None:
    with pytest.raises(TasksetError, match="cannot make dataset 'chain_sun'"):
        ReasoningGymTaskset(dataset="chain_sun").resolve()
    with pytest.raises(TasksetError, match=r"cannot make dataset 'chain_sum'.*max_term"):
        ReasoningGymTaskset(params={"max_term": 3}).resolve()


def test_without_the_library_the_command_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "reasoning_gym", None)
    with pytest.raises(MissingExtra, match=r"pip install 'vfnb\[reasoning-gym\]'"):
        ReasoningGymTaskset(seed=12345).resolve()
