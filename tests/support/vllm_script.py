"""vLLM in this very process; run by the Python that has it. Prints what it found as JSON on its last line.

python vllm_script.py MODEL FOLDER
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import vfnb as vf
from support.adapters import write_adapter
from vfnb.clients.engines import TokenSampling
from vfnb.clients.engines.weights import read_folder, write_safetensors
from vfnb.runtimes.warden import current


class Sum(vf.TaskData):
    answer: int


class Calculator(vf.Toolset):
    @vf.tool
    def calc(self, expr: str) -> str:
        """Compute an arithmetic expression."""
        found = re.fullmatch(r"(\d+)\+(\d+)", expr)
        return str(int(found[1]) + int(found[2])) if found else "no sum"


class SumTask(vf.Task[Sum]):
    @classmethod
    def toolsets(cls, config: vf.TaskConfig) -> list[vf.Toolset]:
        return [Calculator()]

    @vf.reward
    def right(self, trace: vf.Trace) -> float:
        return float(str(self.data.answer) in trace.last_reply)


def tasks() -> list[SumTask]:
    pairs = [(3, 4), (12, 30), (7, 7), (25, 41)]
    return [SumTask(Sum(idx=i, prompt=f"What is {a} + {b}?", answer=a + b)) for i, (a, b) in enumerate(pairs)]


def children() -> int:
    """Processes that this one has started, but for the warden and the question."""
    command = ["ps", "-o", "pid=", "--ppid", str(os.getpid())]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as asked:
        assert asked.stdout is not None
        return len([pid for pid in asked.stdout.read().split() if int(pid) not in (asked.pid, current().pid)])


def rollouts(engine: vf.VLLM, folder: Path, found: dict[str, Any]) -> None:
    begin = time.monotonic()
    run = vf.evaluate(
        tasks(), model=engine, rollouts=8, concurrency=32, dir=folder / "run", limits={"max_turns": 6}
    ).wait(quiet=True)
    found["seconds"] = time.monotonic() - begin
    found["errors"] = len(run.summary.errors)
    found["mean"] = float(run.rewards["reward"].mean())
    found["called"] = sum(len(trace.calls) > 1 for trace in run.traces)
    found["forks"] = sorted(
        {str(branch.cause and branch.cause.cause) for t in run.traces for branch in t.branches}
    )
    found["exact"] = all(
        sum(int(sample.mask.sum()) for sample in trace.samples()) == trace.usage.completion_tokens
        for trace in run.traces
    )
    checks = [trace.verify_tokens(engine) for trace in run.traces]
    found["own_gap"] = max(check.gap or 0.0 for check in checks)
    found["checked"] = all(check.checked == check.tokens > 0 for check in checks)
    embedded = vf.Embedded()
    found["embedded_gap"] = max(trace.verify_tokens(embedded).gap or 0.0 for trace in run.traces)
    again = vf.evaluate(
        tasks(), model=engine, rollouts=8, concurrency=32, dir=folder / "run", limits={"max_turns": 6}
    ).wait(quiet=True)
    found["reused"] = again.summary.reused


async def alone(engine: vf.VLLM, folder: Path, found: dict[str, Any]) -> None:
    """Cancelling, seeds, other weights, an adapter."""
    tokenizer = engine.tokenizer()
    ids = tokenizer.encode_template("<|im_start|>user\nWhat is 3 + 4?<|im_end|>\n<|im_start|>assistant\n")
    greedy = TokenSampling(max_tokens=60, temperature=0, stop_token_ids=(tokenizer.eos_token_id,))
    task = asyncio.ensure_future(
        engine.generate(ids, TokenSampling(max_tokens=3000, extra={"ignore_eos": True}))
    )
    await asyncio.sleep(0.5)
    task.cancel()
    await asyncio.wait([task])
    first = await engine.generate(ids, greedy)
    found["left"] = engine._backend._engine.get_num_unfinished_requests()  # type: ignore[union-attr]
    # more prompt tokens than a step takes, and a seed each: what ends the engine where prefills are chunked
    prompts = np.random.default_rng(0).integers(0, 700, (32, 300)).tolist()
    twice = [
        await asyncio.gather(
            *(engine.generate(p, TokenSampling(max_tokens=8, seed=i)) for i, p in enumerate(prompts))
        )
        for _ in range(2)
    ]
    found["seeded"] = sum(np.array_equal(a.token_ids, b.token_ids) for a, b in zip(*twice, strict=True))
    names = [engine.identity()]
    write_adapter(folder / "lora", Path(sys.argv[1]))
    await engine.load_lora("mine", folder / "lora")
    names.append(engine.identity())
    found["lora_changes"] = gap(first, await engine.generate(ids, greedy))
    await engine.unload_lora()
    found["lora_leaves"] = gap(first, await engine.generate(ids, greedy))
    _, weights = read_folder(Path(sys.argv[1]))
    other = folder / "other"
    other.mkdir()
    for name in ("config.json", "tokenizer.json", "tokenizer_config.json"):
        (other / name).write_bytes((Path(sys.argv[1]) / name).read_bytes())
    random = np.random.default_rng(0)
    noisy = {
        name: array + random.normal(size=array.shape) * array.std() * 0.3 for name, array in weights.items()
    }
    write_safetensors(other / "model.safetensors", noisy)
    before = await engine.score(ids)
    await engine.update_weights(other)
    names.append(engine.identity())
    changed = await engine.generate(ids, greedy)
    found["weights_change"] = float(np.abs(before - await engine.score(ids)).max())
    embedded = vf.Embedded(other)
    scores = await embedded.score([*ids, *changed.token_ids.tolist()])
    found["new_weights_gap"] = float(np.abs(scores[len(ids) :] - changed.logprobs).max())
    found["names"] = len({json.dumps(name) for name in names})


def gap(a: Any, b: Any) -> float:
    """How far the first token's log-probabilities are apart; 9 if it is another token."""
    return abs(float(a.logprobs[0] - b.logprobs[0])) if a.token_ids[0] == b.token_ids[0] else 9.0


def main() -> None:
    folder = Path(sys.argv[2])
    found: dict[str, Any] = {}
    said: list[str] = []
    begin = time.monotonic()
    with vf.VLLM(
        sys.argv[1], dtype="float32", max_model_len=4096, max_num_seqs=32, enable_lora=True, max_lora_rank=8
    ) as engine:
        asyncio.run(engine.start(said.append))
        found["loading"] = time.monotonic() - begin
        found["said"] = said
        rollouts(engine, folder, found)
        found["children"] = children()
        asyncio.run(alone(engine, folder, found))
    found["threads"] = [t.name for t in __import__("threading").enumerate() if "vllm" in t.name]
    print(json.dumps(found))


if __name__ == "__main__":
    main()
