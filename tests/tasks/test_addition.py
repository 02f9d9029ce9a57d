"""The built-in addition taskset."""

from __future__ import annotations

import asyncio

import pytest
from vfnb_tasksets.addition import AdditionTaskset

import vfnb as vf


@pytest.mark.parametrize(
    ("reply", "value"), [("4", 1.0), (" 4.\n", 1.0), ("5", 0.0), ("It is 4", 0.0), ("", 0.0)]
)
def test_replies(reply: str, value: float) -> None:
    task = AdditionTaskset(num_tasks=3).resolve()[2]
    trace = vf.Trace(answer=reply)
    assert asyncio.run(task.score(trace)).reward == value
    assert trace.metrics == {"reply_length": float(len(reply))}


def test_tolerance() -> None:
    task = AdditionTaskset({"num_tasks": 3, "task": {"tolerance": 1}}).resolve()[2]
    assert asyncio.run(task.score(vf.Trace(answer="5"))).reward == 1.0


def test_questions_are_built_when_asked_for() -> None:
    first = next(iter(AdditionTaskset(num_tasks=10**9)))
    assert first.data.prompt_text == "What is 0 + 0? Reply with the number only."
