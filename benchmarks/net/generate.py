"""A fast stand-in for a token engine's server: every prompt gets the same completion.

    python -m benchmarks.net.generate FILE

FILE has the completion's token ids as JSON. Prints one JSON line with its root URL.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import sys
from pathlib import Path

from benchmarks.net.mock import Upstream, plain

__all__ = ["answer"]

LIMIT = 200_000


def answer(ids: list[int]) -> bytes:
    """The reply of `/inference/v1/generate`, as vLLM 0.31 writes it."""
    content = [
        {"token": f"token_id:{one}", "logprob": -0.25, "bytes": None, "top_logprobs": []} for one in ids
    ]
    choice = {"index": 0, "token_ids": ids, "finish_reason": "stop", "logprobs": {"content": content}}
    return json.dumps({"request_id": "g", "model": "mock", "created": 1, "choices": [choice]}).encode()


class Engine(Upstream):
    """One connection to it."""

    reply = b""
    models = plain(json.dumps({"object": "list", "data": [{"id": "mock", "max_model_len": LIMIT}]}).encode())

    def answer(self, line: bytes, body: bytes) -> None:
        self.transport.write(self.models if line.startswith(b"GET ") else self.reply)


async def main(ids: list[int]) -> None:
    Engine.reply = plain(answer(ids))
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Engine(argparse.Namespace()), "127.0.0.1", 0)
    print(json.dumps({"url": f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"}), flush=True)
    await server.serve_forever()


if __name__ == "__main__":
    asyncio.run(main(json.loads(Path(sys.argv[1]).read_text())))
