"""Helper processes of a measurement, and what they cost. Linux only: the figures come from /proc."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

__all__ = ["ROOT", "Helper", "Usage", "cpu_s", "helper", "json_program", "peak_mb", "rss_mb", "spend"]

ROOT = Path(__file__).resolve().parents[1]


def cpu_s(pid: int) -> float:
    """CPU seconds that all threads of a process have used."""
    total = 0
    for task in Path(f"/proc/{pid}/task").iterdir():
        total += int((task / "schedstat").read_text().split()[0])
    return total / 1e9


def rss_mb(pid: int | str = "self") -> float:
    """Resident memory now, in MiB."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20


def peak_mb(pid: int | str = "self") -> float:
    """Highest resident memory so far, in MiB."""
    for line in Path(f"/proc/{pid}/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return int(line.split()[1]) / 1024
    raise RuntimeError(f"process {pid} has ended")


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """Ours, with the project importable and bytecode written."""
    result = os.environ | {"PYTHONPATH": str(ROOT)} | dict(extra or {})
    result.pop("PYTHONDONTWRITEBYTECODE", None)
    return result


def python(name: str, interpreter: Path | str = sys.executable) -> list[str]:
    """The command of one of our modules."""
    return [str(interpreter), "-m", f"benchmarks.{name}"]


def json_program(
    command: Sequence[object], extra: Mapping[str, str] | None = None, timeout_s: float = 600
) -> dict[str, float]:
    """Run a program whose last line of output is a JSON object of figures."""
    done = subprocess.run(
        [str(part) for part in command],
        env=environment(extra),
        capture_output=True,
        text=True,
        timeout=timeout_s,
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command} ended with status {done.returncode}:\n{done.stderr[-3000:]}")
    result: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    return result


@dataclass(frozen=True)
class Usage:
    """What one finished program has cost."""

    cpu_s: float
    wall_s: float
    status: int


def spend(
    command: Sequence[object], extra: Mapping[str, str] | None = None, cwd: Path | None = None
) -> Usage:
    """Run a program to its end and count the CPU time of it and its children."""
    start = time.perf_counter()
    child = subprocess.Popen(
        [str(part) for part in command],
        env=environment(extra),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        cwd=cwd,
    )
    _, status, usage = os.wait4(child.pid, 0)
    child.returncode = os.waitstatus_to_exitcode(status)
    wall = time.perf_counter() - start
    return Usage(usage.ru_utime + usage.ru_stime, wall, child.returncode)


@dataclass
class Helper:
    """A running process that said one JSON line when it was ready."""

    process: subprocess.Popen[str]
    ready: dict[str, Any]

    @property
    def pid(self) -> int:
        return self.process.pid

    def ask(self, line: str = "") -> dict[str, Any]:
        """Write a line to it and read one JSON line."""
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self._read()

    def _read(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        while line := self.process.stdout.readline():
            if line.startswith("{"):
                answer: dict[str, Any] = json.loads(line)
                return answer
        raise RuntimeError(f"a helper ended early: {self.process.args!r}")


@contextmanager
def helper(command: Sequence[object], extra: Mapping[str, str] | None = None) -> Iterator[Helper]:
    """Start a helper process, wait for its first JSON line, end it at exit."""
    process = subprocess.Popen(
        [str(part) for part in command],
        env=environment(extra),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        bufsize=1,
    )
    result = Helper(process, {})
    try:
        result.ready = result._read()
        yield result
    finally:
        process.kill()
        process.communicate()
