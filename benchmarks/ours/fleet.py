"""A finished run of many traces: opening it and its frames.

python -m benchmarks.ours.fleet build FOLDER TRACES [MESSAGES]
python -m benchmarks.ours.fleet read FOLDER
"""

from __future__ import annotations

import json
import sys
import time

from benchmarks.ours.common import begin, new_trace
from benchmarks.processes import rss_mb

MESSAGES = 20


async def build(folder: str, count: int, messages: int = MESSAGES) -> None:
    """Traces of short messages with two rewards and a metric."""
    from vfnb.store import RunStore
    from vfnb.trace import ModelCall, Reward, identity
    from vfnb.types import AssistantMessage, Usage, UserMessage

    store = RunStore.create_or_open(folder)
    for index in range(count):
        trace = new_trace(index // 10)
        trace.rollout = index % 10
        await begin(store, trace)
        parent = -1
        for turn in range(messages // 2):
            question = UserMessage(
                content=f"Question {turn} of trace {index}: what follows from {index * turn}?"
            )
            reply = AssistantMessage(content=f"It follows that {index} and {turn} make {index + turn}. " * 4)
            usage = Usage(prompt_tokens=100 * turn, completion_tokens=40)
            call = ModelCall(
                dialect="chat", model="mock", usage=usage, finish_reason="stop", start=1.0, end=2.0
            )
            trace.dag.commit(call, parent=parent, new=[(question, identity(question))], reply=reply)
            parent = len(trace.dag.nodes) - 1
        trace.rewards = {
            "exact_match": Reward(value=float(index % 2)),
            "style": Reward(value=0.5, weight=0.1),
        }
        trace.metrics = {"length": float(index)}
        trace.end_state, trace.ok = "completed", True
        await store.finish_trace(trace)
    store.set_meta(state="finished")
    store.close()


def read(folder: str) -> dict[str, float]:
    """CPU seconds of opening and of each frame, pandas already loaded; memory that opening takes."""
    import pandas

    import vfnb as vf

    assert pandas and vf.load
    before, start = rss_mb(), time.process_time()
    run = vf.load(folder)
    opened = time.process_time() - start
    grown = rss_mb() - before
    start = time.process_time()
    rewards = run.rewards
    rewarded = time.process_time() - start
    start = time.process_time()
    messages = run.frame("messages")
    listed = time.process_time() - start
    if len(messages) != len(rewards) * MESSAGES:
        raise RuntimeError(f"{len(messages)} messages of {len(rewards)} traces")
    return {"open_s": opened, "open_mb": grown, "rewards_s": rewarded, "messages_s": listed}


if __name__ == "__main__":
    if sys.argv[1] == "build":
        from vfnb import loops

        loops.engine().run(build(sys.argv[2], *map(int, sys.argv[3:])))
        print("{}")
    else:
        print(json.dumps(read(sys.argv[2])))
