"""The transport without a socket: the same recording, from any loop."""

from __future__ import annotations

import asyncio
import time

import httpx
import openai
import pytest
from support.rollouts import Served, body, served, until
from support.upstream import Say, Upstream

from vfnb import loops
from vfnb.clients import Scripted
from vfnb.interception import InProcessTransport, Limits

URL = "http://rollout/v1/chat/completions"


def over(rollout: Served) -> httpx.AsyncClient:
    return httpx.AsyncClient(transport=InProcessTransport(rollout.session))


@pytest.mark.parametrize("where", ["user", "engine", "own"])
def test_plain_and_streamed_from_any_loop(where: str) -> None:
    with Upstream([Say(text="some words here")]) as upstream, served(upstream.url) as rollout:

        async def main() -> tuple[httpx.Response, httpx.Response, bytes]:
            async with over(rollout) as http:
                plain = await http.post(URL, json=body())
                streamed = await http.post(URL, json=body(stream=True))
                models = await http.get("http://rollout/v1/models")
                return plain, streamed, models.content

        run = {"user": loops.user().run, "engine": loops.engine().run, "own": asyncio.run}[where]
        plain, streamed, models = run(main())
        assert plain.json()["choices"][0]["message"]["content"] == "some words here"
        assert streamed.content.endswith(b"data: [DONE]\n\n")
        assert streamed.headers["content-type"].startswith("text/event-stream")
        assert b"mock" in models
        assert [call.transport for call in rollout.trace.calls] == ["inprocess"] * 2
        assert [call.stream for call in rollout.trace.calls] == [False, True]
        assert all(call.delivered for call in rollout.trace.calls)


def test_events_arrive_live() -> None:
    with Upstream([Say(text="x" * 40, pace=0.05)]) as upstream, served(upstream.url) as rollout:

        async def main() -> list[float]:
            start = time.monotonic()
            async with over(rollout) as http, http.stream("POST", URL, json=body(stream=True)) as answer:
                return [time.monotonic() - start async for _ in answer.aiter_raw()]

        times = asyncio.run(main())
        assert times[0] < 0.3 and times[-1] > 0.4


def test_the_official_sdk() -> None:
    with served(Scripted(["one", "two words"])) as rollout:

        async def main() -> list[str | None]:
            async with openai.AsyncOpenAI(
                base_url="http://rollout/v1", api_key="unused", http_client=over(rollout)
            ) as sdk:
                asked = [{"role": "user", "content": "hi"}]
                plain = await sdk.chat.completions.create(model="m", messages=asked)  # type: ignore[arg-type]
                stream = await sdk.chat.completions.create(
                    model="m",
                    messages=asked,  # type: ignore[arg-type]
                    stream=True,
                )
                text = ""
                async for chunk in stream:
                    text += chunk.choices[0].delta.content or "" if chunk.choices else ""
                return [plain.choices[0].message.content, text]

        assert loops.user().run(main()) == ["one", "two words"]


def test_errors_and_stops_have_their_status() -> None:
    with served(Scripted(["one"]), limits=Limits(max_turns=1)) as rollout:

        async def main() -> list[int]:
            async with over(rollout) as http:
                wrong = await http.post(URL, content=b"{")
                first = await http.post(URL, json=body())
                stopped = await http.post(URL, json=body())
                lost = await http.get("http://rollout/nowhere")
                return [wrong.status_code, first.status_code, stopped.status_code, lost.status_code]

        assert asyncio.run(main()) == [400, 200, 401, 404]


def test_a_cut_stream_raises() -> None:
    with (
        Upstream([Say(text="long enough to be cut", cut_after=4)]) as upstream,
        served(upstream.url) as rollout,
    ):

        async def main() -> None:
            async with over(rollout) as http:
                with pytest.raises(httpx.RemoteProtocolError):
                    await http.post(URL, json=body(stream=True))

        asyncio.run(main())
        assert rollout.trace.calls[0].partial_text


def test_cancelling_a_request_cancels_the_model_call() -> None:
    with Upstream([Say(delay=30)]) as upstream, served(upstream.url) as rollout:

        async def main() -> None:
            async with over(rollout) as http:
                with pytest.raises(TimeoutError):
                    async with asyncio.timeout(0.3):
                        await http.post(URL, json=body(), timeout=60)
            await until(lambda: bool(rollout.trace.calls))
            await until(lambda: upstream.calls[0].cancelled)

        asyncio.run(main())
        assert rollout.trace.calls[0].error is not None
        assert rollout.trace.calls[0].error.type == "CallCancelled"


def test_leaving_a_stream_early_cancels_the_model_call() -> None:
    with Upstream([Say(text="x" * 400, pace=0.05)]) as upstream, served(upstream.url) as rollout:

        async def main() -> None:
            async with over(rollout) as http, http.stream("POST", URL, json=body(stream=True)) as answer:
                async for _ in answer.aiter_raw():
                    break
            await until(lambda: bool(rollout.trace.calls))

        asyncio.run(main())
        (call,) = rollout.trace.calls
        assert call.error is not None and call.error.type == "CallCancelled" and not call.delivered


def test_closing_the_session_answers_a_waiting_request() -> None:
    with Upstream([Say(delay=30)]) as upstream, served(upstream.url) as rollout:

        async def main() -> int:
            async with over(rollout) as http:
                asking = asyncio.create_task(http.post(URL, json=body(), timeout=60))
                await until(lambda: bool(upstream.calls))
                await loops.engine().do(rollout.session.close())
                return (await asking).status_code

        assert asyncio.run(main()) == 401
