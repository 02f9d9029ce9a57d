"""A closed-loop load generator, in a process of its own.

Reads one JSON line with the job, warms up, prints a JSON line, waits for a line, then runs and prints the figures:
count, bad, wall_s, rps, p50_ms, p99_ms, first_ms (median time to the first byte of the body).

A job: dialect, url, keys, connections, requests (in all), warm (in all), stream, start_bytes (size of a request),
turn_bytes (0: every request is new; else each connection is one conversation that grows by the reply and so many
bytes).
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from typing import Any
from urllib.parse import urlsplit

from benchmarks.forms import FORMS
from benchmarks.net.mock import filler

WORDS = "The quick brown fox jumps over the lazy dog. "


class Connection(asyncio.Protocol):
    """Sends a request and resolves when the reply is complete."""

    transport: asyncio.Transport
    done: asyncio.Future[int]

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    async def ask(self, request: bytes) -> int:
        """The status of the reply."""
        self.buffer = bytearray()
        self.status, self.end, self.chunked, self.body, self.first = 0, -1, False, 0, 0.0
        self.done = asyncio.get_running_loop().create_future()
        self.transport.write(request)
        return await self.done

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        if not self.status:
            head = self.buffer.find(b"\r\n\r\n")
            if head < 0:
                return
            headers = bytes(self.buffer[:head]).lower()
            self.status, self.body = int(headers[9:12]), head + 4
            self.chunked = b"transfer-encoding: chunked" in headers
            if not self.chunked:
                length = headers.split(b"content-length:")[1].split(b"\r\n")[0]
                self.end = head + 4 + int(length)
        if not self.first and len(self.buffer) > self.body:
            self.first = time.perf_counter()
        complete = self.buffer.endswith(b"\r\n0\r\n\r\n") if self.chunked else len(self.buffer) >= self.end
        if complete and not self.done.done():
            self.done.set_result(self.status)

    def connection_lost(self, error: Exception | None) -> None:
        if hasattr(self, "done") and not self.done.done():
            self.done.set_exception(ConnectionError(f"the server closed the connection: {error}"))


class Requests:
    """The requests of one connection."""

    def __init__(self, job: dict[str, Any], index: int) -> None:
        url = urlsplit(job["url"])
        key = job["keys"][index % len(job["keys"])]
        self.head = (
            f"POST {url.path} HTTP/1.1\r\nHost: {url.netloc}\r\nAuthorization: Bearer {key}\r\n"
            "Content-Type: application/json\r\nContent-Length: "
        )
        self.form = FORMS[job["dialect"]]
        self.front = self.form.front(stream=job["stream"])
        self.growing = job["turn_bytes"]
        self.size = job["start_bytes"]
        self.name = f"{os.getpid()}-{index}"
        self.count = 0
        self.reply = self.entries({"role": "assistant", "content": filler(job["reply_bytes"])})
        self.history = ""

    def entries(self, message: dict[str, Any]) -> str:
        """A message as entries of the history."""
        return ", ".join(json.dumps(item) for item in self.form.items(message))

    def next(self) -> bytes:
        """One HTTP request."""
        size = self.growing if self.growing and self.count else self.size
        text = f"{self.name}-{self.count} " + (WORDS * (size // len(WORDS) + 1))[:size]
        message = self.entries({"role": "user", "content": text})
        self.count += 1
        if self.growing and self.history:
            message = f"{self.history}, {self.reply}, {message}"
        if self.growing:
            self.history = message
        body = f"{self.front}{message}]}}".encode()
        return f"{self.head}{len(body)}\r\n\r\n".encode() + body


async def run(job: dict[str, Any]) -> dict[str, float]:
    url = urlsplit(job["url"])
    loop = asyncio.get_running_loop()
    count = job["connections"]
    senders = []
    for index in range(count):
        _, connection = await loop.create_connection(Connection, url.hostname, url.port)
        senders.append((connection, Requests(job, index)))
    times: list[float] = []
    firsts: list[float] = []
    bad = 0

    async def send(connection: Connection, requests: Requests, quota: int, record: bool) -> None:
        nonlocal bad
        request = requests.next()
        for _ in range(quota):
            start = time.perf_counter()
            status = await connection.ask(request)
            end = time.perf_counter()
            bad += status != 200
            if record:
                times.append(end - start)
                firsts.append(connection.first - start)
            request = requests.next()

    async def everybody(total: int, record: bool) -> None:
        quota = max(1, total // count)
        await asyncio.gather(*(send(*sender, quota, record) for sender in senders))

    await everybody(job["warm"], record=False)
    print(json.dumps({"warm": True}), flush=True)
    await loop.run_in_executor(None, sys.stdin.readline)
    start = time.perf_counter()
    await everybody(job["requests"], record=True)
    wall = time.perf_counter() - start
    times.sort()
    firsts.sort()
    return {
        "count": len(times),
        "bad": bad,
        "wall_s": wall,
        "rps": len(times) / wall,
        "p50_ms": 1000 * times[len(times) // 2],
        "p99_ms": 1000 * times[min(len(times) - 1, int(0.99 * len(times)))],
        "first_ms": 1000 * firsts[len(firsts) // 2],
    }


if __name__ == "__main__":
    print("{}", flush=True)
    print(json.dumps(asyncio.run(run(json.loads(sys.stdin.readline())))), flush=True)
    sys.stdin.readline()  # stay until told, so that the caller can look at this process
