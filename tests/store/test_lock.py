"""The write lock: refused by name while its owner lives, taken over when it is dead."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from vfnb.errors import StoreError, StoreLocked
from vfnb.store.lock import STALE_S, Owner, RunLock, read_owner

HOLD = """
import sys, time
from pathlib import Path
from vfnb.store.lock import RunLock
RunLock.take(Path(sys.argv[1]))
print("held", flush=True)
time.sleep(60)
"""

FORK = """
import os, sys, time
from pathlib import Path
from vfnb.store.lock import RunLock
RunLock.take(Path(sys.argv[1]))
if os.fork() == 0:
    sys.stdout.close()
    time.sleep(60)
    os._exit(0)
print("held", flush=True)
os._exit(0)
"""


def holder(path: Path, program: str = HOLD) -> subprocess.Popen[str]:
    child = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
    assert child.stdout is not None
    assert child.stdout.readline() == "held\n"
    return child


def test_take_and_release_leave_nothing(tmp_path: Path) -> None:
    lock = RunLock.take(tmp_path / "lock")
    owner = read_owner(tmp_path / "lock")
    assert owner is not None
    assert owner.pid == os.getpid()
    assert owner.host == socket.gethostname()
    lock.beat()
    lock.release()
    lock.release()
    assert list(tmp_path.iterdir()) == []


def test_second_process_is_refused_by_name(tmp_path: Path) -> None:
    child = holder(tmp_path / "lock")
    try:
        with pytest.raises(StoreLocked) as caught:
            RunLock.take(tmp_path / "lock")
    finally:
        child.kill()
        child.communicate()
    text = str(caught.value)
    assert f"process {child.pid} on {socket.gethostname()} since " in text
    assert "vfnb.load(" in text
    assert "dir=" in text


def test_same_process_is_refused(tmp_path: Path) -> None:
    lock = RunLock.take(tmp_path / "lock")
    with pytest.raises(StoreLocked, match="this very process"):
        RunLock.take(tmp_path / "lock")
    lock.release()
    RunLock.take(tmp_path / "lock").release()


def test_killed_owner_is_taken_over_at_once(tmp_path: Path) -> None:
    child = holder(tmp_path / "lock")
    child.kill()
    child.communicate()
    assert read_owner(tmp_path / "lock") is not None
    lock = RunLock.take(tmp_path / "lock")
    owner = read_owner(tmp_path / "lock")
    assert owner is not None
    assert owner.pid == os.getpid()
    lock.release()


def test_dead_owner_whose_child_lives_on_is_taken_over(tmp_path: Path) -> None:
    child = holder(tmp_path / "lock", FORK)
    child.wait()
    lock = RunLock.take(tmp_path / "lock")
    with pytest.raises(StoreLocked):
        RunLock.take(tmp_path / "lock")
    lock.release()
    assert child.stdout is not None
    child.stdout.close()


def write(path: Path, owner: Owner, age: float = 0.0) -> None:
    path.write_bytes(json.dumps({name: getattr(owner, name) for name in Owner.__struct_fields__}).encode())
    os.utime(path, (time.time() - age, time.time() - age))


def test_reused_pid_is_another_process(tmp_path: Path) -> None:
    mine = RunLock.take(tmp_path / "probe").owner
    reused = Owner(pid=mine.pid, host=mine.host, since=0.0, born="1", space=mine.space, token="x")
    write(tmp_path / "lock", reused)
    RunLock.take(tmp_path / "lock").release()


def test_other_host_is_judged_by_its_heartbeat(tmp_path: Path) -> None:
    other = Owner(pid=1, host="elsewhere", since=time.time() - 1000, token="x")
    write(tmp_path / "lock", other, age=1.0)
    with pytest.raises(StoreLocked, match="process 1 on elsewhere since"):
        RunLock.take(tmp_path / "lock")
    write(tmp_path / "lock", other, age=STALE_S + 1)
    RunLock.take(tmp_path / "lock").release()


def test_torn_lock_of_a_dead_owner_is_taken_over(tmp_path: Path) -> None:
    (tmp_path / "lock").write_bytes(b'{"pid": 12')
    RunLock.take(tmp_path / "lock").release()


def test_heartbeat_moves_and_notices_a_takeover(tmp_path: Path) -> None:
    path = tmp_path / "lock"
    lock = RunLock.take(path)
    os.utime(path, (1.0, 1.0))
    lock.beat()
    assert path.stat().st_mtime > time.time() - 5
    path.unlink()
    with pytest.raises(StoreError, match="removed"):
        lock.beat()
    write(path, Owner(pid=7, host="elsewhere", since=time.time(), token="y"))
    with pytest.raises(StoreError, match="taken over by process 7 on elsewhere"):
        lock.beat()
    lock.release()
    assert path.exists()  # another one's by now


def test_unwritable_folder_is_a_store_error(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="writable"):
        RunLock.take(tmp_path / "absent" / "lock")
