"""A trace with tokens on disk and as training samples: sizes and CPU times.

    python -m benchmarks.ours.disk SHAPE TURNS
    python -m benchmarks.ours.disk write FOLDER COPIES
    python -m benchmarks.ours.disk load FOLDER

`bytes_mb` is what the run's file grows by, `write_ms` the writing of the whole trace when it ends, `journal_ms`
the durable writes of its calls before that, `read_ms` the loading of one trace, `decode_ms` the same with every
message decoded, `samples_ms` its training samples. `load` gives `open_s`, `load_s` and `load_mb` of a folder of
traces of 200 turns that `write` has made.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

from benchmarks.measure import cpu_ms
from benchmarks.ours.common import begin, new_trace
from benchmarks.ours.tokens import record
from benchmarks.processes import rss_mb
from vfnb import loops
from vfnb.store import RunReader, RunStore
from vfnb.trace import Delta, Trace


def recorded(shape: str, count: int, seed: int = 0) -> tuple[Trace, list[Delta]]:
    trace = new_trace()
    deltas = record(trace.dag, shape, count, seed)
    trace.end_state, trace.ok = "completed", True
    return trace, deltas


async def write(folder: str, traces: Iterable[tuple[Trace, list[Delta]]]) -> tuple[float, float]:
    """Store traces as a run does, one transaction per call: CPU ms of journal and end of the last one."""
    store = RunStore.create_or_open(folder)
    journal = end = 0.0
    for trace, deltas in traces:
        await begin(store, trace)
        start = time.process_time()
        for delta in deltas:
            await store.append(trace.id, delta)
        middle = time.process_time()
        await store.finish_trace(trace)
        journal, end = 1000 * (middle - start), 1000 * (time.process_time() - middle)
    store.close()
    return journal, end


def size(folder: str) -> int:
    return sum(path.stat().st_size for path in Path(folder).glob("run.sqlite*"))


def one(shape: str, count: int) -> dict[str, float]:
    trace, _ = first = recorded(shape, count)
    several = [recorded(shape, count, seed) for seed in (1, 2)]
    with tempfile.TemporaryDirectory() as empty, tempfile.TemporaryDirectory() as single:
        loops.engine().run(write(empty, []))
        loops.engine().run(write(single, [first]))
        grown = size(single) - size(empty)
        with RunReader(single) as reader:
            read = cpu_ms(lambda: reader.load_trace(trace.id))
            decode = cpu_ms(lambda: [node.message for node in reader.load_trace(trace.id).nodes])
    with tempfile.TemporaryDirectory() as folder:
        journal, end = loops.engine().run(write(folder, several))
    return {
        "bytes_mb": grown / 1e6,
        "write_ms": end,
        "journal_ms": journal,
        "read_ms": read,
        "decode_ms": decode,
        "samples_ms": cpu_ms(trace.samples),
    }


def load(folder: str) -> dict[str, float]:
    before, start = rss_mb(), time.process_time()
    with RunReader(folder) as reader:
        reader.heads()
        opened = time.process_time() - start
        start = time.process_time()
        traces = reader.load_traces()
        loaded = time.process_time() - start
        grown = rss_mb() - before
    return {"open_s": opened, "load_s": loaded, "load_mb": grown, "kept_mb": grown / len(traces)}


def main(what: str, where: str, copies: str = "0") -> dict[str, float]:
    if what == "load":
        return load(where)
    if what == "write":
        loops.engine().run(write(where, (recorded("linear", 200, seed) for seed in range(int(copies)))))
        return {}
    return one(what, int(where))


if __name__ == "__main__":
    print(json.dumps(main(*sys.argv[1:])))
