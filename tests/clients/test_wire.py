"""Upstream connections against servers that are scripted byte by byte."""

from __future__ import annotations

import asyncio
import json
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from vfnb.clients import ModelRequest, Relay
from vfnb.clients.connection import Connection
from vfnb.clients.wire import Garbled, Lost, Silent
from vfnb.clients.wires import BadUrl, NoConnection, place
from vfnb.dialects import Splitter, get
from vfnb.errors import UpstreamConnection, UpstreamMalformed

CHAT = get("chat")
Serve = Callable[[bytes, asyncio.StreamReader, asyncio.StreamWriter], Awaitable[None]]
OK = b"HTTP/1.1 200 OK\r\n"


class Origin:
    """A server that reads one request after another and lets `serve` answer each."""

    def __init__(self, serve: Serve) -> None:
        self.serve = serve
        self.heads: list[bytes] = []
        self.connections = 0
        self.port = 0

    async def client(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.connections += 1
        try:
            while not writer.is_closing():
                head = await reader.readuntil(b"\r\n\r\n")
                self.heads.append(head)
                length = int(head.lower().split(b"content-length: ")[1].split(b"\r\n")[0])
                await self.serve(await reader.readexactly(length), reader, writer)
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            writer.close()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"


@asynccontextmanager
async def origin(serve: Serve | bytes, tls: ssl.SSLContext | None = None) -> AsyncIterator[Origin]:
    async def write(body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert isinstance(serve, bytes)
        writer.write(serve)
        if b"Content-Length" not in serve and b"chunked" not in serve:
            writer.close()

    made = Origin(write if isinstance(serve, bytes) else serve)
    server = await asyncio.start_server(made.client, "127.0.0.1", 0, ssl=tls)
    made.port = server.sockets[0].getsockname()[1]
    try:
        yield made
    finally:
        server.close()


@asynccontextmanager
async def connection(timeout: float = 5.0) -> AsyncIterator[Connection]:
    made = Connection(timeout)
    try:
        yield made
    finally:
        await made.close()
        await asyncio.sleep(0.01)


def fetch(serve: Serve | bytes, *, timeout: float = 5.0) -> tuple[int, dict[str, str], bytes, int]:
    """Status, headers, body and the connections that stay open."""

    async def main() -> tuple[int, dict[str, str], bytes, int]:
        async with origin(serve) as server, connection(timeout) as http:
            answer = await http.send("POST", server.url, {}, b"{}")
            try:
                data = await answer.read()
            finally:
                answer.release()
            await asyncio.sleep(0.02)
            return answer.status, answer.headers, data, http.open

    return asyncio.run(main())


@pytest.mark.parametrize(
    ("raw", "body", "kept"),
    [
        (OK + b"Content-Length: 3\r\n\r\nabc", b"abc", 1),
        (OK + b"Content-Length: 0\r\n\r\n", b"", 1),
        (
            OK + b"Transfer-Encoding: chunked\r\n\r\n2\r\nab\r\n1;x=1\r\nc\r\n0\r\nX-Late: 1\r\n\r\n",
            b"abc",
            1,
        ),
        (OK + b"Content-Length: 3\r\nConnection: close\r\n\r\nabc", b"abc", 0),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 3\r\n\r\nabc", b"abc", 0),
        (OK + b"X: 1\r\n\r\nabc", b"abc", 0),
        (
            b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nA: b\r\n\r\n"
            + OK
            + b"Content-Length: 1\r\n\r\na",
            b"a",
            1,
        ),
        (b"HTTP/1.1 204 No Content\r\nContent-Length: 0\r\n\r\n", b"", 1),
        (OK + b"Content-Length: 3\r\n\r\nabcdef", b"abc", 0),
    ],
)
def test_forms_of_a_body(raw: bytes, body: bytes, kept: int) -> None:
    status, headers, data, stay = fetch(raw)
    assert status in (200, 204) and data == body and stay == kept
    assert "x-late" not in headers and "a" not in headers


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        (b"", Lost),
        (b"HTTP/1.1 200 OK\r\nContent-", Lost),
        (OK + b"Transfer-Encoding: chunked\r\n\r\n5\r\nab", Lost),
        (b"SSH-2.0-OpenSSH_9.6\r\n", Garbled),
        (OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n", Garbled),
        (b"HTTP/1.1 101 Switching\r\nUpgrade: websocket\r\nConnection: upgrade\r\n\r\n", Garbled),
    ],
)
def test_what_is_no_answer_is_told(raw: bytes, kind: type[Exception]) -> None:
    async def serve(body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(raw)
        await writer.drain()
        writer.close()

    with pytest.raises(kind):
        fetch(serve)


def test_silence_is_told_before_and_inside_an_answer() -> None:
    for raw in (b"", OK + b"Content-Length: 9\r\n\r\nabc"):

        async def serve(
            body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, raw: bytes = raw
        ) -> None:
            writer.write(raw)
            await reader.read()

        with pytest.raises(Silent):
            fetch(serve, timeout=0.15)


def test_bytes_now_and_then_are_not_silence() -> None:
    async def serve(body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b"Content-Length: 6\r\n\r\n")
        for _ in range(6):
            await asyncio.sleep(0.1)
            writer.write(b"x")

    assert fetch(serve, timeout=0.3)[2] == b"xxxxxx"


def test_a_connection_that_the_server_closed_while_idle_is_not_used() -> None:
    async def serve(body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b"Content-Length: 1\r\n\r\na")
        await writer.drain()
        if body == b"last":
            writer.close()

    async def main() -> int:
        async with origin(serve) as server, connection() as http:
            for body in (b"1", b"2", b"last", b"4", b"5"):
                answer = await http.send("POST", server.url, {}, body)
                assert await answer.read() == b"a"
                answer.release()
                await asyncio.sleep(0.02)
            return server.connections

    assert asyncio.run(main()) == 2


def test_at_once_means_one_connection_each_and_all_are_kept() -> None:
    async def serve(body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await asyncio.sleep(0.05)
        writer.write(OK + b"Content-Length: %d\r\n\r\n%b" % (len(body), body))

    async def main() -> tuple[int, int]:
        async with origin(serve) as server, connection() as http:

            async def one(number: int) -> None:
                answer = await http.send("POST", server.url, {}, b"%d" % number)
                assert await answer.read() == b"%d" % number
                answer.release()

            for _ in range(2):
                await asyncio.gather(*(one(number) for number in range(40)))
            return server.connections, http.open

    assert asyncio.run(main()) == (40, 40)


def test_an_upstream_that_is_faster_than_its_reader_is_made_to_wait() -> None:
    sent = 0

    async def serve(body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        nonlocal sent
        writer.write(OK + b"Transfer-Encoding: chunked\r\n\r\n")
        for _ in range(400):
            writer.write(b"10000\r\n" + b"x" * 0x10000 + b"\r\n")
            await writer.drain()
            sent += 0x10000
        writer.write(b"0\r\n\r\n")

    async def main() -> tuple[int, int]:
        async with origin(serve) as server, connection() as http:
            answer = await http.send("POST", server.url, {}, b"{}")
            await answer.head()
            await asyncio.sleep(0.5)
            early, size = sent, 0
            while data := await answer.readany():
                size += len(data)
            assert answer.ended
            answer.release()
            return early, size

    early, size = asyncio.run(main())
    assert early < 16 << 20 and size == 400 * 0x10000


def test_a_large_body_and_a_body_that_is_not_read_by_the_server() -> None:
    async def serve(body: bytes, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(OK + b"Content-Length: 8\r\n\r\n%8d" % len(body))

    async def main() -> bytes:
        async with origin(serve) as server, connection() as http:
            answer = await http.send("POST", server.url, {}, b"x" * 20_000_000)
            data = await answer.read()
            answer.release()
            return data

    assert asyncio.run(main()) == b"20000000"


def test_what_a_request_says() -> None:
    async def main() -> list[list[str]]:
        async with origin(OK + b"Content-Length: 0\r\n\r\n") as server, connection() as http:
            for url, headers in (
                (f"{server.url}/a b?q=1 2", {"X-One": "é", "User-Agent": "mine"}),
                (f"http://us%40er:p@127.0.0.1:{server.port}", {}),
                (f"http://u:p@127.0.0.1:{server.port}/", {"authorization": "Bearer k"}),
            ):
                answer = await http.send("POST", url, headers, b"{}")
                await answer.read()
                answer.release()
            with pytest.raises(ValueError, match="line break"):
                await http.send("POST", server.url, {"X": "a\r\nY: b"}, b"")
            return [head.decode().split("\r\n") for head in server.heads]

    first, second, third = asyncio.run(main())
    assert first[0] == "POST /a%20b?q=1%202 HTTP/1.1"
    assert first[1].startswith("Host: 127.0.0.1:") and "Accept-Encoding: identity" in first
    assert "User-Agent: mine" in first and "User-Agent: vfnb" not in first and "X-One: é" in first
    assert "Authorization: Basic dXNAZXI6cA==" in second and second[0] == "POST / HTTP/1.1"
    assert "authorization: Bearer k" in third and not any("Basic" in line for line in third)


def test_urls() -> None:
    assert place("http://[::1]:8000/v1").headers["host"] == b"Host: [::1]:8000\r\n"
    assert place("https://example.test/v1").origin == ("https", "example.test", 443)
    assert place("https://bücher.test").headers["host"] == b"Host: xn--bcher-kva.test\r\n"
    for url in ("ftp://x", "http://", "http://x:99999", "http://x:y"):
        with pytest.raises(BadUrl):
            place(url)


def test_nobody_listens() -> None:
    async def main() -> None:
        async with connection() as http:
            with pytest.raises(NoConnection):
                await http.send("POST", "http://127.0.0.1:9", {}, b"")

    asyncio.run(main())


def request() -> ModelRequest:
    raw = json.dumps({"model": "m", "messages": [{"role": "user", "content": "hi"}]}).encode()
    return ModelRequest(CHAT, raw, Splitter(CHAT).split(raw), model="m")


COMPLETION = b'{"choices":[{"message":{"role":"assistant","content":"yes"},"finish_reason":"stop"}]}'
ANSWER = OK + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(COMPLETION) + COMPLETION


async def ask(url: str, **keys: Any) -> str:
    relay = Relay("m", base_url=url, api_key_var=None, max_retries=0, **keys)
    try:
        reply = await relay.call(request())
        assert reply.response is not None
        return reply.response.text
    finally:
        await relay.close()
        await asyncio.sleep(0.01)


def test_a_relay_says_that_a_server_does_not_speak_http() -> None:
    async def main() -> None:
        async with origin(b"220 mail.example.test ESMTP\r\n") as server:
            with pytest.raises(UpstreamMalformed, match="does not speak HTTP"):
                await ask(server.url)

    asyncio.run(main())


def test_a_proxy_of_the_environment_is_used(monkeypatch: pytest.MonkeyPatch) -> None:
    async def main() -> list[bytes]:
        async with origin(ANSWER) as proxy:
            monkeypatch.setenv("http_proxy", proxy.url)
            monkeypatch.setenv("no_proxy", "direct.test")
            assert await ask("http://far.test/v1") == "yes"
            with pytest.raises(UpstreamConnection, match="no connection"):
                await ask("http://direct.test:9")
            return proxy.heads

    (head,) = asyncio.run(main())
    assert head.startswith(b"POST http://far.test/v1/chat/completions HTTP/1.1\r\n")
    assert b"User-Agent: vfnb" in head


@pytest.mark.skipif(shutil.which("openssl") is None, reason="needs openssl to make a certificate")
def test_tls_is_checked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    files = tmp_path / "key.pem", tmp_path / "cert.pem"
    command = "openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=localhost"
    command += " -addext subjectAltName=DNS:localhost"
    subprocess.run([*command.split(), "-keyout", files[0], "-out", files[1]], check=True, capture_output=True)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    tls.load_cert_chain(files[1], files[0])

    async def main() -> str:
        async with origin(ANSWER, tls) as server:
            with pytest.raises(UpstreamConnection, match="CERTIFICATE_VERIFY_FAILED"):
                await ask(f"https://localhost:{server.port}")
            monkeypatch.setenv("SSL_CERT_FILE", str(files[1]))
            return await ask(f"https://localhost:{server.port}")

    assert asyncio.run(main()) == "yes"
