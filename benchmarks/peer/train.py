"""The peer's counterpart of `ours.train`: its token client and trace. Run by the peer's Python.

python -m benchmarks.peer.train URL FOLDER
"""

from __future__ import annotations

import asyncio
import json
import sys
import time

from pydantic_core import from_json, to_json
from renderers import Qwen3RendererConfig
from verifiers.v1 import graph
from verifiers.v1.clients.train import TrainClient
from verifiers.v1.configs.client import TrainClientConfig
from verifiers.v1.dialects.chat import ChatDialect
from verifiers.v1.trace import ModelCall, TimeSpan
from verifiers.v1.types import SamplingConfig

from benchmarks.peer.trace import new_trace
from benchmarks.program import SIZES, Program, figures


async def main(url: str, folder: str) -> dict[str, float]:
    config = TrainClientConfig(
        base_url=f"{url}/v1", renderer=Qwen3RendererConfig(), renderer_model_name=folder
    )
    client, dialect, trace = TrainClient(config), ChatDialect(), new_trace()
    program, calls, tokens = Program(), [], 0
    sampling = SamplingConfig(temperature=1.0)
    while tokens < max(SIZES.values()) * 1.02:
        raw = program.body()
        start = time.process_time()
        body = dialect.apply_overrides(from_json(raw), "mock", sampling)
        request = dialect.parse_request(body)
        turn = graph.prepare_turn(trace, request.messages, request.tools)
        response = await client.get_response(dialect, body, sampling, "bench", turn)
        node = turn.commit(response)
        span = TimeSpan(start=1.0, end=2.0)
        trace.calls.append(ModelCall(node=node, model="mock", usage=response.usage, time=span))
        reply = to_json(response.raw)
        spent = time.process_time() - start
        tokens = program.hear(json.loads(reply))
        calls.append((tokens, 1000 * spent))
    await client.close()
    return figures(calls, "http_")


if __name__ == "__main__":
    print(json.dumps(asyncio.run(main(sys.argv[1], sys.argv[2]))))
