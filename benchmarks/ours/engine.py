"""The embedded engine through `vf.evaluate`, and alone: CPU per sampled token and tokens per second.

    python -m benchmarks.ours.engine [bare]

`bare` asks the engine itself for the same completions of the same prompts, as many at a time.
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile
import time

import vfnb as vf
from vfnb.clients.engines import TokenSampling

TASKS, ROLLOUTS, AT_ONCE, MOST = 32, 8, 32, 48


def questions() -> list[vf.Task]:
    return [vf.Task(vf.TaskData(idx=i, prompt=f"What is {i} + {2 * i}?")) for i in range(TASKS)]


def through() -> tuple[int, float, float]:
    """Tokens, CPU seconds and seconds of a run."""
    settings = {"rollouts": ROLLOUTS, "concurrency": AT_ONCE, "sampling": {"max_tokens": MOST}}
    with tempfile.TemporaryDirectory() as folder:
        cpu, wall = time.process_time(), time.perf_counter()
        run = vf.evaluate(questions(), model=vf.Embedded(), dir=f"{folder}/run", **settings).wait(quiet=True)
        cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
        return int(run.frame("traces")["tokens_out"].sum()), cpu, wall


async def bare() -> tuple[int, float, float]:
    """The same of the engine alone."""
    engine = vf.Embedded()
    tokenizer = engine.tokenizer()
    end = tokenizer.convert_tokens_to_ids("<|im_end|>")
    sampling = TokenSampling(max_tokens=MOST, stop_token_ids=(end,))
    queue = [
        tokenizer.encode_template(
            f"<|im_start|>user\nWhat is {i} + {2 * i}?<|im_end|>\n<|im_start|>assistant\n"
        )
        for i in range(TASKS)
        for _ in range(ROLLOUTS)
    ]
    tokens = 0

    async def worker() -> None:
        nonlocal tokens
        while queue:
            made = await engine.generate(queue.pop(), sampling)
            tokens += len(made.token_ids)

    cpu, wall = time.process_time(), time.perf_counter()
    await asyncio.gather(*(worker() for _ in range(AT_ONCE)))
    spent = time.process_time() - cpu, time.perf_counter() - wall
    await engine.close()
    return tokens, *spent


def main(which: str = "") -> dict[str, float]:
    tokens, cpu, wall = asyncio.run(bare()) if which == "bare" else through()
    return {
        "token_ms": 1000 * cpu / tokens,
        "rollout_ms": 1000 * cpu / TASKS / ROLLOUTS,
        "rate": tokens / wall,
    }


if __name__ == "__main__":
    main(*sys.argv[1:])  # the first run pays for the imports
    print(json.dumps(main(*sys.argv[1:])))
