"""Real vLLM on the CPU with the embedded model's weights: as a child process, and inside a process of its own."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.adapters import merged, write_adapter
from support.dialect_talks import TALKS, TURNS
from support.engines import need
from support.paths import ROOT
from support.vllm_engine import calls_of, cancelling, lines_hold, running, shared

import vfnb as vf
from vfnb.clients.engines.embedded import MODEL
from vfnb.runtimes import strays

sys.path.insert(0, str(ROOT / "scripts"))

import smollm2

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]

BF16 = 0.1
"""Nats between bfloat16 and float32 on tokens that were sampled; 0.02 on average."""
LIMIT = 32768
TALK = "<|im_start|>user\nWhat is 3 + 4?<|im_end|>\n<|im_start|>assistant\nThe answer is 7.<|im_end|>\n"


def long_model(folder: Path) -> Path:
    """The embedded model with a context that holds the prompts of coding agents; the weights are the same."""
    folder.mkdir()
    for file in MODEL.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    config = json.loads((folder / "config.json").read_text()) | {"max_position_embeddings": LIMIT}
    (folder / "config.json").write_text(json.dumps(config))
    return folder


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[vf.VLLM]:
    need(smollm2.is_ready(), "the vLLM environment", "make smollm2")
    model = long_model(tmp_path_factory.mktemp("model") / "tiny")
    settings = {"max_model_len": LIMIT, "max_num_seqs": 32, "enable_lora": True, "max_lora_rank": 8}
    with running(vf.VLLM(model, process=True, python=smollm2.PYTHON, **settings)) as made:
        yield made


def one(harness: Any, engine: vf.VLLM, folder: Path, **keys: Any) -> vf.Trace:
    task: vf.Task[Any] = vf.Task(vf.TaskData(prompt="What is 3 + 4?"))
    run = vf.evaluate([task], model=engine, harness=harness, dir=folder, **keys).wait(quiet=True)
    trace: vf.Trace = run.traces[0]
    assert not [error for error in trace.errors if "max_output_tokens" not in error.message], trace.errors
    return trace


def test_every_dialect_gets_the_same_tokens_and_each_prompt_goes_on(engine: vf.VLLM, tmp_path: Path) -> None:
    found = {}
    for name, talk in TALKS.items():
        trace = one(vf.harness(talk), engine, tmp_path / name, sampling={"temperature": 0})
        assert len(trace.calls) == TURNS
        lines_hold(trace)
        found[name] = calls_of(trace)
        assert any(message.role == "tool" for message in trace.messages)
        own = trace.verify_tokens(engine)
        assert own.checked == own.tokens and own.gap is not None and own.gap < 0.05
        other = trace.verify_tokens(vf.Embedded())
        assert other.checked == other.tokens and other.gap is not None and other.gap < BF16
        assert max(call.mean_gap or 0 for call in other.calls) < 0.02
    assert found["chat"] == found["responses"] == found["messages"]


def test_32_rollouts_at_once(engine: vf.VLLM, tmp_path: Path) -> None:
    tasks: list[Any] = [vf.Task(vf.TaskData(idx=i, prompt=f"What is {i} + 4?")) for i in range(32)]
    run = vf.evaluate(tasks, model=engine, concurrency=32, dir=tmp_path / "run").wait(quiet=True)
    assert not run.summary.errors
    samples = run.samples(advantage=None)
    assert len(samples) == 32
    for sample in samples:
        assert np.isfinite(sample.logprobs).all() and sample.mask.any()


def test_a_cancelled_call_frees_the_engine(engine: vf.VLLM) -> None:
    seconds, tokens = cancelling(engine, 30000)
    assert tokens <= 4 and seconds < 20


def test_weights_are_changed_in_the_server(engine: vf.VLLM, tmp_path: Path) -> None:
    from vfnb.clients.engines.weights import read_folder, write_safetensors

    other = long_model(tmp_path / "other")
    random = np.random.default_rng(0)
    noisy = {
        name: array + random.normal(size=array.shape) * array.std() * 0.3
        for name, array in read_folder(MODEL)[1].items()
    }
    write_safetensors(other / "model.safetensors", noisy)
    ids = list(range(100, 160))

    async def steps() -> list[Any]:
        before, name = await engine.score(ids), engine.identity()
        await engine.update_weights(other)
        changed, second = await engine.score(ids), engine.identity()
        await engine.update_weights(MODEL)
        return [before, changed, await engine.score(ids), name, second, engine.identity()]

    before, changed, back, name, second, third = asyncio.run(steps())
    expected = asyncio.run(vf.Embedded(other).score(ids))
    assert np.abs(changed - expected).mean() < 0.05 < 1.0 < np.abs(changed - before).mean()
    np.testing.assert_array_equal(before, back)
    assert name != second and third["weights"] != second["weights"]


def test_adapters_are_loaded_replaced_and_taken_away_in_the_server(engine: vf.VLLM, tmp_path: Path) -> None:
    ids = engine.tokenizer().encode_template(TALK)
    adapters = [write_adapter(tmp_path / f"lora{seed}", MODEL, seed) for seed in (1, 2)]

    async def steps() -> tuple[list[Any], list[Any]]:
        scores, names = [await engine.score(ids)], [engine.identity()]
        for name, adapter in [("mine", adapters[0]), ("mine", adapters[1]), ("other", adapters[0])]:
            await engine.load_lora(name, adapter)
            scores.append(await engine.score(ids))
            names.append(engine.identity())
        await engine.unload_lora()
        return [*scores, await engine.score(ids)], [*names, engine.identity()]

    (plain, first, second, third, after), names = asyncio.run(steps())
    for scores, adapter in [(first, adapters[0]), (second, adapters[1])]:
        expected = asyncio.run(vf.Embedded(merged(tmp_path / adapter.name[-1], MODEL, adapter)).score(ids))
        assert np.abs(scores - expected).mean() < BF16 < 1 < np.abs(scores - plain).mean()
    np.testing.assert_array_equal(first, third)
    np.testing.assert_array_equal(plain, after)
    assert len({json.dumps(name) for name in names}) == 4 and names[0] == names[-1]


@pytest.mark.parametrize("program", ["pi", "codex"])
def test_agent_programs_run_on_it_and_leave_exact_tokens(
    program: str, engine: vf.VLLM, tmp_path: Path
) -> None:
    trace = one(
        program,
        engine,
        tmp_path / "run",
        runtime="subprocess",
        sampling={"max_tokens": 200, "temperature": 0.3},
        limits={"max_turns": 4},
    )
    assert trace.calls  # Codex takes a reply that was cut for an error, and this small model seldom ends one
    assert sum(int(sample.mask.sum()) for sample in trace.samples()) == trace.usage.completion_tokens > 0
    lines_hold(trace)


def test_in_this_process(tmp_path: Path) -> None:
    need(smollm2.is_ready(), "the vLLM environment", "make smollm2")
    paths = os.pathsep.join(str(ROOT / folder) for folder in ("", "harnesses", "tasksets", "tests"))
    done = subprocess.run(
        [smollm2.PYTHON, ROOT / "tests/support/vllm_script.py", MODEL, tmp_path],
        env=os.environ | {"PYTHONPATH": paths, "OMP_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    found = json.loads(done.stdout.splitlines()[-1])
    assert {"vLLM tiny: importing vLLM", "vLLM tiny: warming up"} < set(found["said"])
    assert (found["errors"], found["reused"], found["children"], found["left"]) == (0, 32, 0, 0)
    assert found["exact"] and found["checked"] and found["called"] > 8 and 0.1 < found["mean"] < 1
    assert found["forks"] == ["None"]
    assert found["own_gap"] < 1e-3 and found["embedded_gap"] < 1e-3
    assert found["seeded"] == 32
    assert found["lora_changes"] > 1e-3 > found["lora_leaves"]
    assert found["weights_change"] > 1e-3 > found["new_weights_gap"]
    assert found["names"] == 3 and found["threads"] == []


def test_a_killed_owner_leaves_nothing(tmp_path: Path) -> None:
    need(smollm2.is_ready(), "the vLLM environment", "make smollm2")
    shm = shared()
    code = (
        "import asyncio, sys, vfnb as vf\n"
        f"engine = vf.VLLM({str(MODEL)!r}, process=True, python={str(smollm2.PYTHON)!r}, max_model_len=2048)\n"
        "asyncio.run(engine.start())\n"
        "print(engine.pid, engine._live.child._folder, flush=True)\n"
        "sys.stdin.read()\n"
    )
    owner = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert owner.stdout is not None and owner.stdin is not None
    pid, folder = owner.stdout.readline().split()
    members = strays.find_processes("VFNB_OWNER=", [int(pid)])
    assert len(members) >= 3 and Path(folder).is_dir()
    owner.send_signal(signal.SIGKILL)
    owner.wait()
    deadline = time.monotonic() + 15
    while time.monotonic() < deadline and (
        strays.find_processes("VFNB_OWNER=", [int(pid)]) or Path(folder).exists() or shared() - shm
    ):
        time.sleep(0.1)
    owner.stdin.close()
    owner.stdout.close()
    assert not strays.find_processes("VFNB_OWNER=", [int(pid)])
    assert not Path(folder).exists()
    assert shared() - shm == set()
