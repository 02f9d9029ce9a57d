"""A whole run of the addition tasks with the null harness, stored.

    python -m benchmarks.ours.rollouts UPSTREAM ROLLOUTS CONCURRENCY inprocess|subprocess

Prints the wall time of the run, the memory at its start and its peak.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time

import vfnb as vf
from benchmarks.processes import peak_mb, rss_mb


class Sum(vf.TaskData):
    answer: int


class SumTask(vf.Task[Sum]):
    @vf.reward
    async def exact_match(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == str(self.data.answer))


class Sums(vf.Taskset[SumTask, vf.TasksetConfig]):
    def load(self) -> list[SumTask]:
        data = [Sum(idx=i, prompt=f"What is {i} + {i}?", answer=2 * i) for i in range(4096)]
        return [SumTask(entry, self.config.task) for entry in data]


def main(upstream: str, count: int, concurrency: int, runtime: str) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder:
        before, start = rss_mb(), time.perf_counter()
        run = vf.evaluate(
            Sums().take(count),
            model=vf.Relay("mock", base_url=upstream),
            harness="null",
            runtime=runtime,
            concurrency=concurrency,
            dir=folder,
        )
        run.wait()
        wall = time.perf_counter() - start
        right = [trace.reward for trace in run.traces].count(1.0)
        if right != count:
            raise RuntimeError(f"{right} of {count} right: {run.summary}")
    return {"wall_s": wall, "base_mb": before, "peak_mb": peak_mb()}


if __name__ == "__main__":
    print(json.dumps(main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4])))
