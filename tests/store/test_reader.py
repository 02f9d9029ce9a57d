"""Reading what is damaged, foreign, newer, or not there."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from pathlib import Path
from typing import Any

import pytest
from support.bigrun import begin, chat_turns, end, trace_of, write_run, write_token_run

from vfnb.errors import StoreError
from vfnb.lab.frames import frame
from vfnb.store import RunReader, RunStore


def change(folder: Path, *statements: str) -> None:
    db = sqlite3.connect(folder / "run.sqlite", isolation_level=None)
    for statement in statements:
        db.execute(statement)
    db.close()


def test_no_run_there(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match=r"no run at .*run\.sqlite"):
        RunReader(tmp_path)


def test_not_a_database(tmp_path: Path) -> None:
    (tmp_path / "run.sqlite").write_bytes(b"hello" * 1000)
    with pytest.raises(StoreError, match="cannot be read as a run"):
        RunReader(tmp_path)
    with pytest.raises(StoreError, match="cannot be read as a run"):
        RunStore.create_or_open(tmp_path)
    RunStore.create_or_open(tmp_path, fresh=True).close()  # sets the wreck aside
    assert len(list(tmp_path.glob("run-*.sqlite"))) == 1


def test_empty_file_of_a_writer_that_died(tmp_path: Path) -> None:
    (tmp_path / "run.sqlite").touch()
    with pytest.raises(StoreError, match="empty"):
        RunReader(tmp_path)
    RunStore.create_or_open(tmp_path).close()
    RunReader(tmp_path).close()


def test_database_of_another_program(tmp_path: Path) -> None:
    change(tmp_path, "CREATE TABLE theirs (x)")
    with pytest.raises(StoreError, match="another program"):
        RunStore.create_or_open(tmp_path)


def test_an_older_file_is_read_as_it_is_and_brought_up_to_date_by_a_writer(tmp_path: Path) -> None:
    asyncio.run(write_run(tmp_path, 3))
    old = [f"ALTER TABLE branches DROP COLUMN {name}" for name in ("linked_to", "returned_to")]
    change(tmp_path, *old, "PRAGMA user_version = 1")
    with RunReader(tmp_path) as reader:
        branches = frame(reader, "branches")
        assert list(branches["linked_to"].isna()) == [True] * len(branches)
        assert len(branches) > 0
    RunStore.create_or_open(tmp_path).close()
    with RunReader(tmp_path) as reader:
        assert len(frame(reader, "branches")) == len(branches)
        assert reader.query("PRAGMA user_version") == [(2,)]


def test_newer_schema_is_refused_with_the_fix(tmp_path: Path) -> None:
    RunStore.create_or_open(tmp_path).close()
    change(tmp_path, "PRAGMA user_version = 99")
    for opener in (RunReader, RunStore.create_or_open):
        with pytest.raises(StoreError, match=r"schema 99.*pip install -U vfnb"):
            opener(tmp_path)
    assert not (tmp_path / "lock").exists()


def test_unknown_columns_and_tables_are_left_alone(tmp_path: Path) -> None:
    asyncio.run(write_run(tmp_path, 2, 4))
    change(tmp_path, "ALTER TABLE traces ADD COLUMN colour TEXT", "CREATE TABLE extra (x)")
    with RunReader(tmp_path) as reader:
        assert len(reader.load_traces()) == 2
        assert len(reader.heads()) == 2

    async def more() -> None:
        with RunStore.create_or_open(tmp_path) as store:
            trace = trace_of(7)
            await begin(store, trace)
            end(trace, 7)
            await store.finish_trace(trace)

    asyncio.run(more())
    with RunReader(tmp_path) as reader:
        assert reader.counts() == {"completed": 3}


def test_truncated_file_says_what_is_lost(tmp_path: Path) -> None:
    asyncio.run(write_run(tmp_path, 200, 20))
    path = tmp_path / "run.sqlite"
    size = path.stat().st_size
    path.write_bytes(path.read_bytes()[: size // 3])
    with pytest.raises(StoreError) as caught:
        RunReader(tmp_path)
    text = str(caught.value)
    assert str(path) in text
    assert f"its last {size - size // 3} of {size} bytes are lost" in text


def test_damaged_table_says_how_much_was_read(tmp_path: Path) -> None:
    asyncio.run(write_run(tmp_path, 400, 20))
    path = tmp_path / "run.sqlite"
    db = sqlite3.connect(path)
    root, size = db.execute(
        "SELECT rootpage, page_size FROM sqlite_master, pragma_page_size WHERE name = 'traces'"
    ).fetchone()
    db.close()
    raw = bytearray(path.read_bytes())
    last_child = int.from_bytes(raw[(root - 1) * size + 8 : (root - 1) * size + 12], "big")
    raw[(last_child - 1) * size : last_child * size] = bytes(size)
    path.write_bytes(raw)
    with RunReader(tmp_path) as reader, pytest.raises(StoreError) as caught:
        reader.query("SELECT num, task_key, errors FROM traces")
    text = str(caught.value)
    assert str(path) in text
    assert "rows were read, those after them are lost" in text
    assert ": 0 rows" not in text


def test_damaged_trace_is_one_error_among_good_ones(tmp_path: Path) -> None:
    asyncio.run(write_run(tmp_path, 5, 4))
    change(tmp_path, "UPDATE packs SET structure = zeroblob(length(structure)) WHERE trace = 3")
    with RunReader(tmp_path) as reader:
        outcomes = dict(reader.read_traces())
        broken = outcomes.pop("t000002")
        assert isinstance(broken, StoreError)
        assert "t000002" in str(broken)
        assert not any(isinstance(outcome, StoreError) for outcome in outcomes.values())
        with pytest.raises(StoreError, match="t000002"):
            reader.load_traces()
        with pytest.raises(StoreError, match="t000002"):
            reader.load_trace("t000002")


def test_missing_shared_message_is_named(tmp_path: Path) -> None:
    asyncio.run(write_run(tmp_path, 3, 4, prompt="Shared prompt. " * 100))
    change(tmp_path, "DELETE FROM contents")
    with RunReader(tmp_path) as reader:
        outcomes = [outcome for _, outcome in reader.read_traces()]
        assert any(
            "shared message" in str(outcome) for outcome in outcomes if isinstance(outcome, StoreError)
        )


def test_unknown_trace(tmp_path: Path) -> None:
    RunStore.create_or_open(tmp_path).close()
    with RunReader(tmp_path) as reader:
        with pytest.raises(StoreError, match="no trace nope"):
            reader.load_trace("nope")
        with pytest.raises(StoreError, match="no trace nope"):
            reader.load_traces(["nope"])
        with pytest.raises(StoreError, match=r"run\.sqlite"):
            reader.query("SELECT nonsense")


def test_order_of_loading_is_the_one_asked_for(tmp_path: Path) -> None:
    asyncio.run(write_run(tmp_path, 450, 2))
    wanted = ["t000449", "t000000", "t000201"]
    with RunReader(tmp_path) as reader:
        assert [trace.id for trace in reader.load_traces(wanted)] == wanted
        assert [task.key for task in reader.tasks()][:2] == ["task-0", "task-1"]
        assert len(reader.episodes()) == 450
        assert reader.complete


def test_many_threads_share_one_reader(tmp_path: Path) -> None:
    asyncio.run(write_run(tmp_path, 40, 6))
    failures: list[BaseException] = []
    with RunReader(tmp_path) as reader:

        def read() -> None:
            try:
                for _ in range(5):
                    assert len(reader.load_traces()) == 40
            except BaseException as error:
                failures.append(error)

        threads = [threading.Thread(target=read) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    assert failures == []


def test_program_state_is_kept_and_bounded(tmp_path: Path) -> None:
    class State:
        def __init__(self, **values: Any) -> None:
            self.__dict__.update(values)

    async def main() -> None:
        with RunStore.create_or_open(tmp_path) as store:
            for index, state in enumerate((State(a=[1, 2], p=Path("/x")), State(big="x" * (2 << 20)), None)):
                trace = trace_of(index)
                await begin(store, trace)
                trace.state = state
                end(trace, index)
                await store.finish_trace(trace)

    asyncio.run(main())
    with RunReader(tmp_path) as reader:
        assert reader.state("t000000")["a"] == [1, 2]
        assert "are kept" in reader.state("t000001")["unstored"]
        assert reader.state("t000002") is None


def test_size_per_turn_does_not_grow(tmp_path: Path) -> None:
    sizes = {}
    for turns in (20, 40, 80):
        asyncio.run(write_token_run(tmp_path / str(turns), 1, turns))
        sizes[turns] = (tmp_path / str(turns) / "run.sqlite").stat().st_size
    early, late = (sizes[40] - sizes[20]) / 20, (sizes[80] - sizes[40]) / 40
    assert abs(late / early - 1) < 0.15  # pages of 4 kB, texts of different kinds
    assert late < 5_500  # bytes for a turn of 1 k tokens, half of them with logprobs


def test_plain_sqlite_sees_plain_columns(tmp_path: Path) -> None:
    asyncio.run(write_run(tmp_path, 3, 4))
    db = sqlite3.connect(tmp_path / "run.sqlite")
    rows = db.execute(
        "SELECT traces.id, task_key, turns, totals.reward, name, value FROM traces "
        "JOIN totals ON totals.trace = num JOIN scores ON scores.trace = num ORDER BY num, pos"
    ).fetchall()
    db.close()
    assert len(rows) == 9
    assert rows[0][:3] == ("t000000", "task-0", 2)


def test_live_reader_sees_a_whole_trace_at_any_moment(tmp_path: Path) -> None:
    """While a trace turns from journal to pack, a reader sees it complete in one form or the other."""
    stop = threading.Event()
    seen: list[int] = []
    failures: list[BaseException] = []

    def read() -> None:
        try:
            with RunReader(tmp_path) as reader:
                while not stop.is_set():
                    heads = reader.heads("state = 'completed'")
                    seen.extend(reader.load_trace(head.id).num_turns for head in heads)
        except BaseException as error:
            failures.append(error)

    async def main() -> None:
        with RunStore.create_or_open(tmp_path) as store:
            thread = threading.Thread(target=read)
            thread.start()
            try:
                for index in range(60):
                    trace = trace_of(index)
                    await begin(store, trace)
                    for delta in chat_turns(trace, 6, index):
                        await store.append(trace.id, delta)
                    end(trace, index)
                    await store.finish_trace(trace)
            finally:
                stop.set()
                await asyncio.to_thread(thread.join)

    asyncio.run(main())
    assert failures == []
    assert set(seen) == {3}
