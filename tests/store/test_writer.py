"""Rollouts in, rollouts out: exact, durable, and only what was acknowledged."""

from __future__ import annotations

import asyncio
import os
import random
import resource
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import pytest
from support.bigrun import begin, chat_turns, end, token_trace, trace_of, write_run

from vfnb.errors import StoreError, StoreLocked
from vfnb.store import EpisodeRow, RunReader, RunStore, ScoreRow, ScoreVersion, TraceRow
from vfnb.store.layout import is_network
from vfnb.trace.calls import ErrorInfo
from vfnb.trace.trace import Trace

T = TypeVar("T")


def run(work: Coroutine[Any, Any, T]) -> T:
    return asyncio.run(work)


def same(left: Trace, right: Trace) -> None:
    assert left.model_dump_json() == right.model_dump_json()


async def keep(store: RunStore, trace: Trace, deltas: Any, *, finish: bool = True) -> None:
    await begin(store, trace)
    for delta in deltas:
        await store.append(trace.id, delta)
    if finish:
        end(trace, 1)
        await store.finish_trace(trace)


def test_token_trace_comes_back_exactly(tmp_path: Path) -> None:
    trace, deltas = token_trace(20, id="a", episode_id="e", group_id="g")
    trace.tags, trace.notes, trace.info = ["odd"], ["look here"], {"x": [1, {"y": None}]}
    trace.errors = [ErrorInfo(type="Bump", boundary="model", message="again", at=12.5, stage="agent")]

    async def main() -> None:
        with RunStore.create_or_open(tmp_path) as store:
            await keep(store, trace, deltas)

    run(main())
    with RunReader(tmp_path) as reader:
        loaded = reader.load_trace("a")
        same(loaded, trace)
        assert loaded.dag.columns is not None
        assert trace.dag.columns is not None
        assert (
            loaded.dag.columns.logprobs.tobytes()
            == trace.dag.columns.logprobs[: trace.dag.columns.size].tobytes()
        )
        head = reader.heads()[0]
        assert (head.state, head.turns, head.calls, head.ok) == ("completed", 20, 20, True)
        assert head.reward == trace.reward
        assert head.prompt_tokens == trace.usage.prompt_tokens
    assert sorted(path.name for path in tmp_path.iterdir()) == ["logs", "run.sqlite"]


def test_unfinished_trace_opens_while_it_is_written(tmp_path: Path) -> None:
    trace, deltas = token_trace(5, id="a", episode_id="e", group_id="g", agent="solver")
    trace.task.key = "task-0"

    async def main() -> None:
        with RunStore.create_or_open(tmp_path) as store, RunReader(tmp_path) as reader:
            await begin(store, trace)
            assert len(reader.load_trace("a").nodes) == 0
            for count, delta in enumerate(deltas, 1):
                await store.append("a", delta)
                assert reader.load_trace("a").num_turns == count
            same(reader.load_trace("a"), trace)
            assert [head.id for head in reader.unfinished()] == ["a"]
            assert not reader.complete

    run(main())


def test_another_process_reads_a_live_run(tmp_path: Path) -> None:
    program = (
        "import sys; from vfnb.store import RunReader\n"
        "r = RunReader(sys.argv[1]); t = r.load_trace('a'); print(t.num_turns, r.counts())"
    )

    async def main() -> str:
        with RunStore.create_or_open(tmp_path) as store:
            trace = trace_of(0).model_copy(update={"id": "a"})
            await keep(store, trace, chat_turns(trace, 6), finish=False)
            done = await asyncio.create_subprocess_exec(
                sys.executable, "-c", program, str(tmp_path), stdout=asyncio.subprocess.PIPE
            )
            out, _ = await done.communicate()
            return out.decode()

    assert run(main()) == "3 {'running': 1}\n"


def test_shared_messages_are_stored_once(tmp_path: Path) -> None:
    prompt = "A long system prompt. " * 200
    kept: list[Trace] = []

    async def main() -> None:
        with RunStore.create_or_open(tmp_path) as store:
            traces = [trace_of(index) for index in range(6)]
            for trace in traces[:3]:  # three at once, then three one after the other
                await begin(store, trace)
            for trace in traces[:3]:
                for delta in chat_turns(trace, 4, 1, prompt):
                    await store.append(trace.id, delta)
            for trace in traces[:3]:
                end(trace, 1)
                await store.finish_trace(trace)
            for trace in traces[3:]:
                await keep(store, trace, chat_turns(trace, 4, 1, prompt))
            kept.extend(traces)

    run(main())
    with RunReader(tmp_path) as reader:
        bodies = [row[0] for row in reader.query("SELECT body FROM contents")]
        assert sum(b"A long system prompt." in body for body in bodies) == 1
        for trace, loaded in zip(kept, reader.load_traces(), strict=True):
            same(loaded, trace)


def test_scores_are_versions(tmp_path: Path) -> None:
    run(write_run(tmp_path, 3, 2))

    async def main() -> None:
        with RunStore.create_or_open(tmp_path) as store:
            rows = [
                ScoreRow(
                    trace=f"t{i:06d}", reward=float(i), rewards={"new": (float(i), 1.0)}, score_hash="s2"
                )
                for i in range(2)
            ]
            assert await store.add_scores(ScoreVersion(label="stricter", weights={"new": 1.0}), rows) == 1
            with pytest.raises(StoreError, match="never overwritten"):
                await store.add_scores(ScoreVersion(version=1), rows[:1])
            with pytest.raises(StoreError, match="not in this run"):
                await store.add_scores(ScoreVersion(), [ScoreRow(trace="nope", reward=None)])

    before = run_scores(tmp_path, 0)
    run(main())
    with RunReader(tmp_path) as reader:
        assert [(v.version, v.kind, v.label) for v in reader.versions()] == [
            (0, "live", ""),
            (1, "rescore", "stricter"),
        ]
        assert {row.trace: row.reward for row in reader.scores()} == {"t000000": 0.0, "t000001": 1.0}
        assert reader.load_trace("t000001").reward == 1.0
        assert set(reader.load_trace("t000001", version=0).rewards) == {"correct", "short"}
        assert set(reader.load_trace("t000002").rewards) == {"correct", "short"}  # not in version 1
        units = reader.finished("r")
        assert [unit.scored for unit in units] == [{"s": 0, "s2": 1}, {"s": 0, "s2": 1}, {"s": 0}]
        assert reader.finished("other") == []
        assert [head.reward for head in reader.heads()] == [0.0, 1.0, None]
    assert run_scores(tmp_path, 0) == before


def run_scores(folder: Path, version: int) -> list[ScoreRow]:
    with RunReader(folder) as reader:
        return reader.scores(version)


def test_tags_and_notes_of_a_stored_trace(tmp_path: Path) -> None:
    run(write_run(tmp_path, 1, 2))

    async def main() -> None:
        with RunStore.create_or_open(tmp_path) as store:
            await store.mark("t000000", "tag", "good")
            await store.mark("t000000", "note", "look at turn 1")
            with pytest.raises(StoreError, match="no trace"):
                await store.mark("nope", "tag", "x")

    run(main())
    with RunReader(tmp_path) as reader:
        trace = reader.load_trace("t000000")
    assert (trace.tags, trace.notes) == (["good"], ["look at turn 1"])


def test_errors_superseded_attempts_and_states(tmp_path: Path) -> None:
    async def main() -> None:
        with RunStore.create_or_open(tmp_path) as store:
            failed = trace_of(0)
            await begin(store, failed)
            failed.errors = [ErrorInfo(type="Boom", boundary="harness", message="it broke", at=1.0)]
            failed.end_state = "error"
            await store.finish_trace(failed)
            await store.supersede(failed.id)
            again = trace_of(1)
            await keep(store, again, chat_turns(again, 2))

    run(main())
    with RunReader(tmp_path) as reader:
        assert reader.counts() == {"superseded": 1, "completed": 1}
        head = reader.heads()[0]
        assert (head.superseded, head.error, head.error_boundary, head.reward) == (
            True,
            "Boom",
            "harness",
            None,
        )
        assert [unit.trace for unit in reader.finished()] == ["t000001"]
        assert reader.load_trace("t000000").errors[0].message == "it broke"


def test_dead_process_leaves_traces_that_can_be_finished(tmp_path: Path) -> None:
    trace, deltas = token_trace(4, id="a", episode_id="e")

    async def first() -> None:
        store = RunStore.create_or_open(tmp_path)
        await begin(store, trace)
        for delta in deltas:
            await store.append("a", delta)
        store.close()  # without `finish_trace`, as a killed process

    async def second() -> None:
        with RunStore.create_or_open(tmp_path) as store, store.reader() as reader:
            left = [head.id for head in reader.unfinished()]
            assert left == ["a"]
            interrupted = reader.load_trace("a")
            interrupted.end_state = "cancelled"
            store.adopt("a")
            await store.finish_trace(interrupted)
            with pytest.raises(StoreError, match="no unfinished trace"):
                store.adopt("a")

    run(first())
    run(second())
    with RunReader(tmp_path) as reader:
        assert reader.counts() == {"cancelled": 1}
        assert reader.load_trace("a").num_turns == 4
        assert reader.query("SELECT count(*) FROM journal") == [(0,)]


def test_fresh_sets_the_old_run_aside(tmp_path: Path) -> None:
    run(write_run(tmp_path, 2, 2))
    RunStore.create_or_open(tmp_path, {"taskset": "sums"}, fresh=True).close()
    with RunReader(tmp_path) as reader:
        assert reader.counts() == {}
        assert reader.meta()["taskset"] == "sums"
    (old,) = tmp_path.glob("run-*.sqlite")
    with sqlite3.connect(f"file:{old}?mode=ro", uri=True) as db:
        assert db.execute("SELECT count(*) FROM traces").fetchone() == (2,)
    db.close()


def test_second_store_is_refused_and_the_first_goes_on(tmp_path: Path) -> None:
    async def main() -> None:
        with RunStore.create_or_open(tmp_path) as store:
            with pytest.raises(StoreLocked, match=f"process {os.getpid()}"):
                RunStore.create_or_open(tmp_path)
            await store.set_meta(state="finished")

    run(main())
    RunStore.create_or_open(tmp_path).close()


def test_two_kernels_on_one_folder(tmp_path: Path) -> None:
    program = "import sys; from vfnb.store import RunStore; RunStore.create_or_open(sys.argv[1])"
    with RunStore.create_or_open(tmp_path):
        done = subprocess.run([sys.executable, "-c", program, str(tmp_path)], capture_output=True, text=True)
    assert done.returncode == 1
    assert f"StoreLocked: the run {tmp_path} is being written by process {os.getpid()} on " in done.stderr


def test_wrong_order_of_calls_is_named(tmp_path: Path) -> None:
    trace = trace_of(0)
    (delta,) = chat_turns(trace, 2)

    async def main() -> None:
        store = RunStore.create_or_open(tmp_path)
        with pytest.raises(StoreError, match="has not begun"):
            store.append("t000000", delta)
        await begin(store, trace)
        with pytest.raises(StoreError, match="has begun already"):
            begin(store, trace)
        store.close()
        with pytest.raises(StoreError, match="is closed"):
            await store.set_meta(x=1)

    run(main())


def test_one_bad_write_does_not_spoil_its_neighbours(tmp_path: Path) -> None:
    row = TraceRow(id="a", episode="e")

    async def main() -> None:
        with RunStore.create_or_open(tmp_path) as store:
            await store.begin_trace(row)
            store._live.clear()  # the same id once more, which the table refuses
            writes = [
                store.begin_episode(EpisodeRow(id="one")),
                store.begin_trace(row),
                store.begin_episode(EpisodeRow(id="two")),
            ]
            done = await asyncio.gather(*writes, return_exceptions=True)
            assert [type(one) for one in done] == [type(None), StoreError, type(None)]

    run(main())
    with RunReader(tmp_path) as reader:
        assert [episode.id for episode in reader.episodes()] == ["one", "two"]


def test_write_stands_when_its_waiter_was_cancelled(tmp_path: Path) -> None:
    trace = trace_of(0)

    async def main() -> None:
        with RunStore.create_or_open(tmp_path) as store:
            await begin(store, trace)
            for delta in chat_turns(trace, 4):
                waiter = asyncio.ensure_future(store.append(trace.id, delta))
                waiter.cancel()
                await asyncio.sleep(0)
                assert waiter.cancelled()
            await store.set_meta(x=1)

    run(main())
    with RunReader(tmp_path) as reader:
        assert reader.load_trace(trace.id).num_turns == 2


APPENDER = """
import asyncio, sys
sys.path.insert(0, sys.argv[2])
from support.bigrun import begin, chat_turns, end, trace_of
from vfnb.store import RunStore

async def rollout(store, index):
    trace = trace_of(index)
    await begin(store, trace)
    for turn, delta in enumerate(chat_turns(trace, 8, index)):
        await store.append(trace.id, delta)
        print(trace.id, turn, flush=True)
    end(trace, index)
    await store.finish_trace(trace)
    print(trace.id, "end", flush=True)

async def main():
    store = RunStore.create_or_open(sys.argv[1])
    print("ready", flush=True)
    for start in range(0, 100000, 8):
        await asyncio.gather(*(rollout(store, start + i) for i in range(8)))

asyncio.run(main())
"""


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_kill_9_keeps_every_acknowledged_write_once(tmp_path: Path, seed: int) -> None:
    tests = str(Path(__file__).parents[1])
    child = subprocess.Popen(
        [sys.executable, "-c", APPENDER, str(tmp_path), tests], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout is not None
    assert child.stdout.readline() == "ready\n"
    time.sleep(random.Random(seed).uniform(0.05, 0.6))
    child.send_signal(signal.SIGKILL)
    out, _ = child.communicate()
    turns: dict[str, int] = {}
    ended = set()
    for line in out.splitlines(keepends=True):
        if not line.endswith("\n"):
            continue  # torn by the kill
        trace_id, what = line.split()
        if what == "end":
            ended.add(trace_id)
        else:
            turns[trace_id] = int(what) + 1
    assert turns
    with RunReader(tmp_path) as reader:
        loaded = {trace.id: trace for trace in reader.load_traces()}
        for trace_id, count in turns.items():
            calls = [call.index for call in loaded[trace_id].calls]
            assert calls == list(range(len(calls)))
            assert len(calls) >= count
        for trace_id in ended:
            assert loaded[trace_id].end_state == "completed"
        unfinished = {head.id for head in reader.unfinished()}
        assert unfinished.isdisjoint(ended)
    with RunStore.create_or_open(tmp_path) as store, store.reader() as reader:
        assert {head.id for head in reader.unfinished()} == unfinished


FULL = """
import asyncio, resource, sys
sys.path.insert(0, sys.argv[2])
from support.bigrun import begin, chat_turns, end, trace_of
from vfnb.errors import StoreError
from vfnb.store import RunStore

async def main():
    store = RunStore.create_or_open(sys.argv[1])
    resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))
    good = 0
    for index in range(1000):
        trace = trace_of(index)
        try:
            await begin(store, trace)
            for delta in chat_turns(trace, 8, index):
                await store.append(trace.id, delta)
                good += 1
        except StoreError as error:
            print(good, error, flush=True)
            break
    try:
        await store.append(trace.id, delta)
    except StoreError as error:
        print(error, flush=True)
    store.close()

asyncio.run(main())
"""


def test_full_disk_is_an_error_and_nothing_pretends(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", FULL, str(tmp_path), str(Path(__file__).parents[1])],
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    first, second = done.stdout.splitlines()
    acknowledged, message = first.split(" ", 1)
    assert "could not be written" in message
    assert "free some space" in message
    assert "failed" in second or "could not be written" in second or "not begun" in second
    with RunReader(tmp_path) as reader:
        stored = sum(len(trace.calls) for trace in reader.load_traces())
    assert stored >= int(acknowledged) > 0
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


def test_full_durability_is_asked_of_sqlite(tmp_path: Path) -> None:
    with RunStore.create_or_open(tmp_path, durability="full") as store:
        assert store._db.execute("PRAGMA synchronous").fetchone() == (2,)
    with RunStore.create_or_open(tmp_path) as store:
        assert store._db.execute("PRAGMA synchronous").fetchone() == (1,)


def test_network_file_systems_are_known() -> None:
    mounts = (
        "/dev/a / ext4 rw 0 0\nhost:/x /data nfs4 rw 0 0\n"
        "host /data/my\\040disk cifs rw 0 0\nt /data/local tmpfs rw 0 0\n"
    )
    assert is_network(Path("/data/runs"), mounts)
    assert is_network(Path("/data/my disk/r"), mounts)
    assert not is_network(Path("/data/local/r"), mounts)
    assert not is_network(Path("/database"), mounts)
    assert not is_network(Path("/data"), "")


def test_long_wal_is_emptied_while_the_store_is_open(tmp_path: Path) -> None:
    wal = tmp_path / "run.sqlite-wal"

    async def main() -> None:
        with RunStore.create_or_open(tmp_path) as store:
            for index in range(12):
                trace, deltas = token_trace(60, index, id=f"a{index}", episode_id="e")
                await keep(store, trace, deltas)
            deadline = time.monotonic() + 30
            while wal.stat().st_size > 9 << 20 and time.monotonic() < deadline:
                await asyncio.sleep(0.05)
                await store.set_meta(tick=time.time())  # a write begins the emptied WAL anew
            assert wal.stat().st_size <= 9 << 20

    run(main())
    with RunReader(tmp_path) as reader:
        assert reader.counts() == {"completed": 12}
