"""A fast stand-in for a model server that speaks all `FORMS`, in a process of its own.

    python -m benchmarks.net.mock --reply-bytes 400 --chunks 20 --chunk-delay 0.05

Prints one JSON line with its base URL. `What is A + B?` is answered with the sum, anything else with filler text.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re

from benchmarks.forms import FORMS

__all__ = ["filler"]

QUESTION = re.compile(rb"What is (\d+) \+ (\d+)\?")
MODELS = b'{"object":"list","data":[{"id":"mock","object":"model"}]}'
STREAM = re.compile(rb'"stream": ?true')
LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)


def filler(size: int) -> str:
    """The canned answer."""
    return ("lorem ipsum dolor sit amet " * (size // 27 + 1))[:size]


class Upstream(asyncio.Protocol):
    """One keep-alive connection; requests have a Content-Length."""

    transport: asyncio.Transport

    def __init__(self, args: argparse.Namespace) -> None:
        self.args = args
        self.buffer = bytearray()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.buffer += data
        while (head := self.buffer.find(b"\r\n\r\n")) >= 0:
            length = LENGTH.search(self.buffer, 0, head)
            end = head + 4 + (int(length[1]) if length else 0)
            if len(self.buffer) < end:
                return
            body = bytes(memoryview(self.buffer)[head + 4 : end])
            line = bytes(self.buffer[: self.buffer.find(b"\r\n")])
            del self.buffer[:end]
            self.answer(line, body)

    def answer(self, line: bytes, body: bytes) -> None:
        if line.startswith(b"GET "):
            self.transport.write(plain(MODELS))
            return
        form = next(form for form in FORMS.values() if form.path.encode() in line)
        text = self.text(body)
        if STREAM.search(body[:256]) or STREAM.search(body[-256:]):
            self.stream(form.events(text, self.args.chunks))
            return
        reply = plain(form.reply({"role": "assistant", "content": text}))
        if self.args.delay:
            asyncio.get_running_loop().call_later(self.args.delay, self.transport.write, reply)
        else:
            self.transport.write(reply)

    def text(self, body: bytes) -> str:
        found = QUESTION.findall(body[-4096:])
        return str(int(found[-1][0]) + int(found[-1][1])) if found else filler(self.args.reply_bytes)

    def stream(self, parts: list[bytes]) -> None:
        head = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
        chunks = [b"%x\r\n%b\r\n" % (len(part), part) for part in parts]
        chunks[-1] += b"0\r\n\r\n"
        if not self.args.chunk_delay:
            self.transport.write(head + b"".join(chunks))
            return
        loop = asyncio.get_running_loop()
        self.transport.write(head + chunks[0])
        for index, chunk in enumerate(chunks[1:], 1):
            loop.call_later(index * self.args.chunk_delay, self.transport.write, chunk)


def plain(body: bytes) -> bytes:
    head = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    return head % len(body) + body


async def main(args: argparse.Namespace) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Upstream(args), "127.0.0.1", 0, backlog=4096)
    port = server.sockets[0].getsockname()[1]
    print(json.dumps({"url": f"http://127.0.0.1:{port}/v1"}), flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("--delay", type=float, default=0.0, help="seconds before an answer")
    parser.add_argument("--reply-bytes", type=int, default=400)
    parser.add_argument("--chunks", type=int, default=32, help="text events of a stream")
    parser.add_argument("--chunk-delay", type=float, default=0.0, help="seconds between events")
    asyncio.run(main(parser.parse_args()))
