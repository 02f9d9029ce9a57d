"""Broken and odd requests, sent to the real server: every one must get an answer or a refusal, and leave a record.

A test gives a `Target` (a dialect's path, sound requests to start from, the form of its refusals) and calls `fuzz`.
The mutants depend on nothing but the seed, so a failure can be sent again: `mutant(target.bodies, number)`.
"""

from __future__ import annotations

import asyncio
import copy
import json
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import aiohttp

from support.rollouts import Served, client, served
from vfnb.clients import Scripted
from vfnb.dialects import Dialect, match
from vfnb.types import AssistantMessage, ToolCall

__all__ = ["Target", "fuzz", "mutant", "openai_refusal"]

ANSWERS = [
    "The answer is 42.",
    AssistantMessage(
        content="  Let me look.\n", reasoning_content="hm", tool_calls=[ToolCall(id="c1", name="add")]
    ),
    AssistantMessage(content=None, tool_calls=[ToolCall(id="c2", name="add", arguments='{"a":  1, "b": 2}')]),
    AssistantMessage(content="é \U0001f600 \ud83d", reasoning_content="."),
    "",
]


@dataclass
class Target:
    """One dialect to try."""

    path: str
    """Where its requests go, e.g. `/v1/responses`."""
    bodies: Sequence[dict[str, Any]]
    """Sound requests, as different from each other as they can be; at least one with `stream`."""
    refused: Callable[[int, Any], bool]
    """Whether a status and a decoded body are a refusal in the dialect's form."""
    headers: dict[str, str] = field(default_factory=dict)

    @property
    def dialect(self) -> Dialect[Any, Any]:
        found = match(self.path)
        assert found is not None, f"no dialect serves {self.path}"
        return found


def openai_refusal(status: int, body: Any) -> bool:
    """The form of Chat and Responses."""
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict) or error.keys() != {"message", "type", "param", "code"}:
        return False
    return isinstance(error["message"], str) and isinstance(error["type"], str)


# mutants

Path = tuple[Any, ...]
_DEEPEST = 10
_DEEP = "nested deeply"
ODD: list[Any] = [
    *(
        None,
        True,
        False,
        0,
        -1,
        1,
        1e308,
        0.5,
        2**63,
        -(2**70),
        "",
        " ",
        "x",
        [],
        {},
        [[]],
        [None],
        {"": None},
    ),
    *(
        {"type": None},
        {"type": "text"},
        {"role": "user"},
        {"type": "image"},
        "\ud83d",
        "\u0000",
        "é" * 300,
        "a" * 5000,
    ),
    *(
        ["a", 1, {}],
        {"type": "function", "function": {}},
        {"cache_control": {"type": "ephemeral"}},
        [{"type": 3}],
    ),
]
JUNK = [
    b"",
    b"{",
    b"]",
    b"null",
    b"[]",
    b"\xff\xfe",
    b"\xc3",
    b"\xef\xbb\xbf",
    b"NaN",
    b"\\",
    b'"',
    b",",
    b":",
    b"\x00",
]


def _paths(value: Any, at: Path = ()) -> list[Path]:
    """Where values are inside a JSON value, itself left out."""
    found: list[Path] = []
    if len(at) == _DEEPEST:
        return found
    entries = (
        value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    )
    for key, inner in entries:
        found += [(*at, key), *_paths(inner, (*at, key))]
    return found


def _get(value: Any, path: Path) -> Any:
    for key in path:
        value = value[key]
    return value


def _change(body: Any, dice: random.Random, others: Sequence[Any]) -> None:
    """One change somewhere in a request."""
    paths = _paths(body)
    if not paths:
        return
    # shallow places as often as deep ones
    depth = dice.choice(sorted({len(path) for path in paths}))
    path = dice.choice([path for path in paths if len(path) == depth])
    holder, key = _get(body, path[:-1]), path[-1]
    kind = dice.randrange(9)
    if kind == 0:
        del holder[key]
    elif kind == 1:
        holder[key] = copy.deepcopy(dice.choice(ODD))
    elif kind == 2:
        holder[key] = [holder[key]] * dice.choice((1, 2, 3))
    elif kind == 3:
        holder[key] = {dice.choice(("type", "content", "text", "x")): holder[key]}
    elif kind == 4:
        donor = dice.choice(others)
        holder[key] = copy.deepcopy(_get(donor, dice.choice(_paths(donor))))
    elif kind == 5 and isinstance(holder, dict):
        holder[dice.choice(_names(body, others, dice))] = holder.pop(key)
    elif kind == 6 and isinstance(holder, list):
        holder.insert(dice.randrange(len(holder) + 1), copy.deepcopy(dice.choice([*holder, *ODD])))
    elif kind == 7 and isinstance(holder, list):
        dice.shuffle(holder)
    elif kind == 8 and dice.random() < 0.2:
        holder[key] = _DEEP
    else:
        holder[key] = dice.choice(("", "x", None, 0))


def _names(body: Any, others: Sequence[Any], dice: random.Random) -> list[Any]:
    found = [path[-1] for path in _paths(dice.choice([body, *others])) if isinstance(path[-1], str)]
    return [*found, "unknown", ""]


def _bytes(value: Any, dice: random.Random) -> bytes:
    """JSON in one of the ways that programs write it."""
    short, spaces = dice.random() < 0.7, dice.choice((None, (",", ":"), (" , ", ": ")))
    raw = json.dumps(value, ensure_ascii=short, separators=spaces).encode("utf-8", "surrogatepass")
    depth = dice.choice((5, 60, 800, 100_000))
    return raw.replace(b'"%b"' % _DEEP.encode(), b"[" * depth + b"]" * depth)


def _damage(raw: bytes, dice: random.Random) -> bytes:
    """One change of the bytes."""
    at, kind = dice.randrange(len(raw) + 1), dice.randrange(4)
    if kind == 0:
        return raw[:at]
    if kind == 1:
        return raw[:at] + bytes([dice.randrange(256)]) + raw[at + 1 :]
    if kind == 2:
        return raw[:at] + raw[at + dice.randrange(1, 20) :]
    return raw[:at] + dice.choice(JUNK) + raw[at:]


def mutant(bodies: Sequence[dict[str, Any]], number: int) -> bytes:
    """The request of this number: a sound one with one to four changes; one in six has damaged bytes."""
    dice = random.Random(number)
    body = copy.deepcopy(dice.choice(bodies))
    for _ in range(dice.choice((1, 1, 1, 2, 3, 4))):
        _change(body, dice, bodies)
    raw = _bytes(body, dice)
    return _damage(raw, dice) if dice.random() < 1 / 6 else raw


# the server

PATIENCE = aiohttp.ClientTimeout(total=20)  # longer is a hang


@dataclass
class Tally:
    """What came of the requests."""

    statuses: Counter[int] = field(default_factory=Counter)
    wrong: list[str] = field(default_factory=list)


def _judge(target: Target, status: int, kind: str, body: bytes) -> str:
    """What is wrong with an answer, `""` for nothing."""
    if 400 <= status < 500:
        try:
            sound = target.refused(status, json.loads(body))
        except ValueError:
            sound = False
        return "" if sound else f"the refusal has another form: {body[:300]!r}"
    if status != 200:
        return f"status {status}: {body[:300]!r}"
    if not kind.startswith("text/event-stream"):
        target.dialect.read_response(body)
        return ""
    reader = target.dialect.reader()
    reader.feed(body)
    reader.close()
    return "" if reader.complete else f"the stream has no end: {body[-300:]!r}"


async def _send(rollout: Served, target: Target, numbers: Sequence[int], tally: Tally, at_once: int) -> None:
    waiting = list(reversed(numbers))

    async def worker(http: aiohttp.ClientSession) -> None:
        while waiting:
            number = waiting.pop()
            raw = mutant(target.bodies, number)
            try:
                async with http.post(rollout.base_url + target.path, data=raw, timeout=PATIENCE) as answer:
                    body, status, kind = (
                        await answer.read(),
                        answer.status,
                        answer.headers.get("Content-Type", ""),
                    )
                wrong = _judge(target, status, kind, body)
            except (TimeoutError, aiohttp.ClientError, ValueError) as error:
                status, wrong = 0, f"{type(error).__name__}: {error}"
            tally.statuses[status] += 1
            if wrong:
                tally.wrong.append(f"mutant {number} {raw[:400]!r}: {wrong}")

    headers = {"Content-Type": "application/json", **target.headers}
    async with client(rollout, headers) as http:
        await asyncio.gather(*(worker(http) for _ in range(at_once)))


def fuzz(target: Target, count: int, *, first: int = 0, at_once: int = 8, each: int = 1000) -> Counter[int]:
    """Send `count` mutants, `each` of them to one rollout. Returns how often each status came.

    Raises:
        AssertionError: a 5xx, a broken or missing answer, a refusal in another form, a call without a record.
    """
    tally = Tally()
    for start in range(first, first + count, each):
        numbers = range(start, min(start + each, first + count))
        with served(Scripted(ANSWERS, cycle=True)) as rollout:
            before = tally.statuses[200]
            asyncio.run(_send(rollout, target, numbers, tally, at_once))
            fault = rollout.session.fault
            if fault is not None:
                raise AssertionError(f"one of the mutants from {start} on broke the rollout") from fault
            assert not tally.wrong, "\n".join(tally.wrong[:10])
            calls = rollout.trace.dag.calls
            answered = tally.statuses[200] - before
            recorded = len(calls), sum(call.ok for call in calls)
            assert recorded == (len(numbers), answered), f"{recorded} recorded, {answered} answered"
    return tally.statuses
