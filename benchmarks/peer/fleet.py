"""The peer's finished run of many traces: every line is parsed. Run by the peer's Python.

    python -m benchmarks.peer.fleet FILE TRACES

Writes the file when it is not there yet, then prints the CPU time of reading it.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path

from verifiers.v1 import graph
from verifiers.v1.dialects.chat import parse_message
from verifiers.v1.episode import EnvInfo, Episode, WireEpisode
from verifiers.v1.types import Response, Usage
from verifiers.v1.utils.trace_store import type_adapter

from benchmarks.peer.trace import new_trace
from benchmarks.processes import rss_mb


def write(path: Path, count: int) -> None:
    trace = new_trace()
    messages = []
    for turn in range(10):
        messages.append({"role": "user", "content": f"Question {turn}: what follows from {turn}?"})
        reply = {"role": "assistant", "content": f"It follows that it is {turn}. " * 4}
        prepared = graph.prepare_turn(trace, [parse_message(message) for message in messages], None)
        usage = Usage(prompt_tokens=100 * turn, completion_tokens=40)
        response = Response(
            id="r", created=0, model="mock", message=parse_message(reply), finish_reason="stop", usage=usage
        )
        prepared.commit(response)
        messages.append(reply)
    episode = Episode(env=EnvInfo(id="x"), task=trace.task, traces=[trace], ok=True)
    line = type_adapter(type(episode)).dump_json(episode, exclude_none=True) + b"\n"
    with path.open("wb") as file:
        for _ in range(count):
            file.write(line)


def read(path: Path) -> dict[str, float]:
    before, start = rss_mb(), time.process_time()
    with path.open("rb") as file:
        episodes = [WireEpisode.model_validate_json(line) for line in file]
    spent = time.process_time() - start
    assert episodes
    return {"open_s": spent, "open_mb": rss_mb() - before, "rewards_s": spent, "messages_s": spent}


if __name__ == "__main__":
    target = Path(sys.argv[1])
    if not target.exists():
        write(target, int(sys.argv[2]))
    print(json.dumps(read(target)))
