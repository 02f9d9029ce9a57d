"""Every accident on the way gives an answer or a typed error, and nothing hangs."""

from __future__ import annotations

import asyncio
import json

import pytest
from support.faults import FAULTS, FaultProxy
from support.upstream import Say, Upstream

from vfnb.clients import ModelRequest, Relay
from vfnb.dialects import Splitter, get
from vfnb.errors import ModelError

CHAT = get("chat")
TEXT = "a fairly long answer in many small pieces"


def request(stream: bool) -> ModelRequest:
    body = {"model": "m", "messages": [{"role": "user", "content": "hi"}], "stream": stream}
    raw = json.dumps(body).encode()
    return ModelRequest(CHAT, raw, Splitter(CHAT).split(raw), model="m", stream=stream)


async def outcome(relay: Relay, stream: bool) -> str:
    """The text that came, or the name of the error; a stream without its end is `cut`."""
    try:
        reply = await relay.call(request(stream))
        if reply.chunks is None:
            assert reply.response is not None
            return reply.response.text
        reader = CHAT.reader()
        async for chunk in reply.chunks:
            reader.feed(chunk)
        reader.close()
        return reader.response().text if reader.complete else "cut"
    except ModelError as error:
        return type(error).__name__


EXPECTED = {
    ("reset", False): {"UpstreamMalformed"},
    ("reset", True): {"UpstreamCut"},
    ("truncate", False): {"UpstreamMalformed"},
    ("truncate", True): {"cut"},
    ("rate_limit", False): {"UpstreamRateLimited"},
    ("rate_limit", True): {"UpstreamRateLimited"},
    ("server_error", False): {"UpstreamServerError"},
    ("server_error", True): {"UpstreamServerError"},
    ("slow", False): {TEXT},
    ("slow", True): {TEXT},
    ("duplicate", False): {TEXT},
    ("no_end", False): {TEXT},
    ("no_end", True): {"cut"},
    ("refuse", False): {"UpstreamConnection"},
    ("refuse", True): {"UpstreamConnection"},
}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("stream", [False, True])
def test_one_accident(fault: str, stream: bool) -> None:
    with Upstream([Say(text=TEXT)]) as upstream, FaultProxy(upstream.url, lambda number: fault) as proxy:

        async def main() -> str:
            relay = Relay("m", base_url=proxy.url, max_retries=0)
            try:
                return await asyncio.wait_for(outcome(relay, stream), 10)
            finally:
                await relay.close()

        found = asyncio.run(main())
    if (fault, stream) == ("duplicate", True):
        assert found != TEXT
        assert len(found) == len(TEXT) + 4
    else:
        assert found in EXPECTED[fault, stream]


def test_many_calls_through_bad_weather() -> None:
    plan = [*FAULTS, None, None] * 6

    with Upstream([Say(text=TEXT)]) as upstream, FaultProxy(upstream.url, plan) as proxy:

        async def main() -> list[str]:
            relay = Relay("m", base_url=proxy.url, retry_wait=0.01, max_concurrency=8)
            try:
                calls = (outcome(relay, stream=number % 2 == 0) for number in range(40))
                return await asyncio.wait_for(asyncio.gather(*calls), 30)
            finally:
                await relay.close()

        found = asyncio.run(main())
        assert len(found) == 40
        assert found.count(TEXT) > 20
        assert proxy.seen.count("rate_limit") >= 4
