"""Calls through the server: ours beside a bare aiohttp pass-through, in processes of their own.

Rows 5, 6, 7 and 17 of the performance table. `relayed`, `first_byte` and `conversation` are called by the table;
`python -m benchmarks.interception` prints them alone.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

__all__ = ["conversation", "first_byte", "relayed"]

_TEXT = "The quick brown fox jumps over the lazy dog. "
_USAGE = {"prompt_tokens": 64, "completion_tokens": 32, "total_tokens": 96}
_KEYS = 128


# The upstream: no framework, so that it does not limit the others.


def _sse(pieces: int) -> list[bytes]:
    base = {"id": "c1", "object": "chat.completion.chunk", "created": 1700000000, "model": "mock"}
    step = max(1, 400 // pieces)
    text = (_TEXT * 10)[:400]
    events = []
    for start in range(0, 400, step):
        delta: dict[str, str] = {"content": text[start : start + step]}
        if not start:
            delta["role"] = "assistant"
        events.append({**base, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    events.append({**base, "choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    events.append({**base, "choices": [], "usage": _USAGE})
    frames = [b"data: " + json.dumps(event).encode() + b"\n\n" for event in events] + [b"data: [DONE]\n\n"]
    return [b"%x\r\n%s\r\n" % (len(frame), frame) for frame in frames] + [b"0\r\n\r\n"]


class _Upstream(asyncio.Protocol):
    def __init__(self, pause: float) -> None:
        self._pause = pause
        self._data = b""
        self._need = 0
        body = json.dumps(
            {
                "id": "c1",
                "object": "chat.completion",
                "created": 1700000000,
                "model": "mock",
                "choices": [
                    {
                        "index": 0,
                        "message": {"role": "assistant", "content": (_TEXT * 10)[:400]},
                        "finish_reason": "stop",
                    }
                ],
                "usage": _USAGE,
            }
        ).encode()
        head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        self._whole = head + body
        self._head = (
            b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        )
        self._frames = _sse(32)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._pieces: list[bytes] = []
        self._have = 0

    def data_received(self, data: bytes) -> None:
        self._pieces.append(data)
        self._have += len(data)
        if not self._need:
            joined = b"".join(self._pieces)
            end = joined.find(b"\r\n\r\n")
            if end < 0:
                return
            head = joined[:end].lower()
            at = head.index(b"content-length:") + 15
            self._need = end + 4 + int(head[at:].split(b"\r\n", 1)[0])
        if self._have >= self._need:
            body = b"".join(self._pieces)
            self._pieces, self._have, self._need = [], 0, 0
            self._answer(b'"stream":true' in body[-256:])

    def _answer(self, stream: bool) -> None:
        if not stream:
            self._transport.write(self._whole)
        elif self._pause:
            loop = asyncio.get_running_loop()
            self._transport.write(self._head)
            for number, frame in enumerate(self._frames):
                loop.call_later(number * self._pause, self._transport.write, frame)
        else:
            self._transport.write(self._head + b"".join(self._frames))


# The two servers between.


def _report() -> None:
    """Answer each line on stdin with the CPU seconds so far."""

    def main() -> None:
        for _ in sys.stdin:
            print(time.process_time(), flush=True)

    threading.Thread(target=main, daemon=True).start()


async def _role_upstream(pause: float) -> None:
    server = await asyncio.get_running_loop().create_server(
        lambda: _Upstream(pause), "127.0.0.1", 0, backlog=1024
    )
    print(json.dumps({"url": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"}), flush=True)
    await server.serve_forever()


async def _role_aiohttp(upstream: str) -> None:
    import aiohttp
    from aiohttp import web

    session = aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0))

    async def serve(request: web.BaseRequest) -> web.StreamResponse:
        body = await request.content.read()
        async with session.post(
            upstream + request.path, data=body, headers={"Authorization": "Bearer k"}
        ) as answer:
            if answer.content_type != "text/event-stream":
                return web.Response(body=await answer.read(), content_type="application/json")
            response = web.StreamResponse(headers={"Content-Type": "text/event-stream"})
            await response.prepare(request)
            async for chunk in answer.content.iter_any():
                await response.write(chunk)
            await response.write_eof()
            return response

    runner = web.ServerRunner(web.Server(serve, access_log=None))
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    port = runner.addresses[0][1]
    _report()
    print(json.dumps({"url": f"http://127.0.0.1:{port}", "keys": ["k"] * _KEYS}), flush=True)
    await asyncio.Event().wait()


async def _role_ours(upstream: str) -> None:
    import vfnb.clients.relay as relay
    from vfnb.interception import ServerPool, Session
    from vfnb.store import RunStore, TraceRow
    from vfnb.trace import Trace

    client = relay.Relay("mock", base_url=upstream + "/v1")
    pool = ServerPool(per_server=_KEYS)
    keys = []
    with tempfile.TemporaryDirectory() as folder:
        store = RunStore.create_or_open(folder, {})
        for number in range(_KEYS):
            trace = Trace(id=f"t{number}")
            await store.begin_trace(TraceRow(id=trace.id, episode=trace.id))
            session = Session(trace, client, journal=store)
            endpoint = await pool.register(session)
            keys.append(session.key)
        _report()
        print(json.dumps({"url": endpoint.base_url, "keys": keys}), flush=True)
        await asyncio.Event().wait()


# The load.


class _Caller(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport: Any = transport
        self._done: asyncio.Future[None] | None = None

    def data_received(self, data: bytes) -> None:
        if self.first is None:
            self.first = time.perf_counter()
        self._have += len(data)
        self._tail += data
        if self._chunked is None:
            end = self._tail.find(b"\r\n\r\n")
            if end < 0:
                return
            head = self._tail[:end].lower()
            self.status = int(head[9:12])
            self._chunked = b"chunked" in head
            if not self._chunked:
                at = head.index(b"content-length:") + 15
                self._need = end + 4 + int(head[at:].split(b"\r\n", 1)[0])
        self._tail = self._tail[-16:]
        over = self._tail.endswith(b"0\r\n\r\n") if self._chunked else self._have >= self._need
        if over and self._done is not None and not self._done.done():
            self._done.set_result(None)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._done is not None and not self._done.done():
            self._done.set_exception(ConnectionError(str(exc)))

    async def ask(self, raw: bytes) -> int:
        self.first: float | None = None
        self.status = self._have = self._need = 0
        self._tail = b""
        self._chunked: bool | None = None
        self._done = asyncio.get_running_loop().create_future()
        self._transport.write(raw)
        await self._done
        return self.status

    def close(self) -> None:
        self._transport.close()


def _request(host: str, key: str, body: bytes) -> bytes:
    head = (
        f"POST /v1/chat/completions HTTP/1.1\r\nHost: {host}\r\nAuthorization: Bearer {key}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    return head.encode() + body


async def _load(job: dict[str, Any]) -> dict[str, Any]:
    host = job["url"].removeprefix("http://")
    name, _, port = host.partition(":")
    pad = (_TEXT * (job["size"] // len(_TEXT) + 1))[: job["size"]]
    latencies: list[float] = []
    firsts: list[float] = []
    bad = 0

    async def caller(number: int, count: int, record: bool) -> None:
        nonlocal bad
        _, connection = await asyncio.get_running_loop().create_connection(_Caller, name, int(port))
        for turn in range(count):
            message = {"role": "user", "content": f"{record} {number} {turn} {pad}"}
            body = json.dumps(
                {"model": "mock", "messages": [message], "stream": job["stream"]}, separators=(",", ":")
            )
            raw = _request(host, job["keys"][number], body.encode())
            start = time.perf_counter()
            bad += await connection.ask(raw) != 200
            if record:
                latencies.append(time.perf_counter() - start)
                firsts.append((connection.first or start) - start)
        connection.close()

    at_once = job["concurrency"]
    await asyncio.gather(*(caller(number, 3, False) for number in range(at_once)))
    print("WARM", flush=True)
    sys.stdin.readline()
    start = time.perf_counter()
    await asyncio.gather(*(caller(number, job["requests"] // at_once, True) for number in range(at_once)))
    wall = time.perf_counter() - start
    latencies.sort()
    return {
        "n": len(latencies),
        "bad": bad,
        "per_second": len(latencies) / wall,
        "p50": statistics.median(latencies),
        "p99": latencies[int(len(latencies) * 0.99)],
        "first": statistics.median(firsts),
    }


async def _talk(job: dict[str, Any]) -> dict[str, Any]:
    """One conversation whose history comes back with every turn."""
    host = job["url"].removeprefix("http://")
    name, _, port = host.partition(":")
    _, connection = await asyncio.get_running_loop().create_connection(_Caller, name, int(port))
    answer = {"role": "assistant", "content": (_TEXT * 10)[:400]}
    pad = _TEXT * (job["size"] // len(_TEXT))
    messages: list[dict[str, str]] = []
    bodies = []
    for turn in range(job["turns"]):
        messages.append({"role": "user", "content": f"{turn} {pad}"})
        bodies.append(json.dumps({"model": "mock", "messages": messages}).encode())
        messages.append(answer)
    print("WARM", flush=True)
    sys.stdin.readline()
    start = time.perf_counter()
    times = []
    bad = 0
    for body in bodies:
        before = time.perf_counter()
        bad += await connection.ask(_request(host, job["keys"][0], body)) != 200
        times.append(time.perf_counter() - before)
    connection.close()
    return {
        "n": len(bodies),
        "bad": bad,
        "seconds": time.perf_counter() - start,
        "last": statistics.median(times[-9:]),
        "last_bytes": len(bodies[-1]),
    }


# The parent.


@contextmanager
def _process(*role: str) -> Iterator[tuple[Any, dict[str, Any]]]:
    child = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.interception", *role],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    assert child.stdout is not None and child.stdin is not None
    try:
        yield child, json.loads(child.stdout.readline())
    finally:
        child.kill()
        child.wait()
        child.stdin.close()
        child.stdout.close()


def _cpu(child: Any) -> float:
    child.stdin.write("\n")
    child.stdin.flush()
    return float(child.stdout.readline())


def _drive(server: Any, job: dict[str, Any], kind: str = "load") -> dict[str, Any]:
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.interception", kind],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as load:
        assert load.stdin is not None and load.stdout is not None
        load.stdin.write(json.dumps(job) + "\n")
        load.stdin.flush()
        load.stdout.readline()
        before = _cpu(server)
        load.stdin.write("\n")
        load.stdin.flush()
        result: dict[str, Any] = json.loads(load.stdout.readline())
        result["cpu"] = (_cpu(server) - before) / result["n"]
    return result


def relayed(
    *,
    sizes: tuple[int, ...] = (1024,),
    streams: tuple[bool, ...] = (False, True),
    concurrencies: tuple[int, ...] = (1, 32, 128),
    requests: int = 2000,
    runs: int = 3,
) -> list[dict[str, Any]]:
    """CPU seconds per call of the server's process, calls per second, latencies in seconds: ours and aiohttp's.

    Each row has `ours`, `aiohttp` (medians of `runs`, alternating) and `ratio` of their CPU times.
    """
    rows = []
    with (
        _process("upstream", "0") as (_, upstream),
        _process("ours", upstream["url"]) as (ours, ours_at),
        _process("aiohttp", upstream["url"]) as (plain, plain_at),
    ):
        for stream in streams:
            for size in sizes:
                for at_once in concurrencies:
                    count = max(at_once * 2, min(requests, int(2e8 / max(size, 1024 * 16))))
                    job = {"size": size, "stream": stream, "concurrency": at_once, "requests": count}
                    mine, other = [], []
                    for _ in range(runs):
                        mine.append(_drive(ours, {**job, **ours_at}))
                        other.append(_drive(plain, {**job, **plain_at}))
                    row = {"size": size, "stream": stream, "concurrency": at_once}
                    row |= {"ours": _medians(mine), "aiohttp": _medians(other)}
                    row["ratio"] = row["ours"]["cpu"] / row["aiohttp"]["cpu"]
                    rows.append(row)
    return rows


def _medians(results: list[dict[str, Any]]) -> dict[str, float]:
    return {key: statistics.median(result[key] for result in results) for key in results[0]}


def first_byte(*, pause: float = 0.02, requests: int = 20) -> dict[str, float]:
    """Seconds to the first byte of a stream of 35 events `pause` apart: direct, ours, aiohttp."""
    with (
        _process("upstream", str(pause)) as (_, upstream),
        _process("ours", upstream["url"]) as (ours, ours_at),
        _process("aiohttp", upstream["url"]) as (plain, plain_at),
    ):
        job = {"size": 1024, "stream": True, "concurrency": 1, "requests": requests}
        mine = _drive(ours, {**job, **ours_at})
        other = _drive(plain, {**job, **plain_at})
        direct = _drive(plain, {**job, **upstream, "keys": ["k"] * _KEYS})
    return {"direct": direct["first"], "ours": mine["first"], "aiohttp": other["first"], "whole": mine["p50"]}


def conversation(*, turns: int = 200, size: int = 4000, runs: int = 3) -> dict[str, Any]:
    """Seconds of a conversation of `turns` turns through the server, history re-sent: ours and aiohttp's."""
    mine, other = [], []
    with (
        _process("upstream", "0") as (_, upstream),
        _process("ours", upstream["url"]) as (ours, ours_at),
        _process("aiohttp", upstream["url"]) as (plain, plain_at),
    ):
        for number in range(runs):
            job = {"turns": turns, "size": size}
            keys = {**ours_at, "keys": ours_at["keys"][number:]}
            mine.append(_drive(ours, {**job, **keys}, "talk"))
            other.append(_drive(plain, {**job, **plain_at}, "talk"))
    return {"ours": _medians(mine), "aiohttp": _medians(other)}


def main(argv: list[str]) -> None:
    """Play one role, or print all figures."""
    roles: dict[str, Callable[[], Any]] = {
        "upstream": lambda: asyncio.run(_role_upstream(float(argv[1]))),
        "aiohttp": lambda: asyncio.run(_role_aiohttp(argv[1])),
        "ours": lambda: asyncio.run(_role_ours(argv[1])),
        "load": lambda: print(json.dumps(asyncio.run(_load(json.loads(sys.stdin.readline())))), flush=True),
        "talk": lambda: print(json.dumps(asyncio.run(_talk(json.loads(sys.stdin.readline())))), flush=True),
    }
    if argv:
        roles[argv[0]]()
        return
    for row in relayed():
        print(_line(row))
    for row in relayed(sizes=(102_400, 1 << 20), streams=(False,), concurrencies=(1,), requests=200):
        print(_line(row))
    print("first byte, ms", {key: round(value * 1e3, 2) for key, value in first_byte().items()})
    print("200 turns", conversation())


def _line(row: dict[str, Any]) -> str:
    cells = [
        f"stream={row['stream']!s:5} size={row['size']:7} at_once={row['concurrency']:3} cpu x{row['ratio']:.2f}"
    ]
    for name in ("ours", "aiohttp"):
        part = row[name]
        cells.append(
            f"{name}: cpu {part['cpu'] * 1e3:.3f} ms, {part['per_second']:.0f}/s, p50 {part['p50'] * 1e3:.2f}, "
            f"p99 {part['p99'] * 1e3:.2f} ms, bad {part['bad']:.0f}"
        )
    return " | ".join(cells)


if __name__ == "__main__":
    main(sys.argv[1:])
