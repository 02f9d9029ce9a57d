"""What the same request again means: join, take what nobody received, try anew, or one more sample."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import aiohttp
import httpx
import pytest
from support.rollouts import Journal, Served, body, client, post, served, until
from support.upstream import Say, Upstream

from vfnb.interception import Settings


def errors(rollout: Served) -> list[str | None]:
    return [None if call.error is None else call.error.type for call in rollout.trace.calls]


async def hang_up(rollout: Served, asked: dict[str, Any], upstream: Upstream, *, after: int = 0) -> None:
    """Send a request and break the connection, once the upstream has it or `after` bytes have come."""
    raw = json.dumps(asked).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer {rollout.session.key}\r\n"
    reader, writer = await asyncio.open_connection("127.0.0.1", rollout.pool.ports[0])
    calls = len(upstream.calls)
    writer.write(head.encode() + b"Content-Length: %d\r\n\r\n" % len(raw) + raw)
    if after:
        await reader.readexactly(after)
    await until(lambda: len(upstream.calls) > calls)
    writer.transport.abort()
    await asyncio.sleep(0.05)


@pytest.mark.parametrize("stream", [False, True])
def test_a_retry_joins_the_call_whose_client_hung_up(stream: bool) -> None:
    journal = Journal()
    with (
        Upstream([Say(text="the one answer", delay=0.4)]) as upstream,
        served(upstream.url, journal=journal) as rollout,
    ):

        async def main() -> bytes:
            await hang_up(rollout, body(stream=stream), upstream)
            async with client(rollout) as http:
                reordered = dict(reversed(body(stream=stream).items()))
                async with http.post(rollout.url, json=reordered) as answer:
                    return await answer.read()

        answer = asyncio.run(main())
        assert len(upstream.calls) == 1
        assert (b"[DONE]" in answer) if stream else (b"the one answer" in answer)
        (call,) = rollout.trace.calls
        assert call.delivered and call.retry_of is None


def test_a_retry_in_the_middle_of_a_stream_gets_it_from_the_start() -> None:
    with Upstream([Say(text="0123456789" * 4, pace=0.04)]) as upstream, served(upstream.url) as rollout:

        async def main() -> bytes:
            await hang_up(rollout, body(stream=True), upstream, after=600)
            async with client(rollout) as http, http.post(rollout.url, json=body(stream=True)) as answer:
                return await answer.read()

        answer = asyncio.run(main())
        direct = httpx.post(upstream.url + "/v1/chat/completions", json=body(stream=True, model="mock"))
        assert answer == direct.content
        assert len(rollout.trace.calls) == 1 and rollout.trace.calls[0].delivered


@pytest.mark.parametrize("stream", [False, True])
def test_an_answer_that_nobody_received_waits_for_its_retry(stream: bool) -> None:
    journal = Journal()
    with (
        Upstream([Say(text="kept", delay=0.15)]) as upstream,
        served(upstream.url, journal=journal) as rollout,
    ):

        async def main() -> None:
            await hang_up(rollout, body(stream=stream), upstream)
            await until(lambda: bool(rollout.trace.calls))
            await asyncio.sleep(0.05)

        asyncio.run(main())
        assert not rollout.trace.calls[0].delivered and errors(rollout) == [None]
        (first,) = post(rollout, body(stream=stream))
        assert first[0] == 200 and len(upstream.calls) == 1
        asyncio.run(until(lambda: rollout.trace.calls[0].delivered))
        assert b'"delivered":false' in journal.deltas[0].call and len(journal.deltas) == 2
        (again,) = post(rollout, body(stream=stream))
        assert again[0] == 200 and len(upstream.calls) == 2


def test_a_kept_answer_expires() -> None:
    settings = Settings(keep_for=0.2, keepalive_after=0.1)
    with (
        Upstream([Say(text="kept", delay=0.1)]) as upstream,
        served(upstream.url, settings=settings) as rollout,
    ):

        async def main() -> None:
            await hang_up(rollout, body(), upstream)
            await until(lambda: bool(rollout.trace.calls))
            await asyncio.sleep(0.5)

        asyncio.run(main())
        post(rollout, body())
        assert len(upstream.calls) == 2


def test_kept_answers_are_bounded_in_bytes() -> None:
    with (
        Upstream([Say(text="long " * 100, delay=0.1)]) as upstream,
        served(upstream.url, settings=Settings(keep_bytes=300)) as rollout,
    ):

        async def main() -> None:
            await hang_up(rollout, body(), upstream)
            await until(lambda: bool(rollout.trace.calls))
            await asyncio.sleep(0.05)

        asyncio.run(main())
        post(rollout, body())
        assert len(upstream.calls) == 2


def test_a_call_whose_client_never_comes_back_is_given_up() -> None:
    with (
        Upstream([Say(delay=30)]) as upstream,
        served(upstream.url, settings=Settings(finish_within=0.2)) as rollout,
    ):

        async def main() -> None:
            await hang_up(rollout, body(), upstream)
            await until(lambda: bool(rollout.trace.calls))
            await until(lambda: upstream.calls[0].cancelled)

        asyncio.run(main())
        assert errors(rollout) == ["CallCancelled"]
        assert "nobody asked again" in str(rollout.trace.calls[0].error)


def test_the_same_request_after_a_delivered_answer_is_a_new_sample() -> None:
    with Upstream(["one", "two"]) as upstream, served(upstream.url) as rollout:
        (_, first), (_, second) = post(rollout, body(), body())
        assert b"one" in first and b"two" in second
        assert [branch.cause and branch.cause.cause for branch in rollout.trace.branches] == [
            None,
            "resample",
        ]
        assert [call.retry_of for call in rollout.trace.calls] == [None, None]


def test_the_same_request_after_a_failure_is_a_new_try() -> None:
    say = [Say(status=400, raw=b'{"error":{"message":"no"}}'), Say(text="now")]
    with Upstream(say) as upstream, served(upstream.url) as rollout:
        assert [status for status, _ in post(rollout, body(), body())] == [400, 200]
        assert [call.retry_of for call in rollout.trace.calls] == [None, 0]
        assert len(rollout.trace.nodes) == 2 and len(rollout.trace.branches) == 1


def test_equal_requests_at_once_are_siblings() -> None:
    texts = iter(["a", "b", "c"])
    with Upstream(lambda *_: Say(next(texts), delay=0.1)) as upstream, served(upstream.url) as rollout:

        async def main() -> list[bytes]:
            async def one(http: aiohttp.ClientSession) -> bytes:
                async with http.post(rollout.url, json=body()) as answer:
                    return await answer.read()

            async with client(rollout) as http:
                return await asyncio.gather(*(one(http) for _ in range(3)))

        answers = asyncio.run(main())
        assert len(set(answers)) == 3
        dag = rollout.trace.dag
        assert len(dag.nodes) == 4 and dag.children(0) == [1, 2, 3]


@pytest.mark.parametrize("headers", [{"Idempotency-Key": "k1"}, {"x-stainless-retry-count": "1"}])
def test_a_marked_retry_joins_a_call_in_flight(headers: dict[str, str]) -> None:
    with Upstream([Say(delay=0.3)]) as upstream, served(upstream.url) as rollout:

        async def main() -> list[int]:
            async with client(rollout) as http:
                first = {} if "Idempotency-Key" not in headers else headers
                asking = [asyncio.create_task(http.post(rollout.url, json=body(), headers=first))]
                await until(lambda: bool(upstream.calls))
                asking.append(asyncio.create_task(http.post(rollout.url, json=body(), headers=headers)))
                answers = await asyncio.gather(*asking)
                for answer in answers:
                    await answer.read()
                return [answer.status for answer in answers]

        assert asyncio.run(main()) == [200, 200]
        assert len(upstream.calls) == 1 == len(rollout.trace.calls)


def test_an_idempotency_key_gives_the_same_answer_again() -> None:
    with Upstream(["one", "two", "three"]) as upstream, served(upstream.url) as rollout:
        headers = {"Idempotency-Key": "k1"}
        first, second = post(rollout, body(), body(), headers=headers)
        assert first == second and len(upstream.calls) == 1
        ((_, other),) = post(rollout, body(), headers={"Idempotency-Key": "k2"})
        assert b"two" in other


def test_a_cut_stream_is_cut_for_the_client_too_and_kept_as_partial() -> None:
    journal = Journal(delay=0.1)
    say = [Say(text="Running the tests", cut_after=4), Say(text="Running the tests")]
    with Upstream(say) as upstream, served(upstream.url, journal=journal) as rollout:

        async def main() -> tuple[bytes, bool, int]:
            got = b""
            async with client(rollout) as http, http.post(rollout.url, json=body(stream=True)) as answer:
                try:
                    async for piece in answer.content.iter_any():
                        got += piece
                except aiohttp.ClientPayloadError:
                    return got, True, journal.durable
            return got, False, 0

        got, cut, durable = asyncio.run(main())
        assert cut and durable == 1 and b"Runn" in got and b"[DONE]" not in got
        (call,) = rollout.trace.calls
        assert call.partial_text == "Running the "[: len(call.partial_text or "")] and call.partial_text
        assert call.error is not None and call.error.type == "UpstreamCut" and not call.delivered
        assert call.reply_node is None and len(rollout.trace.nodes) == 1
        assert post(rollout, body(stream=True))[0][0] == 200
        assert rollout.trace.calls[1].retry_of == 0 and len(rollout.trace.nodes) == 2


def test_joiners_of_a_cancelled_call_try_anew() -> None:
    with (
        Upstream([Say(delay=0.6, text="first"), Say(text="second")]) as upstream,
        served(upstream.url) as rollout,
    ):
        session = rollout.session

        async def main() -> bytes:
            await hang_up(rollout, body(), upstream)
            async with client(rollout) as http:
                asking = asyncio.create_task(http.post(rollout.url, json=body()))
                await until(lambda: len(session.retries.flying[0].sinks) == 2)
                task = session.retries.flying[0].task
                assert task is not None
                task.get_loop().call_soon_threadsafe(task.cancel)
                return await (await asking).read()

        assert b"second" in asyncio.run(main())
        assert errors(rollout) == ["CallCancelled", None]
        assert len(upstream.calls) == 2
