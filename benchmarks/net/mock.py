"""A fast stand-in for an OpenAI-compatible server, in a process of its own.

    python -m benchmarks.net.mock --reply-bytes 400 --chunks 20 --chunk-delay 0.05

Prints one JSON line with its base URL. `What is A + B?` is answered with the sum, anything else with filler text.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import re

__all__ = ["filler"]

QUESTION = re.compile(rb"What is (\d+) \+ (\d+)\?")
USAGE = {"prompt_tokens": 64, "completion_tokens": 32, "total_tokens": 96}
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
            models = self.buffer.startswith(b"GET ")
            del self.buffer[:end]
            self.answer(body, models)

    def answer(self, body: bytes, models: bool) -> None:
        if models:
            self.transport.write(plain(MODELS))
        elif STREAM.search(body[:256]) or STREAM.search(body[-256:]):
            self.stream(events(self.text(body), self.args.chunks))
        elif self.args.delay:
            loop = asyncio.get_running_loop()
            loop.call_later(self.args.delay, self.transport.write, completion(self.text(body)))
        else:
            self.transport.write(completion(self.text(body)))

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


def completion(text: str) -> bytes:
    message = {"role": "assistant", "content": text}
    reply = {
        "id": "cmpl-1",
        "object": "chat.completion",
        "created": 1700000000,
        "model": "mock",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": USAGE,
    }
    return plain(json.dumps(reply).encode())


def events(text: str, chunks: int) -> list[bytes]:
    """The server-sent events of one reply, the terminal one last."""
    base = {"id": "cmpl-1", "object": "chat.completion.chunk", "created": 1700000000, "model": "mock"}
    step = max(1, -(-len(text) // chunks))
    deltas: list[dict[str, str]] = [{"content": text[at : at + step]} for at in range(0, len(text), step)]
    deltas[0]["role"] = "assistant"
    result = [{"choices": [{"index": 0, "delta": delta, "finish_reason": None}]} for delta in deltas]
    result.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    lines = [json.dumps(base | event) for event in (*result, {"choices": [], "usage": USAGE})]
    return [f"data: {line}\n\n".encode() for line in (*lines, "[DONE]")]


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
