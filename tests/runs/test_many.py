"""Many runs as one frame, folders of runs, other programs' tables, retries, runs whose process died."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from support.bigrun import write_run
from support.sums import Data, Sum

import vfnb as vf
from vfnb.errors import ConfigError, RunNotFinished


class Sums(vf.Taskset[Sum]):
    def load(self) -> list[Sum]:
        return [Sum(Data(key=f"sum-{i}", prompt=f"{i} + {i}", answer=2 * i)) for i in range(4)]


def say(messages: vf.Messages, tools: Any) -> str:
    number = int(messages[-1].text.split()[0])
    return str(2 * number) if number % 2 else "?"


@pytest.fixture
def two(tmp_path: Path) -> list[vf.Run]:
    asyncio.run(write_run(tmp_path / "runs" / "a", 6, 4))
    b = vf.evaluate(Sums(), model=vf.Scripted(say, name="small"), dir=tmp_path / "runs" / "b", rollouts=2)
    return [vf.load(tmp_path / "runs" / "a"), b.wait(quiet=True)]


def test_one_frame_over_many_runs(two: list[vf.Run]) -> None:
    two[1].traces[0].label("good", True)
    table = vf.frame(two)
    assert list(table.columns[:3]) == ["run", "trace", "task"]
    assert table["run"].value_counts().to_dict() == {"a": 6, "b": 8}
    assert str(table["turns"].dtype) == "Int64"
    assert table["label_good"].notna().sum() == 1
    assert table.attrs["runs"] == [str(run.dir) for run in two]
    few = vf.frame(
        [run.dir for run in two], "messages", columns=["trace", "role"], where="role = 'assistant'"
    )
    assert list(few.columns) == ["run", "trace", "role"]
    assert len(few) == 6 * 2 + 8
    labelled = vf.frame(two, columns=["trace", "label_good"])
    assert list(labelled.columns) == ["run", "trace", "label_good"]
    assert list(vf.frame(two, "runs")["run"]) == ["a", "b"]
    with pytest.raises(ConfigError, match="at least one run"):
        vf.frame([])
    with pytest.raises(ConfigError, match="no frame level"):
        vf.frame(two, "trace")


def test_a_folder_of_runs_is_listed(two: list[vf.Run], tmp_path: Path) -> None:
    folder = tmp_path / "runs"
    (folder / "broken").mkdir()
    (folder / "broken" / "run.sqlite").write_bytes(b"nothing of the kind" * 300)
    (folder / "deep" / "er").mkdir(parents=True)
    asyncio.run(write_run(folder / "deep" / "er" / "c", 1, 2))
    table = vf.runs(folder).set_index("run")  # type: ignore[operator]
    assert sorted(table.index) == ["a", "b", "broken", "c"]
    assert table.loc["broken", "state"] == "damaged"
    assert "cannot be read as a run" in table.loc["broken", "problem"]
    assert table.loc["b", ["taskset", "harness", "model", "state"]].tolist() == [
        "Sums",
        "null",
        "small",
        "finished",
    ]
    assert table.loc["b", "traces"] == 8
    assert table.loc["b", "reward"] == 0.5
    assert str(table["created"].dtype).startswith("datetime64")
    assert vf.load(table.loc["b", "dir"]).summary.scored == 8
    with pytest.raises(ConfigError, match="is no folder"):
        vf.runs(tmp_path / "nowhere")  # type: ignore[operator]
    assert len(vf.runs(tmp_path / "runs" / "deep")) == 1  # type: ignore[operator]


def test_the_room_of_runs_stays_a_module() -> None:
    import vfnb.runs

    assert vfnb.runs.evaluate is vf.evaluate
    assert vf.runs is vfnb.runs


def test_arrow_and_parquet(two: list[vf.Run], tmp_path: Path) -> None:
    import pyarrow.parquet as pq

    table = two[1].arrow("traces", columns=["trace", "reward", "turns", "started", "ok", "stop"])
    assert table.num_rows == 8
    assert [str(kind) for kind in table.schema.types][:3] in (
        ["string", "double", "int64"],
        ["large_string", "double", "int64"],
    )
    assert table.column("stop").null_count == 8
    pq.write_table(table, tmp_path / "traces.parquet")
    back = pd.read_parquet(tmp_path / "traces.parquet")
    assert list(back["reward"]) == list(two[1].frame("traces")["reward"])


def test_the_file_is_plain_sqlite(two: list[vf.Run]) -> None:
    """What `docs/frames.md` shows for other programs: the headlines are tables of their own."""
    import sqlite3

    sql = "SELECT task_key, avg(reward) FROM traces JOIN totals ON trace = num WHERE version = 0 GROUP BY 1"
    db = sqlite3.connect(f"file:{two[1].dir / 'run.sqlite'}?mode=ro", uri=True)
    try:
        found = pd.read_sql_query(sql, db)
    finally:
        db.close()
    assert found.to_numpy().tolist() == [["sum-0", 0.0], ["sum-1", 1.0], ["sum-2", 0.0], ["sum-3", 1.0]]


def test_a_curriculum_of_tasks_that_are_neither_easy_nor_lost(tmp_path: Path) -> None:
    turn = {"1": 0}

    def sometimes(messages: vf.Messages, tools: Any) -> str:
        number = int(messages[-1].text.split()[0])
        if number == 1:
            turn["1"] += 1
            return "2" if turn["1"] % 2 else "?"
        return str(2 * number) if number == 3 else "?"

    run = vf.evaluate(Sums(), model=vf.Scripted(sometimes), rollouts=4, dir=tmp_path / "run").wait(quiet=True)
    tasks = run.tasks.set_index("task")
    assert tasks["passed"].to_dict() == {"sum-0": 0, "sum-1": 2, "sum-2": 0, "sum-3": 4}
    assert tasks.loc["sum-1", "pass_rate"] == 0.5
    assert tasks.loc["sum-1", "variance"] == pytest.approx(1 / 3)
    middle = run.tasks.query("0 < pass_rate < 1")["task"]
    assert [task.key for task in Sums().include(keys=list(middle))] == ["sum-1"]


def test_errors_run_again(tmp_path: Path) -> None:
    broken = True
    calls = 0

    def flaky(messages: vf.Messages, tools: Any) -> str:
        nonlocal calls
        calls += 1
        if broken and messages[-1].text.startswith("2"):
            raise RuntimeError("the server is away")
        return "4"

    run = vf.evaluate(Sums(), model=vf.Scripted(flaky), dir=tmp_path / "run").wait(quiet=True)
    assert (run.summary.failed, calls) == (1, 4)
    broken = False
    again = run.retry("errors").wait(quiet=True)
    assert (again.summary.failed, again.summary.scored, calls) == (0, 4, 5)
    assert again.dir == run.dir
    assert run.summary.reward.mean == again.summary.reward.mean == 0.25
    with pytest.raises(ConfigError, match="there is 'errors' and 'all'"):
        run.retry("some")  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match="was loaded from disk; run its cell again"):
        vf.load(run.dir).retry()


def test_cancelled_rollouts_run_again_only_if_wished(tmp_path: Path) -> None:
    import threading

    release = threading.Event()

    def slow(messages: vf.Messages, tools: Any) -> str:
        number = int(messages[-1].text.split()[0])
        if number == 0:
            raise RuntimeError("the server is away")
        if number == 3 and not release.is_set():
            release.wait(10)
        return str(2 * number)

    run = vf.evaluate(Sums(), model=vf.Scripted(slow), dir=tmp_path / "run")
    while run.frame("runs")["finished"].iloc[0] < 3:
        time.sleep(0.02)
    with pytest.raises(RunNotFinished):
        run.retry()
    run.cancel()
    release.set()
    assert (run.summary.failed, run.summary.cancelled) == (1, 1)
    some = run.retry("errors").wait(quiet=True)
    assert (some.summary.failed, some.summary.cancelled) == (1, 1)  # it failed again, the other stayed
    both = run.retry("all").wait(quiet=True)
    assert (both.summary.failed, both.summary.cancelled, both.summary.scored) == (1, 0, 3)


RUN = """
import sys, time, vfnb as vf
def slow(messages, tools):
    if "never" in messages[-1].text:
        time.sleep(60)
    return "yes"
class Asked(vf.Task):
    @vf.reward
    def one(self): return 1.0
tasks = [Asked(vf.TaskData(prompt=text)) for text in ("now", "never")]
run = vf.evaluate(tasks, model=vf.Scripted(slow), dir=sys.argv[1])
while run.frame("runs")["finished"].iloc[0] < 1:
    time.sleep(0.02)
print("ready", flush=True)
time.sleep(60)
"""


def test_a_run_whose_process_was_killed_is_interrupted(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with subprocess.Popen(
        [sys.executable, "-c", RUN, str(folder)], stdout=subprocess.PIPE, text=True
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().strip() == "ready"
            alive = vf.load(folder)
            assert repr(alive).startswith("Run(run: running, 1 of 2")
            assert set(alive.frame("traces")["state"]) == {"completed", "running"}
            assert vf.runs(tmp_path)["state"][0] == "running"  # type: ignore[operator]
        finally:
            process.send_signal(signal.SIGKILL)
    dead = vf.load(folder)
    assert repr(dead).startswith("Run(run: interrupted, 2 of 2")
    assert "1 cancelled" in str(dead)
    assert dead.complete is False
    assert set(dead.frame("traces")["state"]) == {"completed", "interrupted"}
    assert dead.frame("runs")[["state", "running"]].iloc[0].tolist() == ["interrupted", 0]
    assert vf.runs(tmp_path)["state"][0] == "interrupted"  # type: ignore[operator]
    assert (dead.summary.scored, dead.summary.cancelled) == (1, 1)
