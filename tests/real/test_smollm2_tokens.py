"""Exact tokens of a real instruct model: SmolLM2 on vLLM's CPU build, with tools that its template lacks."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.dialect_talks import TALKS, TURNS
from support.engines import need
from support.paths import ROOT
from support.vllm_engine import calls_of, cancelling, lines_hold, running

import vfnb as vf

sys.path.insert(0, str(ROOT / "scripts"))

import smollm2

pytestmark = [pytest.mark.real, pytest.mark.timeout(600)]

LIMIT = 2048
CALL = (
    r'<tool_call>\n\{"name": "calc", "arguments": \{"expr": "[0-9]{1,3} [-+*/] [0-9]{1,3}"\}\}\n</tool_call>'
)
"""What every reply is: so small a model seldom calls a tool by itself. Numbers and sign are its own choice."""
GREEDY: dict[str, Any] = {"temperature": 0, "max_tokens": 60}
GUIDED = GREEDY | {"extra_body": {"structured_outputs": {"regex": CALL}}}


@pytest.fixture(scope="module")
def engine() -> Iterator[vf.VLLM]:
    need(smollm2.is_ready(), "the vLLM environment with SmolLM2", "make smollm2")
    with running(
        vf.VLLM(
            smollm2.model_folder(),
            process=True,
            python=smollm2.PYTHON,
            renderer="hermes",
            max_model_len=LIMIT,
            max_num_seqs=32,
        )
    ) as made:
        yield made


def test_tool_calls_through_every_dialect_are_the_same_tokens(engine: vf.VLLM, tmp_path: Path) -> None:
    task: vf.Task[Any] = vf.Task(vf.TaskData(prompt="What is 3 + 4?"))
    runs = {
        name: vf.evaluate(
            [task], model=engine, harness=vf.harness(talk), sampling=GUIDED, dir=tmp_path / name
        )
        for name, talk in TALKS.items()
    }  # at the same time
    found = {}
    for name, run in runs.items():
        (trace,) = run.wait(quiet=True).traces
        assert not trace.errors, trace.errors
        assert [message.role for message in trace.messages[2:]] == ["assistant", "tool"] * (TURNS - 1) + [
            "assistant"
        ]
        assert [call.name for message in trace.messages[2::2] for call in message.tool_calls] == ["calc"] * 4
        found[name] = calls_of(trace)
        lines_hold(trace)
        assert [branch.cause for branch in trace.branches] == [None]
        (sample,) = trace.samples()
        assert int(sample.mask.sum()) == trace.usage.completion_tokens > 80
    assert found["chat"] == found["responses"] == found["messages"]
    text = engine.tokenizer().decode(found["chat"][-1][0])
    assert text.count("<|im_start|>tool") == TURNS - 1 and '"name": "calc"' in text.partition("<|im_end|>")[0]


def test_32_rollouts_at_once(engine: vf.VLLM, tmp_path: Path) -> None:
    tasks: list[Any] = [vf.Task(vf.TaskData(idx=i, prompt=f"What is {i} + 4?")) for i in range(32)]
    run = vf.evaluate(
        tasks, model=engine, concurrency=32, sampling={"max_tokens": 8}, dir=tmp_path / "run"
    ).wait(quiet=True)
    assert not run.summary.errors
    samples = run.samples(advantage=None)
    assert len(samples) == 32
    assert all(np.isfinite(sample.logprobs).all() and sample.mask.any() for sample in samples)
    check = run.traces[0].verify_tokens(engine)
    assert check.checked == check.tokens > 0 and check.gap is not None and check.gap < 0.1


def test_a_cancelled_call_frees_the_engine(engine: vf.VLLM) -> None:
    seconds, tokens = cancelling(engine, LIMIT - 10)
    assert tokens <= 4 and seconds < 20
