"""Advantages against plain numpy, and the samples of a run that carry them."""

from __future__ import annotations

import asyncio
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import assistant
from support.tokenruns import PROMPT, Talk, fork, linear, save

import vfnb as vf
from vfnb.errors import ConfigError, RunNotFinished
from vfnb.exchange import advantages, collect

numbers = st.lists(st.floats(-1e3, 1e3), min_size=2, max_size=20)


@given(numbers)
def test_grpo_is_the_reward_against_the_mean(values: list[float]) -> None:
    found = advantages({"g": values}, "grpo")["g"]
    np.testing.assert_allclose(found, np.array(values) - np.mean(values), rtol=1e-9, atol=1e-9)


@given(numbers)
def test_leave_one_out_is_the_reward_against_the_others(values: list[float]) -> None:
    found = advantages({"g": values}, "leave_one_out")["g"]
    others = [value - np.mean(np.delete(values, place)) for place, value in enumerate(values)]
    np.testing.assert_allclose(found, others, rtol=1e-9, atol=1e-8)


@pytest.mark.parametrize("method", ["grpo", "leave_one_out"])
@pytest.mark.parametrize("value", [0.1, 1 / 3, 0.7])
def test_equal_rewards_and_single_rollouts_have_exactly_none(method: str, value: float) -> None:
    for size in (1, 3, 7):
        assert advantages({"g": [value] * size}, method)["g"] == [0.0] * size  # type: ignore[arg-type]


def test_samples_of_a_run_are_compared_in_their_groups(tmp_path: Path) -> None:
    talks = [
        linear("a", group="one", reward=1.0),
        linear("b", group="one", reward=0.0),
        fork("c", group="one", reward=0.5),
        linear("d", group="two", reward=0.25),
        linear("e", group="two").failed(),
    ]
    run = vf.load(asyncio.run(save(tmp_path / "run", talks)))
    samples = run.samples()
    assert [(s.trace_id, s.group_id, s.task_key, s.advantage) for s in samples] == [
        ("a", "one", "sum", 0.5),
        ("b", "one", "sum", -0.5),
        ("c", "one", "sum", 0.0),
        ("c", "one", "sum", 0.0),
        ("d", "two", "sum", 0.0),
    ]
    assert [(out.trace_id, out.reason) for out in samples.left_out] == [
        ("e", "not ok: error (ToolServerError)")
    ]
    assert "left out: 1 traces (not ok" in repr(samples)
    assert [s.advantage for s in run.samples("leave_one_out")][:2] == [0.75, -0.75]
    assert {s.advantage for s in run.samples(None)} == {None}
    for talk in talks[:4]:
        mine = [s for s in samples if s.trace_id == talk.trace.id]
        for sample, wanted in zip(mine, talk.trace.samples(), strict=True):
            assert np.array_equal(sample.token_ids, wanted.token_ids)
            assert np.array_equal(sample.mask, wanted.mask)
            assert sample.logprobs.tobytes() == wanted.logprobs.tobytes()
    frame = samples.frame()
    assert frame["trained"].tolist() == [int(s.mask.sum()) for s in samples]
    assert frame["weight"].tolist() == [1.0, 1.0, 0.5, 0.5, 1.0]
    assert frame["token_ids"][0].dtype == np.int32


def test_what_may_not_be_trained_is_left_out_with_the_reason() -> None:
    bare = Talk("bare")
    bare.say(PROMPT, assistant("4"), tokens=False)
    dropped = linear("dropped")
    dropped.trace.dropped = "noisy"
    talks = [
        linear("fine"),
        linear("sibling", episode="shared"),
        linear("broken", episode="shared").failed(),
        linear("judge", agent="judge"),
        linear("unscored", reward=None),
        bare,
        dropped,
    ]
    found = collect([talk.trace for talk in talks], agents=["agent"])
    assert [sample.trace_id for sample in found] == ["fine"]
    assert {out.trace_id: out.reason for out in found.left_out} == {
        "sibling": "another trace of its episode is not ok",
        "broken": "not ok: error (ToolServerError)",
        "judge": "role 'judge' is not trained",
        "unscored": "no reward",
        "bare": "no tokens to train",
        "dropped": "dropped",
    }
    assert "unscored" in {sample.trace_id for sample in collect([t.trace for t in talks], advantage=None)}


def test_wrong_use_is_named(tmp_path: Path) -> None:
    run = vf.load(asyncio.run(save(tmp_path / "run", [linear("a")], finished=False)))
    with pytest.raises(RunNotFinished, match="partial=True"):
        run.samples()
    assert len(run.samples(partial=True)) == 1
    with pytest.raises(ConfigError, match="'grpo', 'leave_one_out' or None"):
        run.samples("ppo", partial=True)  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="no trace has the role 'solver'; the run has agent"):
        run.samples(agents=["solver"], partial=True)
