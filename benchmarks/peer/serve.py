"""The peer's interception server for a number of rollouts. Run by the peer's Python.

python -m benchmarks.peer.serve UPSTREAM SESSIONS
"""

from __future__ import annotations

import asyncio
import json
import sys

from verifiers.v1.clients import EvalClientConfig, ModelContext
from verifiers.v1.interception.server import InterceptionServer
from verifiers.v1.session import RolloutSession

from benchmarks.peer.trace import new_trace


async def main(upstream: str, sessions: int) -> None:
    server = InterceptionServer()
    await server.start()
    client = EvalClientConfig(base_url=upstream)
    keys = []
    for _ in range(sessions):
        session = RolloutSession(ctx=ModelContext(model="mock", client=client), trace=new_trace())
        keys.append(server.register(session)[0])
    print(json.dumps({"url": server.base_url + "/v1/chat/completions", "keys": keys}), flush=True)
    await asyncio.Event().wait()


if __name__ == "__main__":
    asyncio.run(main(sys.argv[1], int(sys.argv[2])))
