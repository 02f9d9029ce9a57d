"""Routes, credentials, encodings and framing, over real sockets."""

from __future__ import annotations

import asyncio
import gzip
import json
import socket
import time

import aiohttp
import httpx
import openai
import pytest
import zstandard
from support.rollouts import MESSAGES, body, client, post, served
from support.upstream import Say, Upstream

from vfnb import loops
from vfnb.clients import Scripted
from vfnb.interception import Server, ServerPool, Session, Settings
from vfnb.trace import Trace

ROUTES = [
    "/v1/chat/completions",
    "/chat/completions",
    "/v1/v1/chat/completions",
    "/v1/chat/completions/",
    "/v1/chat/completions?beta=true",
    "/openai/deployments/m/chat/completions?api-version=1",
]


@pytest.mark.parametrize("route", ROUTES)
def test_every_form_of_the_route_is_answered(route: str) -> None:
    with Upstream() as upstream, served(upstream.url) as rollout:
        answer = httpx.post(rollout.base_url + route, json=body(), headers=rollout.headers)
        assert answer.status_code == 200
        assert answer.json()["choices"][0]["message"]["content"] == "hello"
        assert answer.headers["content-type"] == "application/json"


@pytest.mark.parametrize("header", ["x-api-key", "api-key", "x-goog-api-key", "X-Api-Key"])
def test_every_form_of_the_credential_is_accepted(header: str) -> None:
    with Upstream() as upstream, served(upstream.url) as rollout:
        answer = httpx.post(rollout.url, json=body(), headers={header: rollout.session.key})
        assert answer.status_code == 200
        sent = upstream.calls[0].headers
        assert rollout.session.key not in str(sent)


@pytest.mark.parametrize(
    "headers", [{}, {"Authorization": "Bearer vf-other"}, {"Authorization": "Basic abc"}]
)
def test_an_unknown_key_is_refused_in_the_dialects_form(headers: dict[str, str]) -> None:
    with Upstream() as upstream, served(upstream.url) as rollout:
        answer = httpx.post(rollout.url, json=body(), headers=headers)
        assert answer.status_code == 401
        assert answer.json()["error"]["type"] == "authentication_error"
        assert httpx.get(rollout.base_url + "/v1/models", headers=headers).status_code == 401
        assert not upstream.calls and not rollout.trace.calls


def test_the_key_of_a_released_session_is_refused() -> None:
    with Upstream() as upstream, served(upstream.url) as rollout:
        assert post(rollout, body())[0][0] == 200
        rollout.run(rollout.pool.release(rollout.session))
        assert post(rollout, body())[0][0] == 401
        assert len(upstream.calls) == 1


def test_models_and_unknown_routes() -> None:
    with Upstream() as upstream, served(upstream.url) as rollout:
        get = lambda path: httpx.get(rollout.base_url + path, headers=rollout.headers)  # noqa: E731
        assert get("/v1/models").json()["data"][0]["id"] == "mock"
        assert get("/models/").json()["object"] == "list"
        assert get("/v1/models/some/model").json()["id"] == "some/model"
        assert get("/").status_code == 404
        assert get("/api/hello").json()["error"]["type"] == "not_found_error"
        head = httpx.head(rollout.base_url + "/", headers=rollout.headers)
        assert head.status_code == 404 and head.content == b""
        wrong = httpx.get(rollout.url, headers=rollout.headers)
        assert wrong.status_code == 405
        upgrade = {"Upgrade": "websocket", "Connection": "Upgrade", **rollout.headers}
        assert httpx.get(rollout.url, headers=upgrade).status_code == 426
        assert not rollout.trace.calls


def test_compressed_bodies() -> None:
    with Upstream() as upstream, served(upstream.url) as rollout:
        raw = json.dumps(body()).encode()
        packed = {"gzip": gzip.compress(raw), "zstd": zstandard.compress(raw), "identity": raw}
        for encoding, data in packed.items():
            headers = {**rollout.headers, "Content-Encoding": encoding}
            assert httpx.post(rollout.url, content=data, headers=headers).status_code == 200
        assert [call.body["messages"] for call in upstream.calls] == [MESSAGES] * 3
        headers = {**rollout.headers, "Content-Encoding": "gzip"}
        assert httpx.post(rollout.url, content=b"no gzip", headers=headers).status_code == 400
        headers["Content-Encoding"] = "br"
        assert httpx.post(rollout.url, content=raw, headers=headers).status_code == 415


def test_a_body_over_the_limit_is_413_also_when_it_is_packed() -> None:
    async def main() -> list[int]:
        session = Session(Trace(), Scripted(["hi"]))
        server = Server({session.key: session}, body_limit=10_000)
        await server.start()
        large = json.dumps(body([{"role": "user", "content": "x" * 20_000}])).encode()
        headers = {"Authorization": f"Bearer {session.key}"}
        statuses = []
        async with aiohttp.ClientSession(headers=headers) as http:
            for data, more in ((large, {}), (gzip.compress(large), {"Content-Encoding": "gzip"})):
                async with http.post(f"{server.url}/v1/chat/completions", data=data, headers=more) as answer:
                    statuses.append(answer.status)
        await session.close()
        await server.close()
        return statuses

    assert loops.engine().run(main()) == [413, 413]


def test_a_large_body_gets_through() -> None:
    with Upstream() as upstream, served(upstream.url) as rollout:
        text = "0123456789" * 2_000_000
        asked = body([{"role": "user", "content": text}])
        assert httpx.post(rollout.url, json=asked, headers=rollout.headers, timeout=30).status_code == 200
        assert upstream.calls[0].body["messages"][0]["content"] == text


def test_not_json_is_400_and_recorded() -> None:
    with Upstream() as upstream, served(upstream.url) as rollout:
        answer = httpx.post(rollout.url, content=b'{"messages": [', headers=rollout.headers)
        assert answer.status_code == 400 and "JSON" in answer.json()["error"]["message"]
        (call,) = rollout.trace.calls
        assert call.error is not None and call.error.type == "RequestError" and call.status == 400
        assert rollout.session.fault is None


def test_plain_and_streamed_bytes_are_those_of_the_upstream() -> None:
    odd = b'{"id":"x",  "object":"chat.completion","model":"m","choices":[{"index":0,"message":{"role":"assistant",'
    odd += b'"content":"caf\\u00e9"},"finish_reason":"stop"}],"vendor":{"b":1,"a":2}}'
    with Upstream([Say(raw=odd), Say(text="a stream of words")]) as upstream, served(upstream.url) as rollout:
        (_, plain), (_, streamed) = post(rollout, body(), body(stream=True))
        assert plain == odd
        direct = httpx.post(upstream.url + "/v1/chat/completions", json=body(stream=True, model="mock"))
        assert streamed == direct.content
        assert rollout.trace.messages[-1].text == "a stream of words"


def test_official_sdk_plain_and_streaming() -> None:
    with Upstream([Say(text="one"), Say(text="two words")]) as upstream, served(upstream.url) as rollout:
        with openai.OpenAI(base_url=rollout.base_url + "/v1", api_key=rollout.session.key) as sdk:
            first = sdk.chat.completions.create(model="m", messages=[{"role": "user", "content": "a"}])
            assert first.choices[0].message.content == "one"
            stream = sdk.chat.completions.create(
                model="m", messages=[{"role": "user", "content": "b"}], stream=True
            )
            text = "".join(chunk.choices[0].delta.content or "" for chunk in stream if chunk.choices)
            assert text == "two words"
            assert sdk.models.list().data[0].id == "mock"
        assert [call.finish_reason for call in rollout.trace.calls] == ["stop", "stop"]


def test_raw_sockets_http10_pipelining_and_expect() -> None:
    with Upstream() as upstream, served(upstream.url) as rollout:
        port = rollout.pool.ports[0]
        raw = json.dumps(body()).encode()
        head = f"Authorization: Bearer {rollout.session.key}\r\nContent-Length: {len(raw)}\r\n"

        def talk(data: bytes, more: bytes = b"") -> bytes:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as connection:
                connection.sendall(data)
                got = b""
                if more:
                    got = connection.recv(1000)
                    connection.sendall(more)
                while piece := connection.recv(65536):
                    got += piece
                return got

        old = talk(b"POST /v1/chat/completions HTTP/1.0\r\n" + head.encode() + b"\r\n" + raw)
        assert old.startswith(b"HTTP/1.1 200 OK\r\n") and b"Connection: close" in old
        request = b"POST /v1/chat/completions HTTP/1.1\r\nHost: x\r\n" + head.encode()
        last = request + b"Connection: close\r\n\r\n" + raw
        two = talk(request + b"\r\n" + raw + last)
        assert two.count(b"HTTP/1.1 200 OK") == 2
        waited = talk(request + b"Connection: close\r\nExpect: 100-continue\r\n\r\n", raw)
        assert waited.startswith(b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 200 OK")
        stream = json.dumps(body(stream=True)).encode()
        head = f"Authorization: Bearer {rollout.session.key}\r\nContent-Length: {len(stream)}\r\n\r\n"
        unchunked = talk(b"POST /v1/chat/completions HTTP/1.0\r\n" + head.encode() + stream)
        assert unchunked.endswith(b"data: [DONE]\n\n") and b"chunked" not in unchunked


def test_events_arrive_as_the_upstream_sends_them() -> None:
    with Upstream([Say(text="x" * 40, pace=0.05)]) as upstream, served(upstream.url) as rollout:

        async def main() -> list[float]:
            async with client(rollout) as http:
                start = time.monotonic()
                async with http.post(rollout.url, json=body(stream=True)) as answer:
                    assert answer.headers["Content-Type"].startswith("text/event-stream")
                    assert answer.headers["Cache-Control"] == "no-cache"
                    return [time.monotonic() - start async for _ in answer.content.iter_any()]

        times = asyncio.run(main())
        assert times[0] < 0.3 and times[-1] > 0.5 and len(times) >= 10
        (call,) = rollout.trace.calls
        assert call.first_token is not None and call.end - call.first_token > 0.4


def test_keepalives_while_the_upstream_thinks() -> None:
    settings = Settings(keepalive_after=0.1, keepalive_every=0.1)
    with Upstream([Say(delay=0.6)]) as upstream, served(upstream.url, settings=settings) as rollout:
        ((status, streamed),) = post(rollout, body(stream=True))
        assert status == 200
        assert 2 <= streamed.count(b": keepalive\n\n") <= 6
        assert streamed.rstrip().endswith(b"[DONE]")
        assert streamed.index(b"data:") > streamed.rindex(b": keepalive")


def test_an_error_after_a_keepalive_is_a_stream_error() -> None:
    settings = Settings(keepalive_after=0.05, keepalive_every=0.05)
    say = Say(delay=0.4, status=400, raw=b'{"error":{"message":"no such tool"}}')
    with Upstream([say]) as upstream, served(upstream.url, settings=settings) as rollout:
        ((status, streamed),) = post(rollout, body(stream=True))
        assert status == 200
        assert b"no such tool" in streamed.split(b": keepalive\n\n")[-1]
        assert rollout.trace.calls[0].error is not None


def test_an_early_error_keeps_its_status() -> None:
    say = Say(status=400, raw=b'{"error":{"message":"no such tool","code":"x"}}')
    with Upstream([say]) as upstream, served(upstream.url) as rollout:
        assert post(rollout, body(stream=True)) == [(400, say.raw)]


def test_pool_grows_at_32_sessions_and_shrinks_when_idle() -> None:
    async def main() -> None:
        pool = ServerPool(per_server=32, idle=0.05)
        sessions = [Session(Trace(), Scripted(["hi"], cycle=True)) for _ in range(70)]
        endpoints = [await pool.register(session) for session in sessions]
        assert len(pool.ports) == 3 and len(pool) == 70
        assert len({endpoint.port for endpoint in endpoints[:32]}) == 1
        async with aiohttp.ClientSession() as http:
            for session, endpoint in (*zip(sessions[::20], endpoints[::20], strict=True),):
                headers = {"Authorization": f"Bearer {session.key}"}
                url = f"{endpoint.base_url}/v1/chat/completions"
                async with http.post(url, json=body(), headers=headers) as answer:
                    assert answer.status == 200
        for session in sessions[32:]:
            await pool.release(session)
            await session.close()
        await asyncio.sleep(0.3)
        assert len(pool.ports) == 1
        ports = [endpoint.port for endpoint in endpoints]
        for session in sessions[:32]:
            await pool.release(session)
        again = await pool.register(sessions[0])
        assert again.port == endpoints[0].port
        await pool.release(sessions[0])
        await asyncio.sleep(0.3)
        assert pool.ports == []
        await pool.close()
        for port in set(ports):
            with pytest.raises(OSError):
                socket.create_connection(("127.0.0.1", port), timeout=1).close()

    loops.engine().run(main())


def test_128_at_once() -> None:
    with (
        Upstream(lambda data, _: Say(data["messages"][0]["content"] + "!", delay=0.1)) as upstream,
        served(upstream.url) as rollout,
    ):

        async def one(http: aiohttp.ClientSession, number: int) -> bool:
            asked = body([{"role": "user", "content": f"q{number}"}], stream=bool(number % 2))
            async with http.post(rollout.url, json=asked) as answer:
                text = await answer.text()
                return answer.status == 200 and (f"q{number}!" in text or number % 2 == 1)

        async def main() -> list[bool]:
            connector = aiohttp.TCPConnector(limit=0)
            async with aiohttp.ClientSession(headers=rollout.headers, connector=connector) as http:
                return await asyncio.gather(*(one(http, number) for number in range(128)))

        assert all(asyncio.run(main()))
        assert upstream.most > 30
        dag = rollout.trace.dag
        assert len(dag.calls) == 128 and dag.counters.turns == 128
        replies = {dag.nodes[call.prompt_node].message.text + "!" for call in dag.calls}
        assert replies == {dag.nodes[call.reply_node or 0].message.text for call in dag.calls}
