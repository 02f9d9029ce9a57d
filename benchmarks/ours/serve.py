"""Our interception server with a store behind it.

python -m benchmarks.ours.serve UPSTREAM SESSIONS
"""

from __future__ import annotations

import asyncio
import json
import sys
import tempfile

from benchmarks.ours.common import begin, new_trace
from vfnb import loops
from vfnb.clients.relay import Relay
from vfnb.interception import ServerPool, Session
from vfnb.store import RunStore
from vfnb.utils.collector import calm


async def main(upstream: str, sessions: int, folder: str) -> None:
    store = RunStore.create_or_open(folder)
    client, pool = Relay("mock", base_url=upstream), ServerPool()
    keys, url = [], ""
    for index in range(sessions):
        trace = new_trace(index)
        await begin(store, trace)
        session = Session(trace, client, journal=store)
        endpoint = await pool.register(session)
        keys.append(session.key)
        url = url or endpoint.base_url
    print(json.dumps({"url": f"{url}/v1/chat/completions", "keys": keys}), flush=True)
    with calm():  # as in a run
        await asyncio.Event().wait()


if __name__ == "__main__":
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as temporary:
        loops.engine().run(main(sys.argv[1], int(sys.argv[2]), temporary))
