"""Request bytes to recorded turn, without HTTP: CPU times in ms.

    python -m benchmarks.ours.record SHAPE TURNS [DIALECT]

`total_ms` of all turns, `last_ms` of a turn at the end, `fixed_ms` of a turn near the start,
`respaced_ms_per_mb` of a history that is the same but for white space and its last message, so that no byte
prefix is known, `limit_ms` of the checks before a call.
"""

from __future__ import annotations

import json
import statistics
import sys
import time

from benchmarks.data import Turn, conversation
from benchmarks.forms import FORMS, Form
from benchmarks.measure import cpu_ms
from benchmarks.ours.common import Canned, new_trace
from vfnb import loops
from vfnb.dialects import get
from vfnb.interception import Limits, Session
from vfnb.interception.sink import Collected
from vfnb.utils.collector import calm


async def one(session: Session, dialect: str, body: bytes, answer: bytes) -> float:
    """CPU ms of one call."""
    assert isinstance(session.client, Canned)
    session.client.answer = answer
    sink = Collected()
    start = time.process_time()
    await session.handle(get(dialect), body, {}, sink)
    spent = time.process_time() - start
    if sink.status != 200:
        raise RuntimeError(f"status {sink.status}: {sink.body[:300]!r}")
    return 1000 * spent


def respaced(turn: Turn, form: Form, index: int) -> bytes:
    last = turn.messages[-1]
    messages = [*turn.messages[:-1], last | {"content": f"{last['content']} and {index} more"}]
    return form.request(messages, indent=1)


async def record(shape: str, count: int, dialect: str = "chat") -> dict[str, float]:
    form = FORMS[dialect]
    session = Session(new_trace(), Canned())
    times = []
    for turn in conversation(shape, count):
        times.append(await one(session, dialect, turn.body(form), turn.answer(form)))
    again = []
    for index in range(5):
        body = respaced(turn, form, index)
        again.append(await one(session, dialect, body, turn.answer(form)) / (len(body) / 1e6))
    limits = Limits(max_turns=10**6, max_total_tokens=10**9)
    counters = session.trace.dag.counters
    return {
        "total_ms": sum(times),
        "last_ms": statistics.median(times[-10:]),
        "fixed_ms": statistics.median(times[1:10]),
        "respaced_ms_per_mb": statistics.median(again),
        "limit_ms": cpu_ms(lambda: [limits.reached(counters) for _ in range(1000)]) / 1000,
    }


if __name__ == "__main__":
    with calm():  # as in a run
        print(json.dumps(loops.engine().run(record(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))))
