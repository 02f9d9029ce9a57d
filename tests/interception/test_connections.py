"""The server's connections over raw sockets: odd, broken, slow and impatient clients."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from support.rollouts import Served, body, post, served, until
from support.upstream import Say, Upstream

from vfnb import loops
from vfnb.clients import Scripted
from vfnb.interception import Server, Session
from vfnb.trace import Trace
from vfnb.types import Messages

Talk = Callable[[asyncio.StreamReader, asyncio.StreamWriter], Awaitable[Any]]


def talk(port: int, work: Talk) -> Any:
    """Run `work` on a fresh connection, from a loop of its own."""

    async def main() -> Any:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        try:
            return await asyncio.wait_for(work(reader, writer), 10)
        finally:
            writer.close()

    return asyncio.run(main())


def request(rollout: Served, payload: bytes, *lines: str, method: str = "POST", length: bool = True) -> bytes:
    head = [
        f"{method} /v1/chat/completions HTTP/1.1",
        "Host: x",
        f"Authorization: Bearer {rollout.session.key}",
    ]
    head += [*lines, *([f"Content-Length: {len(payload)}"] if length else [])]
    return "\r\n".join([*head, "", ""]).encode() + payload


def say(data: bytes) -> Talk:
    async def work(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bytes:
        writer.write(data)
        return await reader.read()

    return work


async def answer(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """One answer with a length."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
    return int(head[9:12]), await reader.readexactly(length)


RAW = json.dumps(body()).encode()


@pytest.mark.parametrize(
    "broken",
    [
        b"hello\r\n\r\n",
        b"\x16\x03\x01\x02\x00\x01\x00",
        b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: x\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nContent-Length: 1\r\nTransfer-Encoding: chunked\r\n\r\n",
        b"POST /v1/chat/completions HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n",
        b"GET / HTTP/1.1\r\nX: " + b"y" * 200_000,
        b"CONNECT example.test:443 HTTP/1.1\r\n\r\n",
    ],
)
def test_what_is_not_http_is_400_and_the_connection_closes(broken: bytes) -> None:
    with Upstream() as upstream, served(upstream.url) as rollout:
        got = talk(rollout.pool.ports[0], say(broken))
        assert got.startswith(b"HTTP/1.1 400 Bad Request\r\n") and b"Connection: close" in got
        assert b"not an HTTP request" in got
        assert post(rollout, body())[0][0] == 200


def test_a_chunked_upload_in_small_pieces_with_trailers() -> None:
    with Upstream() as upstream, served(upstream.url) as rollout:

        async def work(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> tuple[int, bytes]:
            head = request(rollout, b"", "Transfer-Encoding: chunked", length=False)
            pieces = [RAW[at : at + 7] for at in range(0, len(RAW), 7)]
            data = head + b"".join(b"%x;n=1\r\n%b\r\n" % (len(piece), piece) for piece in pieces)
            data += b"0\r\nX-Checksum: 1\r\nAuthorization: Bearer other\r\n\r\n"
            for at in range(0, len(data), 11):
                writer.write(data[at : at + 11])
                await asyncio.sleep(0)
            return await answer(reader)

        status, _ = talk(rollout.pool.ports[0], work)
        assert status == 200 and upstream.calls[0].body["messages"] == body()["messages"]


def test_pipelined_requests_are_answered_in_their_order() -> None:
    texts = [f"q{index}" for index in range(20)]
    pace = lambda data, number: Say("A" + data["messages"][0]["content"], delay=0.05 if number == 0 else 0)  # noqa: E731
    with Upstream(pace) as upstream, served(upstream.url) as rollout:
        asked = [json.dumps(body([{"role": "user", "content": text}])).encode() for text in texts]

        async def work(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[str]:
            writer.write(b"".join(request(rollout, one) for one in asked))
            answers = [json.loads((await answer(reader))[1]) for _ in texts]
            return [one["choices"][0]["message"]["content"] for one in answers]

        assert talk(rollout.pool.ports[0], work) == ["A" + text for text in texts]


def test_a_broken_request_behind_a_good_one_does_not_spoil_its_answer() -> None:
    with Upstream([Say(delay=0.1)]) as upstream, served(upstream.url) as rollout:
        got = talk(rollout.pool.ports[0], say(request(rollout, RAW) + b"nonsense\r\n\r\n"))
        first, _, second = got.partition(b"HTTP/1.1 400")
        assert first.startswith(b"HTTP/1.1 200") and b'"hello"' in first and b"not an HTTP" in second


def test_a_client_that_waits_for_100_continue_behind_another_request() -> None:
    with Upstream([Say(delay=0.1)]) as upstream, served(upstream.url) as rollout:

        async def work(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> list[Any]:
            waiting = request(rollout, RAW, "Expect: 100-continue")
            writer.write(request(rollout, RAW) + waiting[: -len(RAW)])
            first = await answer(reader)
            told = await reader.readuntil(b"\r\n\r\n")
            writer.write(RAW)
            return [first[0], told, (await answer(reader))[0]]

        assert talk(rollout.pool.ports[0], work) == [200, b"HTTP/1.1 100 Continue\r\n\r\n", 200]


def test_a_client_that_waits_is_refused_before_it_sends() -> None:
    with Upstream() as upstream, served(upstream.url) as rollout:
        head = b"POST /v1/chat/completions HTTP/1.1\r\nExpect: 100-continue\r\nContent-Length: 999999\r\n\r\n"
        got = talk(rollout.pool.ports[0], say(head))
        assert got.startswith(b"HTTP/1.1 401") and b"100 Continue" not in got
        long = f"Content-Length: {1 << 40}"
        got = talk(
            rollout.pool.ports[0], say(request(rollout, b"", "Expect: 100-continue", long, length=False))
        )
        assert got.startswith(b"HTTP/1.1 413") and b"larger than" in got


def test_an_endless_upload_is_cut_off() -> None:
    async def main() -> tuple[bytes, float]:
        session = Session(Trace(), Scripted(["hi"]))
        server = Server({session.key: session}, body_limit=100_000)
        await server.start()
        reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
        head = f"POST /v1/chat/completions HTTP/1.1\r\nAuthorization: Bearer {session.key}\r\n"
        writer.write(head.encode() + b"Transfer-Encoding: chunked\r\n\r\n")
        start = time.monotonic()
        try:
            while True:
                writer.write(b"4000\r\n" + b"x" * 0x4000 + b"\r\n")
                await asyncio.wait_for(writer.drain(), 5)
                await asyncio.sleep(0.005)
        except ConnectionError:
            pass
        got = await reader.read(200) if not reader.exception() else b""
        writer.close()
        await session.close()
        await server.close()
        return got, time.monotonic() - start

    got, seconds = loops.engine().run(main())
    assert seconds < 5 and (got == b"" or got.startswith(b"HTTP/1.1 413"))


@pytest.mark.parametrize("upgrade", ["websocket", "h2c"])
def test_an_upgrade_with_a_body(upgrade: str) -> None:
    with Upstream() as upstream, served(upstream.url) as rollout:
        got = talk(
            rollout.pool.ports[0], say(request(rollout, RAW, "Connection: Upgrade", f"Upgrade: {upgrade}"))
        )
        status = int(got[9:12])
        assert status == (426 if upgrade == "websocket" else 200) and b"Connection: close" in got
        assert len(upstream.calls) == (status == 200)


def test_slow_and_idle_clients_are_let_go() -> None:
    async def main() -> list[float]:
        session = Session(Trace(), Scripted(["hi"], latency=0.6))
        server = Server({session.key: session}, idle=0.4, slow=0.2)
        await server.start()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nAuthorization: Bearer {session.key}\r\n".encode()

        async def until_closed(data: bytes, size: int = -1) -> float:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            start = time.monotonic()
            writer.write(data)
            got = await reader.read(size) if size > 0 else b""
            assert await reader.read() == b"" and got[:15] in (b"", b"HTTP/1.1 200 OK")
            writer.close()
            return time.monotonic() - start

        full = head + b"Content-Length: %d\r\n\r\n" % len(RAW) + RAW
        cases = [(b"",), (head,), (head + b"Content-Length: 9\r\n\r\nabc",), (full, 100_000)]
        times = await asyncio.gather(*(until_closed(*case) for case in cases))
        await session.close()
        await server.close()
        return list(times)

    idle, slow_head, slow_body, answered = loops.engine().run(main())
    assert 0.3 < idle < 2 and 0.15 < slow_head < 1 and 0.15 < slow_body < 1
    assert answered > 0.9  # 0.6 s of work count neither as slow nor as idle


def test_a_client_that_does_not_read_holds_nobody_else_up() -> None:
    text = "0123456789" * 400_000
    with Upstream([Say(text=text), "short"]) as upstream, served(upstream.url) as rollout:

        async def work(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> int:
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(request(rollout, RAW))
            await until(lambda: bool(rollout.trace.calls))
            quick = await asyncio.to_thread(post, rollout, body([{"role": "user", "content": "b"}]))
            assert quick[0][0] == 200 and b"short" in quick[0][1]
            writer.transport.resume_reading()  # type: ignore[attr-defined]
            status, got = await answer(reader)
            assert json.loads(got)["choices"][0]["message"]["content"] == text
            return status

        assert talk(rollout.pool.ports[0], work) == 200
        assert rollout.trace.calls[0].delivered


def test_a_client_that_hangs_up_while_its_answer_is_sent_did_not_get_it() -> None:
    with Upstream([Say(text="0123456789" * 2_000_000)]) as upstream, served(upstream.url) as rollout:

        async def work(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            writer.transport.pause_reading()  # type: ignore[attr-defined]
            writer.write(request(rollout, RAW))
            await until(lambda: bool(rollout.trace.calls))
            writer.transport.abort()

        talk(rollout.pool.ports[0], work)
        asyncio.run(until(lambda: not rollout.trace.calls[0].delivered))
        assert rollout.trace.calls[0].error is None


def test_closing_waits_for_answers_and_then_cuts() -> None:
    async def main() -> list[bytes]:
        async def reply(messages: Messages, **_: Any) -> str:
            await asyncio.sleep(0.2 if messages[-1].text == "a" else 30)
            return "quick"

        session = Session(Trace(), Scripted(reply))
        server = Server({session.key: session})
        await server.start()
        head = f"POST /v1/chat/completions HTTP/1.1\r\nAuthorization: Bearer {session.key}\r\n".encode()

        async def ask(text: str) -> bytes:
            reader, writer = await asyncio.open_connection("127.0.0.1", server.port)
            payload = json.dumps(body([{"role": "user", "content": text}])).encode()
            writer.write(head + b"Content-Length: %d\r\n\r\n" % len(payload) + payload)
            try:
                return await reader.read()
            except ConnectionError:
                return b""
            finally:
                writer.close()

        first = asyncio.create_task(ask("a"))
        await until(lambda: len(session.retries.flying) == 1)
        second = asyncio.create_task(ask("b"))
        await until(lambda: len(session.retries.flying) == 2)
        start = time.monotonic()
        await server.close(grace=0.5)
        assert time.monotonic() - start < 3
        answers = [await first, await second]
        await session.close()
        return answers

    quick, late = loops.engine().run(main())
    assert quick.startswith(b"HTTP/1.1 200") and b"quick" in quick and late == b""
