"""The peer's trace files and training samples: sizes and CPU times. Run by the peer's Python.

python -m benchmarks.peer.disk SHAPE TURNS [COPIES]
"""

from __future__ import annotations

import json
import sys
import tempfile
import time

from verifiers.v1.episode import EnvInfo, Episode, WireEpisode
from verifiers.v1.utils.trace_store import type_adapter

from benchmarks.measure import cpu_ms
from benchmarks.peer.trace import token_trace
from benchmarks.processes import rss_mb

shape, turns = sys.argv[1], int(sys.argv[2])
copies = int(sys.argv[3]) if len(sys.argv) > 3 else 0
trace = token_trace(shape, turns)


def write() -> bytes:
    """What its runner writes for a rollout."""
    episode = Episode(env=EnvInfo(id="x"), task=trace.task, traces=[trace], ok=True)
    return type_adapter(type(episode)).dump_json(episode, exclude_none=True)


def samples() -> list[object]:
    return [(b.token_ids, b.sampled_mask, b.logprobs) for b in trace.branches if b.trainable]


def one() -> dict[str, float]:
    line = write()
    read = cpu_ms(lambda: WireEpisode.model_validate_json(line))
    return {
        "bytes_mb": len(line) / 1e6,
        "write_ms": cpu_ms(write),
        "read_ms": read,
        "decode_ms": read,
        "samples_ms": cpu_ms(samples),
    }


def many() -> dict[str, float]:
    with tempfile.TemporaryFile() as file:
        line = write() + b"\n"
        for _ in range(copies):
            file.write(line)
        file.seek(0)
        before, start = rss_mb(), time.process_time()
        episodes = [WireEpisode.model_validate_json(line) for line in file]
        loaded = time.process_time() - start
        grown = rss_mb() - before
        return {"open_s": loaded, "load_s": loaded, "load_mb": grown, "kept_mb": grown / len(episodes)}


print(json.dumps(many() if copies else one()))
