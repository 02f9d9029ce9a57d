"""A run's folder that fills up, goes away or cannot be: a clear error, nothing taken for stored, no lock left."""

from __future__ import annotations

import logging
import os
import shutil
import sqlite3
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import vfnb as vf
from vfnb.errors import ConfigError, StoreError


def tasks(n: int) -> list[vf.Task]:
    return [vf.Task(vf.TaskData(idx=idx, prompt=f"p{idx}")) for idx in range(n)]


def start(folder: Path, n: int = 3, **options: Any) -> vf.Run:
    options.setdefault("model", vf.Scripted(lambda messages: "a"))
    return vf.evaluate(tasks(n), dir=folder, **options)


def long_answer(messages: vf.Messages) -> str:
    return os.urandom(15_000).hex()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("needs the right to mount")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


def test_a_full_disk_ends_the_run_and_a_larger_one_resumes_it(
    small_disk: Path, caplog: pytest.LogCaptureFixture
) -> None:
    folder = small_disk / "run"
    run = start(folder, 100, model=vf.Scripted(long_answer), concurrency=4)
    with pytest.raises(StoreError, match="free some space"):
        run.wait(30, quiet=True)
    assert not run.complete
    assert "never retrieved" not in caplog.text
    kept = len([trace for trace in vf.load(folder).traces if trace.end_state == "completed"])
    assert 0 < kept < 100
    subprocess.run(["mount", "-o", "remount,size=40m", str(small_disk)], check=True)
    again = start(folder, 100, model=vf.Scripted(long_answer)).wait(60, quiet=True)
    assert again.complete
    assert {trace.end_state for trace in again.traces} == {"completed"}
    again.close()
    run.close()


def test_a_folder_deleted_meanwhile_is_no_finished_run(tmp_path: Path) -> None:
    run = start(tmp_path / "run", 20, model=vf.Scripted(lambda messages: "a", latency=0.1), concurrency=5)
    time.sleep(0.1)
    shutil.rmtree(tmp_path / "run")
    with pytest.raises(StoreError, match=r"removed|deleted"):
        run.wait(30, quiet=True)
    assert not run.complete
    assert start(tmp_path / "run").wait(30, quiet=True).complete


def test_a_database_replaced_meanwhile_is_no_finished_run(tmp_path: Path) -> None:
    run = start(tmp_path / "run", 10, model=vf.Scripted(lambda messages: "a", latency=0.1), concurrency=5)
    time.sleep(0.1)
    file = tmp_path / "run" / "run.sqlite"
    file.rename(file.with_name("old.sqlite"))
    file.write_bytes(b"")
    with pytest.raises(StoreError, match="replaced"):
        run.wait(30, quiet=True)
    assert not (tmp_path / "run" / "lock").exists()


def test_a_client_that_cannot_close_leaves_no_lock(tmp_path: Path) -> None:
    class Stuck(vf.Scripted):
        async def close(self) -> None:
            raise OSError("cannot close")

    run = start(tmp_path / "run", model=Stuck(lambda messages: "a"))
    with pytest.raises(OSError, match="cannot close"):
        run.wait(30, quiet=True)
    assert start(tmp_path / "run").wait(30, quiet=True).complete


@pytest.mark.parametrize("name", ["a\0b", "half \ud800", "x" * 300])
def test_names_that_no_folder_has(tmp_path: Path, name: str) -> None:
    with pytest.raises(StoreError, match="choose another dir="):
        start(tmp_path / name)


def test_a_folder_with_an_odd_name(tmp_path: Path) -> None:
    run = start(tmp_path / "a b?#%é'\";x\n").wait(30, quiet=True)
    assert len(vf.load(run.dir).traces) == 3


@pytest.mark.parametrize("content", [b"", b"hello" * 1000, b"SQLite format 3\0" + b"\xff" * 4096])
def test_a_file_that_is_no_run(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "run.sqlite").write_bytes(content)
    with pytest.raises(StoreError):
        vf.load(tmp_path).summary  # noqa: B018
    assert start(tmp_path, fresh=True).wait(30, quiet=True).complete


def test_pages_overwritten_in_a_run(tmp_path: Path) -> None:
    start(tmp_path, 40).wait(30, quiet=True).close()
    file = tmp_path / "run.sqlite"
    content = bytearray(file.read_bytes())
    for at in range(4096, len(content), 8192):
        content[at : at + 2000] = os.urandom(2000)
    file.write_bytes(content)
    for look in (lambda: vf.load(tmp_path).rewards, lambda: start(tmp_path, 40)):
        with pytest.raises(StoreError):
            look()
    assert start(tmp_path, fresh=True).wait(30, quiet=True).complete
    with pytest.raises(sqlite3.DatabaseError):
        sqlite3.connect(next(tmp_path.glob("run-*.sqlite"))).execute("SELECT * FROM traces").fetchall()


@pytest.mark.parametrize(
    "options",
    [
        {"rollouts": "3"},
        {"concurrency": None},
        {"retries": "x"},
        {"retries": 0.5},
        {"max_tokens": -1},
        {"max_tokens": "5"},
        {"max_cost": float("nan")},
        {"max_cost": "1"},
        {"harness": "../x"},
        {"harness": vf.Harness},
        {"timeouts": {"agent": float("nan")}},
    ],
)
def test_settings_of_a_wrong_kind_are_refused_by_name(tmp_path: Path, options: dict[str, Any]) -> None:
    name = next(iter(options))
    with pytest.raises(ConfigError, match=rf"{name}|import"):
        start(tmp_path, **options)


def test_a_folder_that_is_no_path() -> None:
    with pytest.raises(ConfigError, match="dir=5"):
        start(5)  # type: ignore[arg-type]


def test_what_nobody_waits_for_is_not_printed(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.ERROR, "asyncio"):
        run = start(tmp_path / "run", 300, model=vf.Scripted(lambda messages: "a", latency=0.05))
        time.sleep(0.2)
        run.cancel()
        import gc

        gc.collect()
    assert caplog.text == ""


def test_a_saved_config_that_is_no_toml(tmp_path: Path) -> None:
    start(tmp_path).wait(30, quiet=True)
    (tmp_path / "config.toml").write_text("x = [[[")
    with pytest.raises(StoreError, match=r"config\.toml.*delete it"):
        vf.load(tmp_path)
    assert start(tmp_path).wait(30, quiet=True).complete
    assert len(vf.load(tmp_path).traces) == 3
