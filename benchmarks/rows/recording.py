"""Rows 3 and 4: from the bytes of a request to a recorded turn, and the checks before a call."""

from __future__ import annotations

import json
import math
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial

import msgspec

from benchmarks.data import conversation
from benchmarks.forms import FORMS
from benchmarks.measure import Figures, Metric, Row, Sides
from benchmarks.peer import setup
from benchmarks.processes import json_program, python

__all__ = ["ROWS"]

TURNS, LONG = 200, 500


class Body(msgspec.Struct):
    """A request cut into raw messages."""

    messages: list[msgspec.Raw] = []
    input: list[msgspec.Raw] = []


def floor(dialect: str) -> Figures:
    """Compare the known bytes, decode the tail; cut a body whose beginning is unknown into slices."""
    form, times = FORMS[dialect], []
    known = body = b""
    for turn in conversation("linear", TURNS):
        body = turn.body(form)
        start = time.process_time()
        if known and body.startswith(known):
            msgspec.json.decode(b"[" + body[len(known) + 1 : -1])
        else:
            json.loads(body)
        times.append(time.process_time() - start)
        known = body[:-2]
    decoder = msgspec.json.Decoder(Body)
    start = time.process_time()
    for _ in range(10):
        decoder.decode(body)
    slices = (time.process_time() - start) / 10
    return {
        "total_ms": 1000 * sum(times),
        "last_ms": 1000 * sum(times[-10:]) / 10,
        "fixed_ms": 1000 * sum(times[1:10]) / 9,
        "respaced_ms_per_mb": 1000 * slices / (len(body) / 1e6),
        "limit_ms": 0.0,
    }


def exponent(short: float, long: float, ratio: float) -> float:
    return math.log(long / short) / math.log(ratio)


def side(interpreter: object, module: str, long: int, *dialect: str) -> Figures:
    command = [*python(module, str(interpreter))]
    result: Figures = json_program([*command, "linear", TURNS, *dialect])
    more = json_program([*command, "linear", long, *dialect])
    result["exponent"] = exponent(result["total_ms"], more["total_ms"], long / TURNS)
    for shape in ("compaction", "subagents"):
        figures = json_program([*command, shape, TURNS, *dialect])
        result[f"{shape}_ms"] = figures["total_ms"]
    return result


@contextmanager
def open_recording(peer: bool, dialect: str) -> Iterator[Sides]:
    sides: Sides = {
        "floor": partial(floor, dialect),
        "ours": lambda: side(sys.executable, "ours.record", LONG, dialect),
    }
    if peer and dialect == "chat":
        sides["peer"] = lambda: side(setup.PYTHON, "peer.record", TURNS // 2)
    yield sides


@contextmanager
def open_limits(peer: bool) -> Iterator[Sides]:
    def limits(interpreter: object, module: str) -> Figures:
        return json_program([*python(module, str(interpreter)), "branches", TURNS])

    sides: Sides = {"floor": lambda: {"limit_ms": 0.0}, "ours": lambda: limits(sys.executable, "ours.record")}
    if peer:
        sides["peer"] = lambda: limits(setup.PYTHON, "peer.record")
    yield sides


def row(dialect: str) -> Row:
    """Row 3 in one dialect."""
    return Row(
        "3" if dialect == "chat" else f"3/{dialect}",
        "request bytes to recorded turn, 200 turns of 1 k tokens",
        [
            Metric("total_ms", "all turns", "ms", 100),
            Metric("last_ms", "turn 200", "ms", 1.0),
            Metric("fixed_ms", "turns 2 to 10", "ms", 0.15),
            Metric("exponent", "growth of the total", "", 1.25),
            Metric("respaced_ms_per_mb", "history re-spaced, per MB", "ms", 3.0),
            Metric("compaction_ms", "all turns, compaction", "ms", 100),
            Metric("subagents_ms", "all turns, 8 subagents", "ms", 100),
        ],
        partial(open_recording, dialect=dialect),
    )


ROWS = [
    *map(row, FORMS),
    Row(
        "4",
        "limit checks before a call, 200 side branches",
        [Metric("limit_ms", "per call", "ms", 0.05)],
        open_limits,
    ),
]
