"""Responses through the real server: rewrites, edited replies, hosted results, streams that grow."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from typing import Any

import msgspec
import pytest
from support.responses_bodies import HOSTED, TURN
from support.responses_upstream import Output, ResponsesUpstream, text_item
from support.rollouts import Served, client, served

from vfnb.clients import Relay
from vfnb.dialects import Responses
from vfnb.dialects.registry import register
from vfnb.interception import Edit, Hooks
from vfnb.trace import Trace
from vfnb.types import Messages, Request, Response

USER = {"role": "user", "content": "go"}
RESULT = {"type": "function_call_output", "call_id": "call_1", "output": "SECRET"}


def say(text: str, number: int = 1, *items: dict[str, Any]) -> Output:
    return Output(items=[*items, text_item(text)], identity=f"resp_{number}")


def post(rollout: Served, *bodies: Any) -> list[Any]:
    async def main() -> list[Any]:
        answers = []
        async with client(rollout) as http:
            for body in bodies:
                async with http.post(
                    f"{rollout.base_url}/v1/responses", json={"model": "m", **body}
                ) as answer:
                    assert answer.status == 200, await answer.text()
                    answers.append(
                        await answer.json(content_type=None)
                        if not body.get("stream")
                        else await answer.read()
                    )
        return answers

    return asyncio.run(main())


class Censor(Hooks):
    """Rewrites tool results, or answers, or what hosted tools found."""

    def __init__(self, *, request: bool = False, answer: bool = False, hosted: bool = False) -> None:
        self.edits_request, self.edits_response = request, answer or hosted
        self._hosted = hosted

    async def edit(self, request: Request, first: int, trace: Trace) -> dict[int, list[Edit]]:
        found = {}
        for position, message in enumerate(request.messages[first:], first):
            if message.role == "tool":
                after = message.model_copy(update={"content": message.text.lower()})
                found[position] = [Edit("lower", message, after)]
        return found

    async def answer(self, response: Response, trace: Trace) -> tuple[Response, Sequence[Edit]]:
        after = response.model_copy(deep=True)
        if self._hosted:
            for result in after.hosted_results:
                result.text = "censored"
        else:
            after.message.content = "edited"
        return after, [Edit("censor", response.message, after.message)]


@pytest.mark.parametrize("continued", [False, True])
def test_a_rewritten_result_stays_rewritten(continued: bool) -> None:
    script = [say("a", 1, *TURN[:3]), say("b", 2), say("c", 3)]
    with (
        ResponsesUpstream(script) as upstream,
        served(Relay("", base_url=upstream.url), hooks=Censor(request=True)) as rollout,
    ):
        (first,) = post(rollout, {"input": [USER]})
        history: list[Any] = [USER, *first["output"], RESULT]
        if continued:
            (second,) = post(rollout, {"input": [RESULT], "previous_response_id": first["id"]})
            post(rollout, {"input": "more", "previous_response_id": second["id"]})
        else:
            (second,) = post(rollout, {"input": history})
            post(rollout, {"input": [*history, *second["output"], USER]})
        sent = [call.body for call in upstream.calls]
        dag = rollout.trace.dag
    lower = RESULT | {"output": "secret"}
    assert sent[1]["input"][-1] == lower
    if continued:
        assert sent[1] == {"model": "m", "input": [lower], "previous_response_id": "resp_1"}
        assert sent[2] == {"model": "m", "input": "more", "previous_response_id": "resp_2"}
    else:
        assert sent[2]["input"] == [*history[:-1], lower, *second["output"], USER]
    assert [node.message.role for node in dag.nodes] == [
        "user",
        "assistant",
        "tool",
        "assistant",
        "user",
        "assistant",
    ]
    assert len(dag.leaves) == 1 and dag.nodes[2].message.text == "secret"


@pytest.mark.parametrize("stream", [False, True])
def test_who_goes_on_from_an_edited_reply_has_it_in_the_history(stream: bool) -> None:
    script = [say("original", 1), say("b", 2)]
    with (
        ResponsesUpstream(script) as upstream,
        served(Relay("", base_url=upstream.url), hooks=Censor(answer=True)) as rollout,
    ):
        (first,) = post(rollout, {"input": [USER], "instructions": "Be brief."})
        assert first["output"][0]["content"][0]["text"] == "edited" and first["id"] == "resp_1"
        more = {
            "input": "more",
            "instructions": "Be brief.",
            "previous_response_id": "resp_1",
            "stream": stream,
        }
        post(rollout, more)
        (_, second) = upstream.calls
        dag = rollout.trace.dag
        line = [message.text for message in dag.messages(dag.calls[1].prompt_node)]
    assert "previous_response_id" not in second.body and "instructions" not in second.body
    assert [item["role"] for item in second.body["input"]] == ["system", "user", "assistant", "user"]
    assert line == ["Be brief.", "go", "edited", "more"]
    assert "original" not in second.raw.decode() and "edited" in second.raw.decode()


@pytest.mark.parametrize("stream", [False, True])
def test_what_hosted_tools_found_can_be_replaced(stream: bool) -> None:
    with (
        ResponsesUpstream([say("found", 1, *HOSTED)]) as upstream,
        served(Relay("", base_url=upstream.url), hooks=Censor(hosted=True)) as rollout,
    ):
        (answer,) = post(rollout, {"input": [USER], "stream": stream})
        text = answer.decode() if stream else str(answer)
        dag = rollout.trace.dag
    assert "censored" in text and "https://example.com" not in text
    assert dag.nodes[1].sampled and "https://example.com" in str(dag.nodes[1].message)
    assert dag.calls[0].shown_node == 2


@pytest.fixture
def decoded() -> Iterator[list[bytes]]:
    """The items that are decoded, while the test lasts."""
    seen: list[bytes] = []

    class Counting(Responses):
        name = "responses"
        routes = Responses.routes

        def decode(self, item: msgspec.Raw | bytes) -> Messages:
            seen.append(bytes(item))
            return super().decode(item)

    yield seen
    register(Responses)


def test_a_history_that_grows_is_known_by_its_beginning(decoded: list[bytes]) -> None:
    with (
        ResponsesUpstream(lambda body, number: say(f"a{number}", number)) as upstream,
        served(Relay("", base_url=upstream.url)) as rollout,
    ):
        history: list[Any] = [USER]
        read = []
        for number in range(12):
            (answer,) = post(rollout, {"input": history})
            read.append(len(decoded))
            decoded.clear()
            history = [*history, *answer["output"], {**RESULT, "output": f"r{number}"}]
        dag = rollout.trace.dag
    assert read == [1] + [2] * 11
    assert len(dag.leaves) == 1 and len(dag.nodes) == 24
