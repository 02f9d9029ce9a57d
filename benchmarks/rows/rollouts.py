"""Rows 8, 9 and 16: whole rollouts. Costs of one rollout are slopes between a short and a long run."""

from __future__ import annotations

import asyncio
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from urllib.parse import urlsplit

import psutil

from benchmarks.measure import Figures, Metric, Row, Sides
from benchmarks.net.load import Connection, Requests
from benchmarks.peer import setup
from benchmarks.processes import ROOT, environment, helper, python

__all__ = ["ROWS"]

FEW, MANY = 64, 256
Command = Callable[[str, int, int, str], tuple[list[str], dict[str, str]]]


def our_command(url: str, count: int, concurrency: int, runtime: str) -> tuple[list[str], dict[str, str]]:
    return [*python("ours.rollouts"), url, str(count), str(concurrency), runtime], {}


def peer_command(url: str, count: int, concurrency: int, runtime: str) -> tuple[list[str], dict[str, str]]:
    harness = {"inprocess": "inprocess_bench", "subprocess": "null"}[runtime]
    command = [str(setup.PYTHON.with_name("vf-eval")), "addition_bench", "--env.agent.harness.id", harness]
    command += ["--env.agent.runtime.type", "subprocess", "-m", "mock", "--client.base-url", url]
    command += ["--client.api-key-var", "BENCH_KEY", "-n", str(count), "-c", str(concurrency)]
    command += ["--no-push", "--no-rich", "-o", tempfile.mkdtemp(prefix="vfnb-bench-")]
    plugins = f"{ROOT}:{ROOT / 'benchmarks' / 'peer' / 'plugins'}"
    path = f"{setup.PYTHON.parent}:{Path('/usr/bin')}:{Path('/bin')}"
    return command, {"PYTHONPATH": plugins, "BENCH_KEY": "none", "PATH": path}


def watch(command: list[str], extra: dict[str, str]) -> Figures:
    """CPU of a program and its children, wall time, peak memory of the program, memory of its largest child.

    A child counts by what was seen last: just after a fork it still looks as large as its parent.

    Raises:
        RuntimeError: if it fails; the message has the end of its output.
    """
    with tempfile.TemporaryFile("w+") as output:
        start = time.perf_counter()
        child = psutil.Popen(command, env=environment(extra), stdout=output, stderr=output)
        main = 0
        children: dict[int, int] = {}
        before = _children_cpu()
        while child.poll() is None:
            with suppress(psutil.Error):  # one may end between two looks
                main = max(main, child.memory_info().rss)
                for process in child.children(recursive=True):
                    children[process.pid] = process.memory_info().rss
            time.sleep(0.02)
        wall = time.perf_counter() - start
        if child.returncode != 0:
            output.seek(0)
            raise RuntimeError(f"{command} ended with status {child.returncode}:\n{output.read()[-3000:]}")
    return {
        "cpu_s": _children_cpu() - before,
        "wall_s": wall,
        "main_mb": main / 2**20,
        "child_mb": max(children.values(), default=0) / 2**20,
    }


def _children_cpu() -> float:
    import resource

    usage = resource.getrusage(resource.RUSAGE_CHILDREN)
    return usage.ru_utime + usage.ru_stime


def slope(command: Command, url: str, concurrency: int, runtime: str, few: int, many: int) -> Figures:
    """Cost of one more rollout."""
    short, long = (watch(*command(url, count, concurrency, runtime)) for count in (few, many))
    more = many - few
    return {
        "cpu_ms": 1000 * (long["cpu_s"] - short["cpu_s"]) / more,
        "per_s": more / max(1e-9, long["wall_s"] - short["wall_s"]),
        "child_mb": long["child_mb"],
    }


def hop(url: str) -> float:
    """CPU ms of one request on a bare connection: what a rollout of one call cannot do without."""

    async def ask(count: int) -> float:
        parts = urlsplit(url)
        _, connection = await asyncio.get_running_loop().create_connection(
            Connection, parts.hostname, parts.port
        )
        job = {"url": f"{url}/chat/completions", "keys": ["none"], "stream": False, "turn_bytes": 0}
        requests = Requests(job | {"start_bytes": 20, "reply_bytes": 20}, 0)
        start = time.process_time()
        for _ in range(count):
            await connection.ask(requests.next())
        return 1000 * (time.process_time() - start) / count

    return asyncio.run(ask(500))


@contextmanager
def open_inprocess(peer: bool) -> Iterator[Sides]:
    with helper(python("net.mock")) as mock:
        url = mock.ready["url"]

        def side(command: Command) -> Figures:
            at_32, at_128 = (slope(command, url, count, "inprocess", FEW, MANY) for count in (32, 128))
            return {"cpu_32": at_32["cpu_ms"], "cpu_128": at_128["cpu_ms"], "per_s": at_32["per_s"]}

        def floor() -> Figures:
            spent = hop(url)
            return {"cpu_32": spent, "cpu_128": spent, "per_s": 1000 / spent}

        sides: Sides = {"floor": floor, "ours": lambda: side(our_command)}
        yield sides | {"peer": lambda: side(peer_command)} if peer else sides


@contextmanager
def open_subprocess(peer: bool) -> Iterator[Sides]:
    # The upstream takes its time, so that a program is seen while it waits.
    with helper([*python("net.mock"), "--delay", 0.3]) as mock:
        url = mock.ready["url"]

        def side(command: Command) -> Figures:
            return slope(command, url, 4, "subprocess", 8, 24)

        def floor() -> Figures:
            figures = watch(
                [sys.executable, "-I", "-S", "-c", "import json, http.client, time; time.sleep(0.1)"], {}
            )
            return {"cpu_ms": 1000 * figures["cpu_s"], "child_mb": figures["main_mb"]}

        sides: Sides = {"floor": floor, "ours": lambda: side(our_command)}
        yield sides | {"peer": lambda: side(peer_command)} if peer else sides


@contextmanager
def open_memory(peer: bool) -> Iterator[Sides]:
    with helper([*python("net.mock"), "--delay", 5]) as mock:
        url = mock.ready["url"]

        def side(command: Command) -> Figures:
            one, many = (watch(*command(url, count, count, "inprocess"))["main_mb"] for count in (1, MANY))
            return {"base_mb": one, "flight_kb": 1024 * (many - one) / (MANY - 1)}

        sides: Sides = {"ours": lambda: side(our_command)}
        yield sides | {"peer": lambda: side(peer_command)} if peer else sides


ROWS = [
    Row(
        "8",
        "rollout with the null harness in process, stored; floor: one request on a bare connection",
        [
            Metric("cpu_32", "CPU of a rollout, 32 at a time", "ms", 6.0),
            Metric("cpu_128", "CPU of a rollout, 128 at a time", "ms", 6.0),
            Metric("per_s", "rollouts a second at 32", "/s", 150, more_is_better=True),
        ],
        open_inprocess,
    ),
    Row(
        "9",
        "rollout with the null harness as a program; floor: Python with json and http.client",
        [
            Metric("cpu_ms", "CPU of a rollout, program included", "ms", 120),
            Metric("child_mb", "memory of the program", "MB", 22),
        ],
        open_subprocess,
    ),
    Row(
        "16",
        "memory",
        [
            Metric("base_mb", "of a run with one rollout", "MB", 90),
            Metric("flight_kb", "per rollout in flight", "kB", 100),
        ],
        open_memory,
    ),
]
