"""The peer's counterpart of `ours.record`: what its server does for a call, without HTTP. Run by the peer's Python.

python -m benchmarks.peer.record SHAPE TURNS
"""

from __future__ import annotations

import json
import statistics
import sys
import time
from typing import Any

from pydantic_core import from_json, to_json
from verifiers.v1 import graph
from verifiers.v1.clients import EvalClientConfig, ModelContext
from verifiers.v1.dialects.chat import ChatDialect
from verifiers.v1.session import RolloutLimits, RolloutSession
from verifiers.v1.trace import ModelCall, TimeSpan

from benchmarks.data import conversation
from benchmarks.measure import cpu_ms
from benchmarks.peer.trace import new_trace


def one(session: Any, trace: Any, body: bytes, answer: bytes) -> float:
    """CPU ms of one call."""
    dialect = ChatDialect()
    start = time.process_time()
    fields = dialect.apply_overrides(from_json(body), session.ctx.model, session.ctx.sampling)
    request = dialect.parse_request(fields)
    turn = graph.prepare_turn(trace, request.messages, request.tools)
    to_json(fields, inf_nan_mode="null")
    reply = from_json(answer)
    response = dialect.parse_response(dialect.validate_response(reply))
    node = turn.commit(response)
    span = TimeSpan(start=1.0, end=2.0)
    call = ModelCall(
        node=node, model="mock", finish_reason=response.finish_reason, usage=response.usage, time=span
    )
    trace.calls.append(call)
    return 1000 * (time.process_time() - start)


def record(shape: str, count: int) -> dict[str, float]:
    trace = new_trace()
    client = EvalClientConfig(base_url="http://127.0.0.1:1/v1")
    session = RolloutSession(ctx=ModelContext(model="mock", client=client), trace=trace)
    times = [one(session, trace, turn.body(), turn.answer()) for turn in conversation(shape, count)]
    limits = RolloutLimits(max_turns=10**6, max_total_tokens=10**9)
    return {
        "total_ms": sum(times),
        "last_ms": statistics.median(times[-10:]),
        "fixed_ms": statistics.median(times[1:10]),
        "limit_ms": cpu_ms(lambda: limits.reached(trace)),
    }


if __name__ == "__main__":
    print(json.dumps(record(sys.argv[1], int(sys.argv[2]))))
