"""Programs in a box of their own: what they see, how they end, what is left of them."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import psutil
import pytest

from vfnb import loops
from vfnb.errors import MissingFile, RuntimeFault, TooLarge
from vfnb.runtimes import SubprocessConfig, SubprocessRuntime
from vfnb.runtimes.subprocess import MARKER

# Goes to the background twice over: a session of its own, and reparented.
DAEMON = """
import os, sys, time
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        if "quiet" in sys.argv:
            os.close(0); os.close(1); os.close(2)
        time.sleep(300)
    os._exit(0)
os.wait()
print("started", flush=True)
"""
STUBBORN = """
import signal, time
signal.signal(signal.SIGTERM, signal.SIG_IGN)
print("ready", flush=True)
time.sleep(300)
"""


def children() -> list[psutil.Process]:
    """Living processes that this test's boxes started."""
    here = tempfile.gettempdir()
    found = []
    for process in psutil.process_iter():
        with contextlib.suppress(psutil.Error):
            environ = process.environ()
            mine = MARKER in environ and environ["HOME"].startswith(here)
            if mine and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
    return found


async def until(condition: Callable[[], object]) -> None:
    """Poll for at most ten seconds."""
    for _ in range(1000):
        if condition():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("it did not happen in ten seconds")


def are_folders(paths: list[str]) -> bool:
    return all(Path(path).is_dir() for path in paths)


def folders() -> set[Path]:
    return set(Path(tempfile.gettempdir()).glob("vfnb-box-*"))


@pytest.fixture(autouse=True)
def _nothing_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))  # counts only this test's folders
    yield
    assert children() == []
    assert folders() == set()


@asynccontextmanager
async def box(**settings: Any) -> AsyncIterator[SubprocessRuntime]:
    runtime = SubprocessRuntime(SubprocessConfig(grace=0.3, **settings))
    await runtime.start()
    try:
        yield runtime
    finally:
        await runtime.stop()


def test_output_status_and_time() -> None:
    async def main() -> None:
        async with box() as runtime:
            done = await runtime.run(["sh", "-c", "echo out; echo err >&2; exit 3"])
            assert (done.returncode, done.stdout, done.stderr) == (3, "out\n", "err\n")
            assert not done.ok
            assert not done.timed_out
            assert 0 < done.duration_s < 10
            assert (done.stdout_dropped, done.stderr_dropped) == (0, 0)
            assert (await runtime.run(["true"])).ok

    asyncio.run(main())


def test_standard_input_is_empty() -> None:
    async def main() -> None:
        async with box() as runtime:
            assert (await runtime.run(["cat"], timeout=10)).stdout == ""

    asyncio.run(main())


def test_own_folder_home_and_scrubbed_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-live")
    monkeypatch.setenv("MY_SERVICE_TOKEN", "t0ken")
    monkeypatch.setenv("EXTRA_SETTING", "kept")
    monkeypatch.setenv("WANTED_KEY", "passed")

    async def main() -> None:
        async with box(pass_env=["WANTED_KEY"], env={"FROM_CONFIG": "1"}) as runtime:
            shown = (await runtime.run(["env"], {"FROM_CALL": "2"})).stdout
            seen = dict(line.split("=", 1) for line in shown.splitlines() if "=" in line)
            assert "sk-live" not in shown
            assert "t0ken" not in shown
            assert seen["EXTRA_SETTING"] == "kept"
            assert seen["WANTED_KEY"] == "passed"
            assert (seen["FROM_CONFIG"], seen["FROM_CALL"]) == ("1", "2")
            assert seen["PATH"] == os.environ["PATH"]
            where = (await runtime.run(["sh", "-c", "pwd; cd; pwd; echo $TMPDIR"])).stdout.split()
            assert len(set(where)) == 3
            assert are_folders(where)
            assert str(Path.home()) not in where

    asyncio.run(main())


def test_files_are_relative_to_the_working_folder() -> None:
    async def main() -> None:
        async with box() as runtime:
            await runtime.write("in/data.txt", b"content")
            assert (await runtime.run(["cat", "data.txt"], cwd="in")).stdout == "content"
            await runtime.run(["sh", "-c", "printf result > out.bin"])
            assert await runtime.read("out.bin") == b"result"
            assert await runtime.read(Path("in") / "data.txt") == b"content"

    asyncio.run(main())


def test_file_errors_name_path_and_fix(tmp_path: Path) -> None:
    outside = tmp_path / "outside.txt"
    outside.write_bytes(b"host")

    async def main() -> None:
        async with box() as runtime:
            with pytest.raises(MissingFile, match=r"no file answer\.txt in the runtime"):
                await runtime.read("answer.txt")
            with pytest.raises(FileNotFoundError):
                await runtime.read("/no/such/file")
            with pytest.raises(RuntimeFault, match="leaves the runtime's folder"):
                await runtime.write("../../escape.txt", b"")
            with pytest.raises(RuntimeFault, match="use a relative path"):
                await runtime.write(outside, b"")
            with pytest.raises(RuntimeFault, match="cannot read in"):
                await runtime.write("in/file", b"")
                await runtime.read("in")
            assert await runtime.read(outside) == b"host"

    asyncio.run(main())


def test_missing_program_folder_and_permission() -> None:
    async def main() -> None:
        async with box() as runtime:
            with pytest.raises(
                RuntimeFault, match="program 'no-such-program' not found; install it"
            ) as caught:
                await runtime.run(["no-such-program"])
            assert not caught.value.retryable
            with pytest.raises(RuntimeFault, match=r"working folder .*nowhere does not exist"):
                await runtime.run(["true"], cwd="nowhere")
            await runtime.write("script.sh", b"#!/bin/sh\n")
            with pytest.raises(RuntimeFault, match="may not be run; make it executable"):
                await runtime.run(["./script.sh"])
            with pytest.raises(RuntimeFault, match=r"use shlex\.split"):
                await runtime.run("echo hi")
            with pytest.raises(RuntimeFault, match="must be a list"):
                await runtime.run([])

    asyncio.run(main())


def test_long_output_keeps_start_and_end() -> None:
    async def main() -> None:
        async with box(output_limit=10_000) as runtime:
            program = "print('START'); print('x' * 5_000_000); print('END')"
            done = await runtime.run([sys.executable, "-c", program])
            assert done.stdout.startswith("START\n")
            assert done.stdout.endswith("END\n")
            assert done.stdout_dropped == 5_000_000 + len("START\n\nEND\n") - 10_000
            assert f"{done.stdout_dropped} bytes left out" in done.stdout
            assert len(done.stdout) < 10_100

    asyncio.run(main())


def test_timeout_is_a_result_and_ends_the_group() -> None:
    async def main() -> None:
        async with box() as runtime:
            start = time.monotonic()
            done = await runtime.run(["sh", "-c", "echo before; sleep 300 & sleep 300"], timeout=0.3)
            assert time.monotonic() - start < 5
            assert done.timed_out
            assert done.stdout == "before\n"
            assert done.returncode is not None
            assert done.returncode < 0
            assert children() == []

    asyncio.run(main())


def test_program_that_ignores_sigterm_is_killed() -> None:
    async def main() -> None:
        async with box() as runtime:
            done = await runtime.run([sys.executable, "-c", STUBBORN], timeout=1.5)
            assert done.timed_out
            assert done.returncode == -9
            assert done.stdout == "ready\n"

    asyncio.run(main())


def test_child_in_the_background_does_not_hold_up_the_result() -> None:
    async def main() -> None:
        async with box() as runtime:
            start = time.monotonic()
            done = await runtime.run(["sh", "-c", "sleep 300 & echo done"])
            assert time.monotonic() - start < 5
            assert done.ok
            assert done.stdout == "done\n"
            assert len(children()) == 1

    asyncio.run(main())


@pytest.mark.parametrize("mode", ["quiet", "loud"])
def test_stop_finds_daemons(mode: str) -> None:
    async def main() -> None:
        async with box() as runtime:
            done = await runtime.run([sys.executable, "-c", DAEMON, mode])
            assert done.stdout == "started\n"
            assert len(children()) == 1

    asyncio.run(main())


def test_background_program_is_watched_and_ended() -> None:
    async def main() -> None:
        async with box() as runtime:
            server = await runtime.run(["sh", "-c", "echo up; sleep 300"], background=True)
            await until(lambda: server.result().stdout == "up\n")
            assert server.running
            assert server.result().returncode is None
            with pytest.raises(TimeoutError, match=f"pid {server.pid}"):
                await server.wait(timeout=0.1)
            other = await runtime.run(["sh", "-c", "exit 4"], background=True)
            assert (await other.wait(timeout=10)).returncode == 4
            assert (await server.stop()).returncode == -15
            last = await runtime.run(["sleep", "300"], background=True)
            assert last.running
        assert not last.running

    asyncio.run(main())


def test_cancelled_run_ends_the_program() -> None:
    async def main() -> None:
        async with box() as runtime:
            running = asyncio.ensure_future(runtime.run(["sh", "-c", "sleep 300"]))
            await until(children)
            running.cancel()
            with pytest.raises(asyncio.CancelledError):
                await running
            await until(lambda: not children())

    asyncio.run(main())


def test_run_cancelled_while_it_starts_leaves_nothing() -> None:
    async def main() -> None:
        async with box() as runtime:
            for steps in range(8):
                await loops.engine().do(cancel_after(runtime, steps))
            await until(lambda: not children())
            gc.collect()

    async def cancel_after(runtime: SubprocessRuntime, steps: int) -> None:
        task = asyncio.ensure_future(runtime.run(["sleep", "300"]))
        for _ in range(steps):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    asyncio.run(main())


def test_works_from_every_loop() -> None:
    async def use(runtime: SubprocessRuntime) -> str:
        await runtime.write("f", b"x")
        return (await runtime.run(["cat", "f"])).stdout

    async def main() -> None:
        async with box() as runtime:
            assert await use(runtime) == "x"
            assert await loops.engine().do(use(runtime)) == "x"
            assert await loops.user().do(use(runtime)) == "x"

    asyncio.run(main())


def test_stopped_runtime_runs_nothing_and_stops_twice() -> None:
    async def main() -> None:
        runtime = SubprocessRuntime()
        await runtime.stop()
        await runtime.start()
        await runtime.stop()
        await runtime.stop()
        runtime.cleanup()
        with pytest.raises(RuntimeFault, match="the runtime is stopped"):
            await runtime.run(["true"])

    asyncio.run(main())


def test_cleanup_is_immediate_and_idempotent() -> None:
    async def main() -> SubprocessRuntime:
        runtime = SubprocessRuntime()
        await runtime.start()
        await runtime.run([sys.executable, "-c", DAEMON, "quiet"])
        await runtime.run(["sleep", "300"], background=True)
        return runtime

    runtime = asyncio.run(main())
    assert len(children()) == 2
    runtime.cleanup()
    runtime.cleanup()
    asyncio.run(until(lambda: not children()))


def test_folder_with_unwritable_parts_is_removed() -> None:
    async def main() -> None:
        async with box() as runtime:
            await runtime.run(["sh", "-c", "mkdir -p a/b && touch a/b/f && chmod 500 a/b a"])

    asyncio.run(main())


def test_leaving_the_interpreter_removes_the_folder(tmp_path: Path) -> None:
    program = (
        "import asyncio\nfrom vfnb.runtimes import SubprocessRuntime\n"
        "runtime = SubprocessRuntime()\nasyncio.run(runtime.start())\n"
        "import pathlib, tempfile; print(len(list(pathlib.Path(tempfile.gettempdir()).glob('vfnb-box-*'))))"
    )
    done = subprocess.run(
        [sys.executable, "-c", program],
        env=os.environ | {"TMPDIR": str(tmp_path)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == "1\n"
    assert list(tmp_path.glob("vfnb-box-*")) == []


def test_many_programs_at_once() -> None:
    async def main() -> None:
        async with box() as runtime:
            jobs = [runtime.run(["sh", "-c", f"sleep 0.05; echo {number}"]) for number in range(30)]
            done = await asyncio.gather(*jobs)
            assert [one.stdout for one in done] == [f"{number}\n" for number in range(30)]

    asyncio.run(main())


def test_only_regular_files_are_read_and_written() -> None:
    make = (
        "import os, socket; os.mkfifo('pipe'); os.mkfifo('read'); socket.socket(socket.AF_UNIX).bind('sock');"
        "os.symlink('pipe', 'link')"
    )

    async def main() -> None:
        async with box() as runtime:
            assert (await runtime.run([sys.executable, "-c", make])).ok
            reader = await runtime.run(["cat", "read"], background=True)
            for name in ("pipe", "link", "sock", "read", "/dev/zero"):
                async with asyncio.timeout(5):
                    with pytest.raises(RuntimeFault, match="pipe, socket or device"):
                        await runtime.read(name)
                    with pytest.raises(RuntimeFault, match=r"pipe, socket or device|outside"):
                        await runtime.write(name, b"x")
            await reader.stop()

    asyncio.run(main())


def test_a_file_over_the_limit_is_refused_without_reading_it() -> None:
    async def main() -> None:
        async with box(file_limit=1000) as runtime:
            await runtime.run(
                ["sh", "-c", "truncate -s 1T sparse; printf %1000s x > full; printf %1001s x > over"]
            )
            assert len(await runtime.read("full")) == 1000
            for name in ("sparse", "over", "/proc/self/maps"):
                with pytest.raises(TooLarge, match="raise the runtime's file_limit"):
                    await runtime.read(name)
            await runtime.write("over", b"short")
            assert await runtime.read("over") == b"short"
            assert await runtime.read("/proc/self/comm")

    asyncio.run(main())
