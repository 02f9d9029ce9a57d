"""The relay against a real server on loopback."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from support.upstream import Say, Upstream

from vfnb.clients import ModelRequest, Relay, Reply
from vfnb.dialects import Splitter, get
from vfnb.errors import (
    ConfigError,
    ContextLengthError,
    UpstreamConnection,
    UpstreamCut,
    UpstreamMalformed,
    UpstreamRateLimited,
    UpstreamRejected,
    UpstreamServerError,
    UpstreamTimeout,
)

CHAT = get("chat")


def request(body: dict[str, Any] | bytes | None = None, **keys: Any) -> ModelRequest:
    if body is None:
        body = {"model": "asked", "messages": [{"role": "user", "content": "hi"}]}
    raw = body if isinstance(body, bytes) else json.dumps(body).encode()
    split = Splitter(CHAT).split(raw)
    stream = CHAT.streams(split.fields)
    return ModelRequest(CHAT, raw, split, stream=stream, model=CHAT.model(split.fields), **keys)


STREAM = {
    "model": "asked",
    "messages": [{"role": "user", "content": "hi"}],
    "stream": True,
    "stream_options": {"include_usage": True},
}


def ask(relay: Relay, *requests: ModelRequest) -> list[Reply]:
    async def main() -> list[Reply]:
        try:
            return await asyncio.gather(*(relay.call(entry) for entry in requests))
        finally:
            await relay.close()

    return asyncio.run(main())


def read(relay: Relay, entry: ModelRequest) -> tuple[bytes, Any]:
    """All bytes of a stream, and its reader."""

    async def main() -> tuple[bytes, Any]:
        try:
            reply = await relay.call(entry)
            reader = CHAT.reader()
            assert reply.chunks is not None
            passed = b"".join([reader.feed(chunk) async for chunk in reply.chunks])
            reader.close()
            return passed + reader.held, reader
        finally:
            await relay.close()

    return asyncio.run(main())


def relay_to(upstream: Upstream, model: str = "", **keys: Any) -> Relay:
    keys.setdefault("retry_wait", 0.01)
    return Relay(model, base_url=upstream.url, api_key_var="VFNB_TEST_KEY", **keys)


def test_body_goes_through_untouched() -> None:
    item = b'{"role":"user","content":"h\\u00e9 \xc3\xa9", "weird": [1.50, 1e3]}'
    raw = b'{ "messages" : [ ' + item + b' ] ,\n "model":"asked", "x": 1.0 }'
    with Upstream() as upstream:
        (reply,) = ask(relay_to(upstream), request(raw))
        assert upstream.calls[0].raw == raw
        assert upstream.calls[0].path == "/v1/chat/completions"
    assert reply.body is not None
    assert json.loads(reply.body)["model"] == "asked"
    assert reply.response is not None
    assert reply.response.text == "hello"
    assert reply.response.usage is not None
    assert reply.response.usage.total_tokens == 10
    assert reply.served_model == "asked"


def test_model_and_settings_are_spliced_in() -> None:
    history = b'"messages": [{"role":"user","content":"\\u0068i"}]'
    raw = b"{" + history + b', "model": "asked", "max_completion_tokens": 9, "x": 1.0}'
    sampling = {"temperature": 0.5, "max_tokens": 4, "extra_body": {"top_k": 3}}
    with Upstream() as upstream:
        (reply,) = ask(relay_to(upstream, "real"), request(raw, sampling=sampling))
        sent = upstream.calls[0]
    assert history in sent.raw
    assert sent.body["model"] == "real"
    assert sent.body["max_completion_tokens"] == 4
    assert sent.body["temperature"] == 0.5
    assert sent.body["top_k"] == 3
    assert "max_tokens" not in sent.body
    assert reply.sampling_sent == {"max_tokens": 4, "x": 1.0, "temperature": 0.5, "top_k": 3}


@pytest.mark.parametrize("suffix", ["", "/", "/v1", "/v1/"])
def test_base_url_with_and_without_version(suffix: str) -> None:
    with Upstream() as upstream:
        relay = Relay("m", base_url=upstream.url + suffix)
        ask(relay, request())
        assert upstream.calls[0].path == "/v1/chat/completions"


def test_key_is_read_at_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    with Upstream() as upstream:
        relay = relay_to(upstream, headers={"X-Team": "env:VFNB_TEST_TEAM"})
        monkeypatch.setenv("VFNB_TEST_KEY", "sk-first-secret")
        monkeypatch.setenv("VFNB_TEST_TEAM", "blue")
        ask(relay, request())
        monkeypatch.setenv("VFNB_TEST_KEY", "sk-second-secret")
        ask(relay, request())
        sent = [entry.headers for entry in upstream.calls]
    assert [headers["Authorization"] for headers in sent] == [
        "Bearer sk-first-secret",
        "Bearer sk-second-secret",
    ]
    assert sent[0]["X-Team"] == "blue"
    assert "secret" not in repr(relay) + repr(relay.identity()) + repr(vars(relay))


def test_identity_has_no_secrets() -> None:
    relay = Relay(
        "m",
        base_url="https://user:pw@example.test/v1?token=abc",
        headers={"X-Api-Key": "literal", "X-Org": "lab", "X-Env": "env:NAME", "X-Blob": "a" * 40},
    )
    told = relay.identity()
    assert told["base_url"] == "https://example.test/v1"
    assert told["headers"] == {"X-Api-Key": "***", "X-Org": "lab", "X-Env": "env:NAME", "X-Blob": "***"}
    assert "pw" not in repr(relay)


def test_key_in_an_error_body_is_struck_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("VFNB_TEST_KEY", "sk-very-secret")
    raw = b'{"error": {"message": "Incorrect API key provided: sk-very-secret"}}'
    with Upstream([Say(status=401, raw=raw)]) as upstream, pytest.raises(UpstreamRejected) as caught:
        ask(relay_to(upstream), request())
    assert "sk-very-secret" not in str(caught.value) + caught.value.body.decode()
    assert "***" in str(caught.value)


def test_missing_key_and_server_fail_before_a_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("VFNB_TEST_KEY", raising=False)
    monkeypatch.delenv("OPENAI_BASE_URL", raising=False)
    with pytest.raises(ConfigError, match="VFNB_TEST_KEY is not set"):
        Relay("m", base_url="https://example.test", api_key_var="VFNB_TEST_KEY").check()
    with pytest.raises(ConfigError, match="set OPENAI_BASE_URL"):
        Relay("m").check()
    with pytest.raises(ConfigError, match="NOT_THERE"):
        Relay("m", base_url="http://localhost:1", headers={"a": "env:NOT_THERE"}).check()
    Relay("m", base_url="http://127.0.0.1:1", api_key_var="VFNB_TEST_KEY").check()
    Relay("m", base_url="https://example.test", api_key_var=None).check()
    with pytest.raises(ConfigError, match="not the key itself"):
        Relay("m", base_url="https://example.test", api_key_var="sk-1234")


def test_stream_bytes_are_as_sent_and_come_at_once() -> None:
    with Upstream([Say(text="hello world", pace=0.1)]) as upstream:
        seen: list[float] = []

        async def main() -> bytes:
            relay = relay_to(upstream)
            reply = await relay.call(request(STREAM))
            assert reply.chunks is not None
            start, data = time.monotonic(), b""
            async for chunk in reply.chunks:
                seen.append(time.monotonic() - start)
                data += chunk
            await relay.close()
            return data

        data = asyncio.run(main())
    assert data.endswith(b"data: [DONE]\n\n")
    assert seen[-1] - seen[0] > 0.3
    reader = CHAT.reader()
    reader.feed(data)
    assert reader.complete
    assert reader.held.endswith(b"data: [DONE]\n\n")
    assert reader.held.count(b"data:") == 3
    assert reader.response().text == "hello world"
    assert reader.response().usage is not None


def test_upstream_that_ignores_stream() -> None:
    raw = json.dumps(
        {"choices": [{"message": {"role": "assistant", "content": "x"}, "finish_reason": "stop"}]}
    )
    with Upstream([Say(raw=raw.encode())]) as upstream:
        (reply,) = ask(relay_to(upstream), request(STREAM))
    assert reply.chunks is None
    assert reply.response is not None
    assert reply.response.text == "x"


@pytest.mark.parametrize(
    ("say", "kind"),
    [
        (Say(status=400, raw=b'{"error":{"message":"bad"}}'), UpstreamRejected),
        (Say(status=404, raw=b"<html>"), UpstreamRejected),
        (Say(status=500, raw=b""), UpstreamServerError),
        (Say(status=529, raw=b"{}"), UpstreamServerError),
        (Say(status=504, raw=b"{}"), UpstreamTimeout),
        (Say(status=429, raw=b'{"error":{"message":"x","code":"insufficient_quota"}}'), UpstreamRejected),
        (
            Say(status=400, raw=b'{"error":{"code":"context_length_exceeded","message":"long"}}'),
            ContextLengthError,
        ),
        (Say(status=400, raw=b'{"message":"prompt length (9) exceeds max"}'), ContextLengthError),
        (Say(raw=b'{"error":{"message":"maximum context length is 5"}}'), ContextLengthError),
        (Say(raw=b'{"error":{"message":"down","code":503}}'), UpstreamServerError),
        (Say(raw=b'{"choices": [{"mess'), UpstreamMalformed),
        (Say(raw=b'{"choices": []}'), UpstreamMalformed),
        (Say(raw=b"[]"), UpstreamMalformed),
    ],
)
def test_failures_are_typed(say: Say, kind: type[Exception]) -> None:
    with Upstream([say]) as upstream, pytest.raises(kind) as caught:
        ask(relay_to(upstream, max_retries=0), request())
    assert type(caught.value) is kind
    assert upstream.url in str(caught.value) or kind is ContextLengthError


@pytest.mark.parametrize(
    ("body", "told"), [(b"404: Not Found", True), (b'{"error":{"message":"no model m"}}', False)]
)
def test_a_route_that_the_server_lacks_leads_to_its_dialect(body: bytes, told: bool) -> None:
    with Upstream([Say(status=404, raw=body)]) as upstream, pytest.raises(UpstreamRejected) as caught:
        ask(relay_to(upstream), request())
    assert caught.value.status == 404 and "answered 404" in str(caught.value)
    assert ("vf.Relay(..., dialect=...)" in str(caught.value)) is told
    with Upstream([Say(status=404, raw=body)]) as upstream, pytest.raises(UpstreamRejected) as caught:
        ask(relay_to(upstream, dialect="chat"), request())
    assert "dialect=" not in str(caught.value)


def test_retries_until_it_works() -> None:
    script: list[Say | str] = [Say(status=500, raw=b"{}"), Say(status=503, raw=b"{}"), "fine"]
    with Upstream(script) as upstream:
        (reply,) = ask(relay_to(upstream), request())
        assert len(upstream.calls) == 3
    assert reply.response is not None
    assert reply.response.text == "fine"
    assert [type(error) for error in reply.failed] == [UpstreamServerError, UpstreamServerError]


def test_refusals_are_not_retried() -> None:
    with Upstream([Say(status=400, raw=b"{}")]) as upstream:
        with pytest.raises(UpstreamRejected):
            ask(relay_to(upstream), request())
        assert len(upstream.calls) == 1


def test_retry_after_holds_for_all_rollouts() -> None:
    def script(body: Any, number: int) -> Say | str:
        return Say(status=429, raw=b"{}", headers={"Retry-After": "0.4"}) if number == 0 else "fine"

    with Upstream(script) as upstream:

        async def main() -> None:
            first, second = relay_to(upstream, "m"), relay_to(upstream, "m")
            one = asyncio.create_task(first.call(request()))
            await asyncio.sleep(0.15)
            await second.call(request())
            await one
            await first.close()
            await second.close()

        asyncio.run(main())
        start = upstream.calls[0].start
        assert len(upstream.calls) == 3
        assert all(entry.start - start > 0.35 for entry in upstream.calls[1:])


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "7"}, 7),
        ({"retry-after-ms": "1500", "Retry-After": "2"}, 1.5),
        ({"Retry-After": "Wed, 21 Oct 2015 07:28:00 GMT"}, 0),
        ({"Retry-After": "soon"}, None),
        ({}, None),
    ],
)
@pytest.mark.parametrize("status", [429, 503])
def test_retry_after_forms(headers: dict[str, str], seconds: float | None, status: int) -> None:
    kind = UpstreamServerError if status == 503 and seconds is None else UpstreamRateLimited
    with (
        Upstream([Say(status=status, raw=b"{}", headers=headers)]) as upstream,
        pytest.raises(kind) as caught,
    ):
        ask(relay_to(upstream, max_retries=0), request())
    assert getattr(caught.value, "retry_after", None) == seconds


def test_rate_limit_without_hope_is_told() -> None:
    with (
        Upstream([Say(status=429, raw=b"{}", headers={"Retry-After": "3600"})]) as upstream,
        pytest.raises(UpstreamRateLimited) as caught,
    ):
        ask(relay_to(upstream), request())
    assert caught.value.retry_after == 3600


def test_max_concurrency_is_shared() -> None:
    with Upstream([Say(delay=0.05)]) as upstream:

        async def main() -> None:
            first, second = relay_to(upstream, "n", max_concurrency=2), relay_to(upstream, "n")
            await asyncio.gather(*(relay.call(request()) for relay in (first, second) * 4))
            await first.close()
            await second.close()

        asyncio.run(main())
        assert len(upstream.calls) == 8
        assert upstream.most == 2


def test_dead_endpoint_is_named() -> None:
    with Upstream() as upstream:
        url = upstream.url
    with pytest.raises(UpstreamConnection, match="Is the server running"):
        ask(Relay("m", base_url=url, max_retries=0), request())

    async def probe() -> None:
        relay = Relay("m", base_url=url)
        try:
            await relay.probe()
        finally:
            await relay.close()

    with pytest.raises(UpstreamConnection, match=url):
        asyncio.run(probe())


def test_probe_of_a_live_server() -> None:
    with Upstream() as upstream:

        async def main() -> None:
            relay = relay_to(upstream)
            await relay.probe()
            await relay.close()

        asyncio.run(main())
        assert upstream.requests[0].path == "/v1/models"


def test_silence_is_a_timeout() -> None:
    with Upstream([Say(delay=5)]) as upstream:
        with pytest.raises(UpstreamTimeout):
            ask(relay_to(upstream, timeout=0.2), request())
        assert len(upstream.calls) == 1


@pytest.mark.parametrize("say", [Say(delay=5), Say(text="a" * 400, pace=0.05)])
def test_deadline_ends_the_call(say: Say) -> None:
    with Upstream([say]) as upstream:

        async def main() -> float:
            relay = relay_to(upstream)
            start = asyncio.get_running_loop().time()
            with pytest.raises(UpstreamTimeout):
                reply = await relay.call(request(STREAM, deadline=start + 0.3))
                assert reply.chunks is not None
                async for _ in reply.chunks:
                    pass
            await relay.close()
            return asyncio.get_running_loop().time() - start

        assert asyncio.run(main()) < 3.0


def test_cut_stream_is_told() -> None:
    with Upstream([Say(text="hello world", cut_after=3, pace=0.02)]) as upstream:

        async def main() -> Any:
            relay = relay_to(upstream)
            reader = CHAT.reader()
            reply = await relay.call(request(STREAM))
            assert reply.chunks is not None
            with pytest.raises(UpstreamCut):
                async for chunk in reply.chunks:
                    reader.feed(chunk)
            await relay.close()
            return reader

        reader = asyncio.run(main())
    reader.close()
    assert not reader.complete
    assert reader.partial_text == "hello wo"


@pytest.mark.parametrize("stream", [False, True])
def test_cancelling_closes_the_upstream_connection(stream: bool) -> None:
    with Upstream([Say(text="a" * 4000, pace=0.02) if stream else Say(delay=10)]) as upstream:

        async def main() -> None:
            relay = relay_to(upstream, max_concurrency=1)

            async def use() -> None:
                reply = await relay.call(request(STREAM if stream else None))
                assert reply.chunks is not None
                async for _ in reply.chunks:
                    pass

            task = asyncio.create_task(use())
            await asyncio.sleep(0.2)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert relay._endpoint.active == 0
            await relay.close()

        asyncio.run(main())
        for _ in range(100):
            if upstream.calls[0].cancelled:
                break
            time.sleep(0.02)
        assert upstream.calls[0].cancelled


def test_large_body_without_warning() -> None:
    body = {"model": "m", "messages": [{"role": "user", "content": "x" * 3_000_000}]}
    with Upstream() as upstream:
        ask(relay_to(upstream), request(body))
        assert len(upstream.calls[0].raw) > 3_000_000


def test_one_connection_is_reused() -> None:
    with Upstream() as upstream:

        async def main() -> None:
            relay = relay_to(upstream)
            for _ in range(3):
                await relay.call(request())
            assert relay._connection.open == 1
            await relay.close()

        asyncio.run(main())


def test_bad_settings_name_the_fix() -> None:
    for keys in (
        {"max_concurrency": 0},
        {"rpm": 0},
        {"base_url": "localhost:8000"},
        {"price": (1,)},
        {"price": (-1, 2)},
    ):
        with pytest.raises(ConfigError):
            Relay("m", **keys)


def test_redirects_are_named() -> None:
    with (
        Upstream([Say(status=301, raw=b"", headers={"Location": "https://other.test/v1"})]) as upstream,
        pytest.raises(
            UpstreamRejected, match=r"redirects to https://other\.test/v1; put that server into base_url"
        ),
    ):
        ask(relay_to(upstream), request())


def test_usage_can_be_asked_for() -> None:
    body = {key: value for key, value in STREAM.items() if key != "stream_options"}
    with Upstream() as upstream:
        raw, silent = read(relay_to(upstream), request(body))
        assert upstream.calls[0].raw == json.dumps(body).encode()
        raw, reader = read(relay_to(upstream, ask_usage=True), request(body))
        assert upstream.calls[1].body == body | {"stream_options": {"include_usage": True}}
        assert b'"usage"' in raw
    assert silent.response().usage is None
    assert reader.response().usage.total_tokens == 10
    hidden = CHAT.reader(usage=False)
    shown = hidden.feed(raw)
    hidden.close()
    assert b'"usage"' not in shown + hidden.held
    assert hidden.response() == reader.response()
