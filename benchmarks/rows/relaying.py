"""Rows 5, 6, 7 and 17: calls through the server, recorded and durable."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from typing import Any

from benchmarks.forms import FORMS
from benchmarks.measure import Figures, Metric, Row, Sides
from benchmarks.net.drive import REPLY_BYTES, drive
from benchmarks.peer import setup
from benchmarks.processes import Helper, helper, python

__all__ = ["ROWS"]

SESSIONS = 128
SMALL, MIDDLE, LARGE = 1_000, 100_000, 1_000_000
Drive = Callable[..., dict[str, float]]
TURN_BYTES = 4_000  # about 1,000 tokens


@contextmanager
def servers(peer: bool, *mock_flags: object) -> Iterator[dict[str, Helper]]:
    """The upstream, the two floors, ours, and the peer's, each in a process of its own."""
    with ExitStack() as stack:
        mock = stack.enter_context(helper([*python("net.mock"), "--reply-bytes", REPLY_BYTES, *mock_flags]))
        url = mock.ready["url"]
        result = {
            name: stack.enter_context(helper([*python("net.floors"), name, url]))
            for name in ("bare", "aiohttp")
        }
        result["ours"] = stack.enter_context(helper([*python("ours.serve"), url, SESSIONS]))
        if peer:
            result["peer"] = stack.enter_context(helper([*python("peer.serve", setup.PYTHON), url, SESSIONS]))
        mock.ready |= {"url": f"{url}/chat/completions", "keys": ["none"]}
        yield result | {"direct": mock}


@contextmanager
def opened(peer: bool, work: Any, flags: tuple[object, ...] = ()) -> Iterator[Sides]:
    """The floor is the plain aiohttp proxy; `bare` figures are added under names of their own."""
    with servers(peer, *flags) as running:
        sides: Sides = {
            "floor": partial(work, running["aiohttp"], running),
            "ours": partial(work, running["ours"], running),
        }
        if peer:
            sides["peer"] = partial(work, running["peer"], running)
        yield sides


def small_calls(server: Helper, running: dict[str, Helper], drive: Drive = drive) -> Figures:
    """1 kB bodies at three concurrencies, plain and streamed."""
    direct = drive(running["direct"], connections=1, start_bytes=SMALL)
    result: Figures = {}
    for count, requests in ((1, 400), (32, 1600), (128, 1600)):
        plain = drive(server, connections=count, start_bytes=SMALL, requests=requests)
        result |= {f"cpu_{count}": plain["cpu_ms"], f"rps_{count}": plain["rps"]}
        result[f"tail_{count}"] = plain["p99_ms"] / plain["p50_ms"]
        if count == 1:
            result["added_ms"] = plain["p50_ms"] - direct["p50_ms"]
    streamed = drive(server, connections=32, start_bytes=SMALL, requests=800, stream=True)
    return result | {"sse_cpu": streamed["cpu_ms"], "sse_rps": streamed["rps"]}


def large_calls(server: Helper, running: dict[str, Helper], drive: Drive = drive) -> Figures:
    """Fresh bodies of 100 kB and 1 MB, and one conversation that starts with 1 MB."""
    middle = drive(server, connections=1, start_bytes=MIDDLE, requests=60, warm=8)
    large = drive(server, connections=1, start_bytes=LARGE, requests=20, warm=4)
    known = drive(server, connections=1, start_bytes=LARGE, turn_bytes=1000, requests=20, warm=4)
    return {"middle_ms": middle["cpu_ms"], "large_ms": large["cpu_ms"], "known_ms": known["cpu_ms"]}


def first_byte(server: Helper, running: dict[str, Helper], drive: Drive = drive) -> Figures:
    """A stream of 20 events, one every 50 ms."""
    job: dict[str, Any] = {"connections": 1, "start_bytes": 100, "requests": 3, "warm": 1, "stream": True}
    through, direct = drive(server, **job), drive(running["direct"], **job)
    return {"first_ms": through["first_ms"], "added_first_ms": through["first_ms"] - direct["first_ms"]}


def long_conversation(server: Helper, running: dict[str, Helper]) -> Figures:
    """200 turns of one session, the whole history sent each time."""
    job = {"connections": 1, "start_bytes": TURN_BYTES, "turn_bytes": TURN_BYTES, "requests": 200, "warm": 1}
    figures = drive(server, **job)
    return {"cpu_s": figures["cpu_ms"] * figures["count"] / 1000, "wall_s": figures["wall_s"]}


def rows(dialect: str) -> list[Row]:
    """Rows 5, 6 and 7 in one dialect."""
    send = partial(drive, dialect=dialect)
    suffix = "" if dialect == "chat" else f"/{dialect}"
    return [
        Row(
            f"5{suffix}",
            "relayed call of 1 kB, recorded and durable; floor: aiohttp pass-through",
            [
                Metric("cpu_1", "CPU, 1 at a time", "ms", 0.5),
                Metric("cpu_32", "CPU, 32 at a time", "ms", 0.5),
                Metric("cpu_128", "CPU, 128 at a time", "ms", 0.5),
                Metric("rps_32", "calls a second at 32", "/s", 1500, more_is_better=True),
                Metric("tail_32", "p99 / p50 at 32", "", 3.0),
                Metric("added_ms", "added p50, 1 at a time", "ms", 0.6),
                Metric("sse_cpu", "CPU, streamed, 32 at a time", "ms", 0.5),
                Metric("sse_rps", "streams a second at 32", "/s", 1500, more_is_better=True),
            ],
            partial(opened, work=partial(small_calls, drive=send)),
        ),
        Row(
            f"6{suffix}",
            "relayed call of 100 kB and 1 MB; floor: aiohttp pass-through",
            [
                Metric("middle_ms", "CPU, 100 kB", "ms", 1.0),
                Metric("large_ms", "CPU, 1 MB", "ms", 8.0),
                Metric("known_ms", "CPU, 1 MB with a known beginning", "ms", 5.0),
            ],
            partial(opened, work=partial(large_calls, drive=send)),
        ),
        Row(
            f"7{suffix}",
            "first byte of a 1 s stream; floor: aiohttp pass-through",
            [
                Metric("first_ms", "first byte", "ms"),
                Metric("added_first_ms", "later than upstream", "ms", 3.0),
            ],
            partial(
                opened, work=partial(first_byte, drive=send), flags=("--chunks", 20, "--chunk-delay", 0.05)
            ),
        ),
    ]


ROWS = [
    *(row for dialect in FORMS for row in rows(dialect)),
    Row(
        "17",
        "200-turn conversation through the server; floor: aiohttp pass-through",
        [Metric("cpu_s", "CPU of the server", "s", 1.2), Metric("wall_s", "wall", "s")],
        partial(opened, work=long_conversation),
    ),
]
