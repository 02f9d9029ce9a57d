"""A real instruct model on a real engine: SmolLM2-135M-Instruct on vLLM's CPU build."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.engines import need
from support.notebooks import execute
from support.paths import ROOT

import vfnb as vf

sys.path.insert(0, str(ROOT / "scripts"))

import smollm2

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    need(smollm2.is_ready(), "the vLLM environment with SmolLM2", "make smollm2")
    with smollm2.serve() as url:
        yield url
    left = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(smollm2.PYTHON) not in left


class Question(vf.TaskData):
    answer: str


class Asked(vf.Task[Question]):
    @vf.reward
    def contains(self, trace: vf.Trace) -> float:
        return float(self.data.answer in trace.last_reply)


def questions() -> list[Asked]:
    pairs = {
        "What is 2 + 2?": "4",
        "What is the capital of France?": "Paris",
        "What is 2 + 2 in Roman?": "XLII",
    }
    return [Asked(Question(prompt=prompt, answer=answer)) for prompt, answer in pairs.items()]


@pytest.mark.parametrize("runtime", ["inprocess", "subprocess"])
def test_real_answers_rewards_and_usage(base_url: str, tmp_path: Path, runtime: str) -> None:
    run = vf.evaluate(
        questions(),
        model=vf.Relay(smollm2.NAME, base_url=base_url),
        sampling={"temperature": 0, "max_tokens": 40},
        runtime=runtime,
        dir=tmp_path / "run",
    ).wait(quiet=True)
    rewards = run.rewards
    assert list(rewards["contains"]) == [1.0, 1.0, 0.0]
    assert rewards["ok"].all()
    for trace in run.traces:
        (call,) = trace.calls
        assert call.usage is not None
        assert call.served_model == smollm2.NAME
        assert call.finish_reason in {"stop", "length"}
        assert len(trace.task.data["prompt"].split()) < call.usage.prompt_tokens < 100
        assert 1 < call.usage.completion_tokens <= 40
        assert call.end > call.start
    assert vf.load(tmp_path / "run").traces[0].last_reply == run.traces[0].last_reply


def test_a_streaming_program_gets_the_real_stream(base_url: str, tmp_path: Path) -> None:
    @vf.harness
    async def streamed(session: vf.HarnessSession, task: vf.Task) -> str:
        pieces = []
        async with session.openai() as client:
            stream = await client.chat.completions.create(
                model=session.model,
                messages=[{"role": "user", "content": task.data.prompt}],
                stream=True,
                stream_options={"include_usage": True},
            )
            async for chunk in stream:
                pieces += [choice.delta.content or "" for choice in chunk.choices]
        assert len(pieces) > 3
        return "".join(pieces)

    run = vf.evaluate(
        questions()[:2],
        model=vf.Relay(smollm2.NAME, base_url=base_url),
        harness=streamed,
        sampling={"temperature": 0, "max_tokens": 40},
        dir=tmp_path / "run",
    ).wait(quiet=True)
    assert list(run.rewards["contains"]) == [1.0, 1.0]
    for trace in run.traces:
        (call,) = trace.calls
        assert call.stream
        assert call.usage is not None
        assert call.first_token is not None
        assert trace.nodes[-1].text == trace.answer


def test_the_quickstart_runs_on_it(base_url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", base_url)
    monkeypatch.setenv("OPENAI_MODEL", smollm2.NAME)
    notebook = tmp_path / "quickstart.ipynb"
    notebook.write_bytes((ROOT / "notebooks" / "01_quickstart.ipynb").read_bytes())
    outputs = [output for cell in execute(notebook).cells for output in cell.get("outputs", [])]
    text = "\n".join(output.data["text/plain"] for output in outputs if "data" in output)
    assert "48 of 48 finished" in text
    counted = re.search(r"48 turns · ([\d,]+) tokens in, ([\d,]+) out", text)
    assert counted is not None, text
    assert all(int(number.replace(",", "")) > 500 for number in counted.groups())
