"""The whole road with the embedded model: a taskset with a tool, a run, its samples, other weights, another run."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

import vfnb as vf


class Sum(vf.TaskData):
    answer: int


class Calculator(vf.Toolset):
    @vf.tool
    def calc(self, expr: str) -> str:
        """Compute an arithmetic expression."""
        if not re.fullmatch(r"[-+*0-9]{1,20}", expr):
            raise vf.ToolError("not an expression")
        a, op, b = re.fullmatch(r"(-?\d+)([-+*])(-?\d+)", expr).groups()  # type: ignore[union-attr]
        return str({"+": int(a) + int(b), "-": int(a) - int(b), "*": int(a) * int(b)}[op])


class SumTask(vf.Task[Sum]):
    @classmethod
    def toolsets(cls, config: vf.TaskConfig) -> list[vf.Toolset]:
        return [Calculator()]

    @vf.reward
    def right(self, trace: vf.Trace) -> float:
        return float(str(self.data.answer) in (trace.last_reply or ""))


def tasks() -> list[SumTask]:
    pairs = [(3, 4), (12, 30), (7, 7), (25, 41)]
    return [SumTask(Sum(idx=i, prompt=f"What is {a} + {b}?", answer=a + b)) for i, (a, b) in enumerate(pairs)]


def test_a_run_with_tools_has_exact_samples_and_learns_nothing_by_chance(tmp_path: Path) -> None:
    engine = vf.Embedded()
    run = vf.evaluate(tasks(), model=engine, rollouts=4, dir=tmp_path / "a", limits={"max_turns": 6}).wait(
        quiet=True
    )
    assert not run.summary.errors
    assert 0.2 < run.rewards["reward"].mean() < 1.0
    called = [trace for trace in run.traces if len(trace.calls) > 1]
    assert len(called) > 8
    for trace in run.traces:
        samples = trace.samples()
        assert sum(int(sample.mask.sum()) for sample in samples) == trace.usage.completion_tokens
        for sample in samples:
            assert np.isfinite(sample.logprobs).all() and (sample.logprobs <= 0).all()
    again = vf.evaluate(tasks(), model=vf.Embedded(), rollouts=4, dir=tmp_path / "a", limits={"max_turns": 6})
    assert again.wait(quiet=True).summary.reused == 16
    engine.load({name: array * 1.01 for name, array in engine.network.weights.items()})
    other = vf.evaluate(tasks(), model=engine, rollouts=4, dir=tmp_path / "a", limits={"max_turns": 6})
    assert other.wait(quiet=True).summary.reused == 0


def test_the_samples_are_those_that_the_engine_scores(tmp_path: Path) -> None:
    import asyncio

    engine = vf.Embedded()
    run = vf.evaluate(tasks(), model=engine, rollouts=2, dir=tmp_path, limits={"max_turns": 6}).wait(
        quiet=True
    )
    for trace in run.traces:
        for sample in trace.samples():
            scores = asyncio.run(engine.score(sample.token_ids))
            np.testing.assert_allclose(scores[sample.mask], sample.logprobs[sample.mask], atol=2e-3)
    asyncio.run(engine.close())
