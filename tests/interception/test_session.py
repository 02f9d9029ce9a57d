"""Recording, durability, limits, stops, hooks and the end of a session."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import aiohttp
import httpx
import pytest
from support.rollouts import Journal, Served, body, client, post, served, until
from support.upstream import Say, Upstream

from vfnb import loops
from vfnb.clients import Relay, Scripted
from vfnb.errors import ContextLengthError, StoreError
from vfnb.interception import Hooks, Limits, Session, SessionClosed, SessionStopped, Settings
from vfnb.trace import Trace
from vfnb.types import Request, Response, SamplingConfig, UserMessage

HI = {"role": "user", "content": "hi"}


def turn(*texts: str) -> list[dict[str, str]]:
    """A history that alternates user and assistant."""
    return [{"role": ("user", "assistant")[i % 2], "content": text} for i, text in enumerate(texts)]


def test_a_conversation_is_one_branch_and_says_what_was_asked_and_sent() -> None:
    replies = iter(["one", "two", "three"])
    with Upstream(lambda *_: next(replies)) as upstream:
        sampling = SamplingConfig(temperature=0.5, extra_body={"top_k": 3})
        with served(upstream.url, sampling=sampling) as rollout:
            tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
            post(
                rollout,
                body(turn("a"), temperature=1.0, tools=tools),
                body(turn("a", "one", "b"), temperature=1.0, tools=tools),
                body(turn("a", "one", "b", "two", "c"), stream=True),
            )
            dag = rollout.trace.dag
            assert len(dag.nodes) == 6 and dag.leaves == [5]
            assert [node.sampled for node in dag.nodes] == [False, True] * 3
            first = dag.calls[0]
            assert first.sampling_asked["temperature"] == 1.0
            assert first.sampling_sent["temperature"] == 0.5
            assert first.usage is not None and first.usage.completion_tokens == 3
            assert [tool.name for tool in dag.tool_list(first.tools)] == ["f"]
            assert first.tools == dag.calls[1].tools and dag.calls[2].tools is None
            assert first.model == "asked" and first.delivered and first.transport == "http"
            assert first.start <= (first.first_token or 0) <= first.end
            sent = upstream.calls[1].body
            assert sent["temperature"] == 0.5 and sent["top_k"] == 3 and sent["model"] == "mock"
            assert sent["messages"] == turn("a", "one", "b")


@pytest.mark.parametrize("width", [1, 30])
def test_a_history_that_is_written_anew_is_still_the_same(width: int) -> None:
    said = [f"text {number}" for number in range(2 * width - 1)]
    with (
        Upstream(lambda data, _: f"text {len(data['messages'])}") as upstream,
        served(upstream.url) as rollout,
    ):
        for number in range(1, 2 * width, 2):
            post(rollout, body(turn(*said[:number])))
        longer = body(turn(*said, f"text {2 * width - 1}", "more"))
        edited = body([*turn(*said[:-1]), {"role": "user", "content": "another"}])
        for asked in (longer, edited):
            raw = json.dumps(asked, indent=2, sort_keys=True)
            answer = httpx.post(rollout.url, content=raw, headers=rollout.headers)
            assert answer.status_code == 200
        dag = rollout.trace.dag
        assert len(dag.nodes) == 2 * width + 4 and len(dag.leaves) == 2
        assert [message.text for message in dag.messages(dag.leaves[0])][:-2] == [
            *said,
            f"text {2 * width - 1}",
        ]
        assert dag.messages(dag.calls[-1].prompt_node)[-1].text == "another"


@pytest.mark.parametrize("stream", [False, True])
def test_the_end_of_an_answer_waits_for_the_journal(stream: bool) -> None:
    journal = Journal(delay=0.3)
    with (
        Upstream([Say(text="words of a stream")]) as upstream,
        served(upstream.url, journal=journal) as rollout,
    ):

        async def main() -> tuple[list[tuple[int, bytes]], bytes]:
            async with (
                client(rollout) as http,
                http.post(rollout.url, json=body(stream=stream)) as answer,
            ):
                seen = [(journal.durable, piece) async for piece in answer.content.iter_any()]
            return seen, b"".join(piece for _, piece in seen)

        seen, whole = asyncio.run(main())
        assert seen[-1][0] == 1
        if stream:
            assert seen[0][0] == 0  # live before the commit
            early = b"".join(piece for durable, piece in seen if not durable)
            assert b"[DONE]" not in early and b"words"[:4] in early
            assert whole.endswith(b"data: [DONE]\n\n")
        else:
            assert all(durable == 1 for durable, _ in seen)


def test_a_journal_that_fails_ends_the_rollout_and_nothing_is_delivered() -> None:
    journal = Journal(error=StoreError("disk full"))
    with Upstream() as upstream, served(upstream.url, journal=journal) as rollout:
        (status, answer), (again, _) = post(rollout, body(), body())
        assert status == again == 401 and b"hello" not in answer and b"disk full" in answer
        assert isinstance(rollout.session.fault, StoreError)
        assert rollout.session.ended.is_set() and len(upstream.calls) == 1
    with Upstream() as upstream, served(upstream.url, journal=journal) as rollout:
        answer = httpx.post(rollout.url, content=b"{", headers=rollout.headers)
        assert answer.status_code == 400 and isinstance(rollout.session.fault, StoreError)


@pytest.mark.parametrize(
    ("limits", "name", "answered"),
    [
        (Limits(max_turns=2), "max_turns", 2),
        (Limits(max_input_tokens=14), "max_input_tokens", 2),
        (Limits(max_output_tokens=7), "max_output_tokens", 3),
        (Limits(max_total_tokens=5), "max_total_tokens", 1),
    ],
)
def test_limits_stop_with_the_dialects_status(limits: Limits, name: str, answered: int) -> None:
    with Upstream() as upstream, served(upstream.url, limits=limits) as rollout:
        statuses = [status for status, _ in post(rollout, *[body(turn(str(i))) for i in range(5)])]
        assert statuses == [200] * answered + [401] * (5 - answered)
        session = rollout.session
        assert session.stop_condition == name and session.ended.is_set() and session.fault is None
        assert len(upstream.calls) == answered == len(rollout.trace.calls)
        assert session.requests == 5
        ((_, answer),) = post(rollout, body())
        assert json.loads(answer)["error"]["code"] == "invalid_api_key"


def test_max_turns_holds_under_concurrency() -> None:
    with (
        Upstream([Say(delay=0.05)]) as upstream,
        served(upstream.url, limits=Limits(max_turns=3)) as rollout,
    ):

        async def main() -> list[int]:
            async def one(http: aiohttp.ClientSession, number: int) -> int:
                async with http.post(rollout.url, json=body(turn(str(number)))) as answer:
                    return answer.status

            async with client(rollout) as http:
                return await asyncio.gather(*(one(http, number) for number in range(10)))

        assert sorted(asyncio.run(main())) == [200] * 3 + [401] * 7
        assert len(upstream.calls) == 3


def test_a_failed_call_leaves_its_turn_to_the_next() -> None:
    say = [Say(status=400, raw=b'{"error":{"message":"no"}}'), Say()]
    with Upstream(say) as upstream, served(upstream.url, limits=Limits(max_turns=1)) as rollout:
        assert [status for status, _ in post(rollout, body(), body(), body())] == [400, 200, 401]


class Watcher(Hooks):
    """Stops at the hook that is named."""

    def __init__(self, at: str, stream: bool = False) -> None:
        self.at = at
        self.seen: list[Any] = []
        self.on_trace, self.on_request, self.on_response = at == "trace", at == "request", at == "response"

    async def trace(self, trace: Trace) -> str | None:
        self.seen.append(trace.num_turns)
        return "enough" if trace.num_turns == 1 else None

    async def request(self, request: Request, trace: Trace) -> str | None:
        self.seen.append([message.text for message in request.messages])
        return "enough" if len(request.messages) == 3 else None

    async def response(self, response: Response, trace: Trace) -> str | None:
        self.seen.append(response.text)
        return "enough" if response.text == "two" else None


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("at", ["trace", "request", "response"])
def test_hooks_can_stop(at: str, stream: bool) -> None:
    replies = iter(["one", "two"])
    hooks = Watcher(at)
    with Upstream(lambda *_: next(replies)) as upstream, served(upstream.url, hooks=hooks) as rollout:
        first, second = post(
            rollout, body(turn("a"), stream=stream), body(turn("a", "one", "b"), stream=stream)
        )
        assert first[0] == 200 and second[0] == 401 and b"enough" in second[1]
        assert rollout.session.stop_condition == "enough"
        assert len(upstream.calls) == (2 if at == "response" else 1)
        assert len(rollout.trace.calls) == len(upstream.calls)
        expected = {"trace": [0, 1], "request": [["a"], ["a", "one", "b"]], "response": ["one", "two"]}
        assert hooks.seen == expected[at]


def test_a_hook_that_raises_ends_the_rollout_with_its_error() -> None:
    class Broken(Hooks):
        on_trace = True

        async def trace(self, trace: Trace) -> str | None:
            raise ZeroDivisionError("in the hook")

    with Upstream() as upstream, served(upstream.url, hooks=Broken()) as rollout:
        ((status, answer),) = post(rollout, body())
        assert status == 401 and b"ZeroDivisionError" in answer
        assert isinstance(rollout.session.fault, ZeroDivisionError)
        assert rollout.trace.calls[0].error is not None
        assert rollout.trace.calls[0].error.type == "ZeroDivisionError"
        assert not upstream.calls


def test_an_unexpected_error_of_a_client_is_recorded_and_not_retried() -> None:
    class Odd(Scripted):
        async def call(self, request: Any) -> Any:
            raise LookupError("a bug")

    with served(Odd(["x"])) as rollout:
        ((status, answer),) = post(rollout, body())
        assert status == 401 and b"LookupError: a bug" in answer
        (call,) = rollout.trace.calls
        assert call.error is not None and call.error.type == "LookupError" and call.error.traceback
        assert isinstance(rollout.session.fault, LookupError)


def test_overflow_is_typed_and_does_not_end_the_rollout() -> None:
    long = b'{"error":{"message":"This model\'s maximum context length is 8 tokens","code":null}}'
    with Upstream([Say(status=400, raw=long), Say()]) as upstream, served(upstream.url) as rollout:
        ((status, answer),) = post(rollout, body(turn("too long")))
        assert status == 400 and json.loads(answer)["error"]["code"] == "context_length_exceeded"
        session = rollout.session
        assert session.last_overflow is not None and session.stop_condition is None
        assert rollout.trace.calls[0].error is not None
        assert rollout.trace.calls[0].error.type == "ContextLengthError"
        assert post(rollout, body(turn("short")))[0][0] == 200
        assert session.last_overflow is None


def test_an_upstream_that_is_down_for_good_ends_the_rollout() -> None:
    model = Relay("mock", base_url="http://127.0.0.1:9", max_retries=0)
    with served(model, settings=Settings(max_failures=3)) as rollout:
        statuses = [status for status, _ in post(rollout, *[body()] * 5)]
        assert statuses == [502, 502, 502, 401, 401]
        assert type(rollout.session.fault).__name__ == "UpstreamConnection"
        assert [call.retry_of for call in rollout.trace.calls] == [None, 0, 1]


def test_close_cancels_and_records_what_is_in_flight() -> None:
    journal = Journal()
    with Upstream([Say(delay=30)]) as upstream, served(upstream.url, journal=journal) as rollout:

        async def main() -> tuple[int, float]:
            async with client(rollout) as http:
                asking = asyncio.create_task(http.post(rollout.url, json=body()))
                await until(lambda: bool(upstream.calls))
                (pending,) = rollout.session.pending()
                assert pending.last_byte is None
                start = time.monotonic()
                await loops.engine().do(rollout.session.close("the agent ran out of time"))
                took = time.monotonic() - start
                answer = await asking
                return answer.status, took

        status, took = asyncio.run(main())
        assert status == 401 and took < 1
        (call,) = rollout.trace.calls
        assert call.error is not None and call.error.type == "CallCancelled"
        assert "ran out of time" in call.error.message
        assert len(journal.deltas) == 1 and not rollout.session.pending()
        assert post(rollout, body())[0][0] == 401
        asyncio.run(until(lambda: upstream.calls[0].cancelled))


def test_silence_of_the_upstream_is_told_apart_from_work_of_the_program() -> None:
    with Upstream([Say(), Say(delay=0.5)]) as upstream, served(upstream.url) as rollout:
        post(rollout, body(turn("a")))

        async def quiet() -> float:
            return rollout.session.silent_for()

        assert rollout.run(quiet()) == 0

        async def main() -> None:
            async with client(rollout) as http:
                asking = asyncio.create_task(http.post(rollout.url, json=body(turn("b"))))
                await asyncio.sleep(0.3)
                assert 0.1 < await loops.engine().do(quiet()) < 0.5
                await (await asking).read()

        asyncio.run(main())
        assert rollout.run(quiet()) == 0


def test_the_price_of_the_client_gives_the_cost() -> None:
    model = Scripted(["a b c"], price=(1.0, 2.0))
    with served(model) as rollout:
        post(rollout, body())
        usage = rollout.trace.calls[0].usage
        assert usage is not None and usage.cost == pytest.approx((usage.prompt_tokens + 6) / 1e6)


def test_keys_never_show() -> None:
    with Upstream() as upstream, served(upstream.url) as rollout:
        post(rollout, body())
        assert rollout.session.key not in repr(rollout.session)
        assert rollout.session.key not in rollout.trace.model_dump_json()


def _complete(rollout: Served, *args: Any, **keys: Any) -> Any:
    return loops.user().run(rollout.session.complete(*args, **keys))


def test_complete_is_a_conversation_without_http() -> None:
    with served(Scripted(lambda messages: f"answer {len(messages)}")) as rollout:
        first = _complete(rollout, "hello")
        assert first.text == "answer 1" and first.usage is not None and not first.tool_calls
        second = _complete(rollout, [*first.messages, UserMessage(content="more")], temperature=0.1)
        assert second.text == "answer 3" and len(second.messages) == 4
        dag = rollout.trace.dag
        assert len(dag.nodes) == 4 and dag.leaves == [3]
        assert [call.transport for call in dag.calls] == ["inprocess"] * 2
        assert dag.calls[1].sampling_asked == {"temperature": 0.1}
        as_dicts = [
            {"role": message.role, "content": message.text} for message in second.messages
        ]  # as in a Chat request
        third = _complete(rollout, [*as_dicts, {"role": "user", "content": "more"}])
        assert third.text == "answer 5" and len(dag.nodes) == 6
        assert all(call.delivered for call in dag.calls)


def test_complete_raises_what_happened() -> None:
    script = ["one", ContextLengthError("too long", status=400), "two"]
    with served(Scripted(script), limits=Limits(max_turns=2)) as rollout:
        assert _complete(rollout, "a").text == "one"
        with pytest.raises(ContextLengthError):
            _complete(rollout, "b")
        assert _complete(rollout, "b").text == "two"
        with pytest.raises(SessionStopped, match="max_turns"):
            _complete(rollout, "c")
        rollout.run(rollout.session.close())
    other = Session(Trace(), Scripted(["x"]))
    loops.engine().run(other.close())
    with pytest.raises(SessionClosed):
        loops.user().run(other.complete("x"))


def test_cancelling_complete_cancels_the_call() -> None:
    with Upstream([Say(delay=30)]) as upstream, served(upstream.url) as rollout:

        async def main() -> None:
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.3):
                    await rollout.session.complete("slow")

        start = time.monotonic()
        loops.user().run(main())
        assert time.monotonic() - start < 5
        asyncio.run(until(lambda: bool(rollout.trace.calls)))
        assert rollout.trace.calls[0].error is not None
        assert rollout.trace.calls[0].error.type == "CallCancelled"
        asyncio.run(until(lambda: upstream.calls[0].cancelled))


def test_closing_the_session_ends_a_complete_with_an_error_not_a_cancellation() -> None:
    with Upstream([Say(delay=30)]) as upstream, served(upstream.url) as rollout:

        async def main() -> None:
            asking = asyncio.ensure_future(rollout.session.complete("slow"))
            await until(lambda: bool(upstream.calls))
            await loops.engine().do(rollout.session.close())
            with pytest.raises(SessionClosed):
                await asking

        loops.user().run(main())


def test_a_request_with_several_choices_is_refused_with_the_reason() -> None:
    with Upstream() as upstream, served(upstream.url) as rollout:
        answer = httpx.post(rollout.url, json=body(n=2), headers=rollout.headers)
        assert answer.status_code == 400 and "n=2" in answer.json()["error"]["message"]
        assert rollout.trace.calls[0].error is not None and not upstream.calls
