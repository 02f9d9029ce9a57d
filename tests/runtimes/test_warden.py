"""A process that is killed with its programs running: nothing of them is left."""

from __future__ import annotations

import asyncio
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from vfnb import loops
from vfnb.runtimes import SubprocessRuntime, warden

# Leaves processes behind in every way there is, each with its number in a file, and sleeps.
PROGRAM = """
import os, subprocess, sys, time
pids = sys.argv[1]

def note(pid):
    with open(pids, "a") as file:
        file.write(f"{pid}\\n")

def daemon(then):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            note(os.getpid())
            then()
            time.sleep(300)
        os._exit(0)
    os.wait()

def hidden():  # nothing of the box is left in its environment, session, folder or files
    os.chdir("/")
    os.closerange(0, 64)
    os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(300)"], {})

note(os.getpid())
daemon(lambda: None)
daemon(lambda: os.closerange(0, 64))
daemon(hidden)
note(subprocess.Popen(["sleep", "300"], env={}, start_new_session=True).pid)
time.sleep(0.1)
open(pids + ".ready", "a").write("x")
time.sleep(300)
"""
OWNER = """
import multiprocessing, os, sys, time, tempfile
tempfile.tempdir = sys.argv[2]
import vfnb as vf

class Sleepers(vf.Taskset):
    def load(self):
        return [vf.Task(vf.TaskData(prompt="sleep")) for _ in range(2)]

if __name__ == "__main__":
    harness = vf.Program([sys.executable, "-c", sys.argv[3], sys.argv[1]])
    run = vf.evaluate(Sleepers(), model=vf.Scripted(["x"]), harness=harness, dir=sys.argv[2] + "/run")
    while not os.path.exists(sys.argv[1] + ".ready") or os.path.getsize(sys.argv[1] + ".ready") < 2:
        time.sleep(0.02)
    forked = multiprocessing.get_context("fork").Process(target=time.sleep, args=(60,))
    forked.start()
    other = __import__("subprocess").Popen(["sleep", "60"])
    print(forked.pid, other.pid, flush=True)
    time.sleep(60)
"""


def alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def within(seconds: float, condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.02)
    return condition()


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_a_killed_process_leaves_no_program_and_no_folder(tmp_path: Path, number: signal.Signals) -> None:
    pids = tmp_path / "pids"
    command = [sys.executable, "-c", OWNER, str(pids), str(tmp_path), PROGRAM]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, start_new_session=True) as owner:
        assert owner.stdout is not None
        others = [int(pid) for pid in owner.stdout.readline().split()]
        assert len(others) == 2, "it did not start"
        owner.send_signal(number)
        assert owner.wait(10) == -number
        programs = [int(pid) for pid in pids.read_text().split()]
        assert len(programs) == 10
        try:
            assert within(5, lambda: not any(map(alive, programs)))
            assert within(5, lambda: not list(tmp_path.glob("vfnb-box-*")))
            assert all(map(alive, others)), "only programs of boxes are ended"
        finally:
            for pid in others:
                os.kill(pid, signal.SIGKILL)


def test_only_registered_folders_of_boxes_are_removed(tmp_path: Path) -> None:
    for name in ("vfnb-box-mine", "vfnb-box-other", "elsewhere"):
        (tmp_path / name / "deep").mkdir(parents=True)
    (tmp_path / "vfnb-box-mine" / "deep").chmod(0o500)
    (tmp_path / "vfnb-box-link").symlink_to(tmp_path / "elsewhere")
    code = (
        "import os, sys; from pathlib import Path; from vfnb.runtimes import warden\n"
        "for name in ('vfnb-box-mine', 'elsewhere', 'vfnb-box-link', 'vfnb-box-gone'):\n"
        "    warden.current().watch(Path(sys.argv[1]) / name)\n"
        "warden.current().forget(Path(sys.argv[1]) / 'vfnb-box-gone')\n"
        "os.kill(os.getpid(), 9)\n"
    )
    (tmp_path / "vfnb-box-gone").mkdir()
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=False)
    assert within(5, lambda: not (tmp_path / "vfnb-box-mine").exists())
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {"vfnb-box-other", "vfnb-box-link", "vfnb-box-gone", "elsewhere"}
    assert (tmp_path / "elsewhere" / "deep").is_dir()


def test_it_starts_beside_the_engine_loop_and_ends_with_its_owner(tmp_path: Path) -> None:
    code = (
        "import asyncio, sys, tempfile, time; tempfile.tempdir = sys.argv[1]\n"
        "from vfnb import loops; from vfnb.runtimes import SubprocessRuntime, warden\n"
        "runtime = SubprocessRuntime()\n"
        "async def longest():\n"
        "    work, worst, last = asyncio.ensure_future(runtime.start()), 0.0, time.thread_time()\n"
        "    while not work.done():\n"
        "        await asyncio.sleep(0)\n"
        "        now = time.thread_time(); worst = max(worst, now - last); last = now\n"
        "    return worst\n"
        "print(loops.engine().run(longest()), warden.current().pid)\n"
        "loops.engine().run(runtime.stop())\n"
    )
    done = subprocess.run(
        [sys.executable, "-X", "dev", "-c", code, str(tmp_path)], capture_output=True, text=True, check=True
    )
    worst, pid = done.stdout.split()
    assert float(worst) < 0.02  # of the loop's own time: the wall has other tests on it
    assert done.stderr == ""
    assert within(5, lambda: not alive(int(pid)))


def test_a_killed_warden_is_replaced_with_the_next_folder(tmp_path: Path) -> None:
    owner = warden.Warden()
    owner.watch(tmp_path / "vfnb-box-1")
    first = owner.pid
    assert first is not None
    os.kill(first, signal.SIGKILL)
    assert within(5, lambda: not alive(first))
    (tmp_path / "vfnb-box-1").mkdir()
    (tmp_path / "vfnb-box-2").mkdir()
    owner.watch(tmp_path / "vfnb-box-2")
    second = owner.pid
    assert second not in (None, first)
    owner.close()
    assert within(5, lambda: not list(tmp_path.iterdir()))


def _box_of_a_fork(answer: multiprocessing.SimpleQueue[int]) -> None:
    answer.put(warden.current().number)


def test_a_forked_child_has_a_warden_of_its_own() -> None:
    answer: multiprocessing.SimpleQueue[int] = multiprocessing.get_context("fork").SimpleQueue()
    warden.current().guard()
    child = multiprocessing.get_context("fork").Process(target=_box_of_a_fork, args=(answer,))
    child.start()
    child.join(10)
    assert answer.get() != warden.current().number


def test_stop_finds_what_cleared_its_environment_and_left_its_session(tmp_path: Path) -> None:
    pids = tmp_path / "pids"

    async def main() -> None:
        runtime = SubprocessRuntime()
        await runtime.start()
        try:
            program = await runtime.run([sys.executable, "-c", PROGRAM, str(pids)], background=True)
            await asyncio.to_thread(within, 10, Path(f"{pids}.ready").exists)
            assert program.running
        finally:
            await runtime.stop()

    loops.engine().run(main())
    assert not any(alive(int(pid)) for pid in pids.read_text().split())


def test_a_warden_that_fell_behind_does_not_take_its_owner_for_dead(tmp_path: Path) -> None:
    guard = warden.Warden()
    program = subprocess.Popen(["sleep", "60"], env={**os.environ, **guard.guard()})
    first = guard.pid
    assert first is not None
    os.kill(first, signal.SIGSTOP)
    number = 0
    while guard.pid == first and number < 20_000:  # until its pipe is full and another takes over
        guard.watch(tmp_path / f"{warden.FOLDER}{number}")
        number += 1
    assert guard.pid != first
    os.kill(first, signal.SIGCONT)
    psutil.wait_procs([psutil.Process(first)] if psutil.pid_exists(first) else [], timeout=15)
    try:
        assert program.poll() is None
    finally:
        program.kill()
        program.wait()
        guard.close()
