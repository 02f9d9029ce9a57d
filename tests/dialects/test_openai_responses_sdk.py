"""The official openai client cannot tell our server from a provider of Responses.

Each scenario runs three times: against a scripted provider, through our relay to it, and against our server alone
with a scripted model that says the same. What the client sees must be equal.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import openai
import pytest
from pydantic import BaseModel
from support.responses_upstream import Output, ResponsesUpstream, event, failing, response
from support.rollouts import Served, served

from vfnb.clients import Relay, Scripted
from vfnb.dialects import get
from vfnb.errors import ContextLengthError, UpstreamRateLimited, UpstreamRejected, UpstreamServerError
from vfnb.interception import Limits
from vfnb.interception.settings import Settings

RESPONSES = get("responses")
MODEL = "gpt-x"
MODES = ("provider", "relay", "scripted")
TOOLS: list[Any] = [
    {
        "type": "function",
        "name": "weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        "strict": False,
    },
    {"type": "custom", "name": "patch"},
    {"type": "web_search"},
]


def said(text: str, identity: str = "msg_1", **more: Any) -> dict[str, Any]:
    part = {"type": "output_text", "annotations": [], "logprobs": [], "text": text} | more
    return {"id": identity, "type": "message", "status": "completed", "content": [part], "role": "assistant"}


def thought(text: str, identity: str = "rs_1", **more: Any) -> dict[str, Any]:
    summary = [{"type": "summary_text", "text": text}] if text else []
    return {"id": identity, "type": "reasoning", "summary": summary} | more


TEXT = said("  hello there, wörld \U0001f600\n")
CALL = {
    "id": "fc_1",
    "type": "function_call",
    "status": "completed",
    "call_id": "call_1",
    "name": "weather",
    "arguments": '{"city":  "Besan\\u00e7on" }',
}
PATCH = {
    "id": "ctc_1",
    "type": "custom_tool_call",
    "status": "completed",
    "call_id": "call_2",
    "name": "patch",
    "input": "*** Begin\n+é\n",
}
SEARCH = {
    "id": "ws_1",
    "type": "web_search_call",
    "status": "completed",
    "action": {"type": "search", "query": "vfnb"},
}
CITED = {"type": "url_citation", "start_index": 0, "end_index": 2, "title": "A", "url": "https://a.example"}
RAW = {"content": [{"type": "reasoning_text", "text": "raw thoughts"}]}
REFUSAL = {**said(""), "content": [{"type": "refusal", "refusal": "I will not do that."}]}
TWO_PARTS = {**said(""), "content": [*TEXT["content"], *said("more")["content"]]}

REPLIES: dict[str, Output] = {
    "text": Output(items=[TEXT]),
    "empty text": Output(items=[said("")]),
    "call": Output(items=[TEXT, CALL]),
    "namespaced call": Output(items=[CALL | {"namespace": "mcp__sky"}]),
    "two calls": Output(items=[CALL, CALL | {"id": "fc_2", "call_id": "call_3", "arguments": ""}]),
    "custom call": Output(items=[thought("Let me patch. "), PATCH]),
    "reasoning": Output(items=[thought("Let me think. ", encrypted_content="ENC=="), TEXT, CALL]),
    "empty reasoning": Output(items=[thought("", encrypted_content="ENC=="), TEXT]),
    "raw reasoning": Output(items=[thought("", **RAW), TEXT]),
    "both reasonings": Output(items=[thought("short", **RAW), TEXT]),
    "two summaries": Output(items=[thought("a") | {"summary": thought("a")["summary"] * 2}, TEXT]),
    "interleaved": Output(items=[thought("One."), CALL, thought("Two.", "rs_2"), said("now"), PATCH]),
    "two messages": Output(items=[said("one") | {"phase": "commentary"}, said("two", "msg_2")]),
    "two parts": Output(items=[TWO_PARTS]),
    "web search": Output(items=[thought("Look."), SEARCH, said("It is so.", annotations=[CITED])]),
    "refusal": Output(items=[REFUSAL]),
    "length": Output(
        items=[TEXT | {"status": "incomplete"}], status_of="incomplete", reason="max_output_tokens"
    ),
    "filtered": Output(
        items=[TEXT | {"status": "incomplete"}], status_of="incomplete", reason="content_filter"
    ),
}


@contextmanager
def provider(mode: str, script: list[Any]) -> Iterator[Any]:
    """A client of the provider, of our relay to it, or of our server with a model that says the same."""
    if mode == "scripted":
        answers = [RESPONSES.parse_response(response(say, {"model": MODEL})) for say in script]
        with served(Scripted(answers)) as rollout, sdk(rollout) as client:
            yield client
        return
    with ResponsesUpstream(copy.deepcopy(script)) as upstream:
        if mode == "provider":
            with openai.OpenAI(
                base_url=upstream.url + "/v1", api_key="key", max_retries=0, timeout=20
            ) as client:
                yield client
            return
        with served(Relay("", base_url=upstream.url, max_retries=0)) as rollout, sdk(rollout) as client:
            yield client


def sdk(rollout: Served, **settings: Any) -> openai.OpenAI:
    settings = {"max_retries": 0, "timeout": 20, "api_key": rollout.session.key} | settings
    return openai.OpenAI(base_url=f"{rollout.base_url}/v1", **settings)


ASK: dict[str, Any] = {
    "model": MODEL,
    "input": "hi",
    "instructions": "Be brief.",
    "tools": TOOLS,
    "tool_choice": "auto",
    "reasoning": {"effort": "low", "summary": "auto"},
    "metadata": {"a": "b"},
    "store": False,
    "include": ["reasoning.encrypted_content"],
}


def timeless(reply: Any) -> dict[str, Any]:
    found: dict[str, Any] = reply.model_dump()
    assert found.pop("created_at") > 0
    return found


def plain(client: Any) -> Any:
    return timeless(client.responses.create(**ASK))


def streamed(client: Any) -> Any:
    """The final response and the kinds of the events without those that only cut text into pieces."""
    with client.responses.stream(**ASK) as stream:
        kinds: list[str] = []
        for one in stream:
            if not one.type.endswith(".delta") or kinds[-1:] != [one.type]:
                kinds.append(one.type)
        return kinds if kinds[-1] != "response.completed" else (kinds, timeless(stream.get_final_response()))


def raw_stream(client: Any) -> Any:
    """Every event, deltas joined; numbers must run."""
    events: list[Any] = []
    for number, one in enumerate(client.responses.create(**ASK, stream=True)):
        assert one.sequence_number == number
        seen = one.model_dump(exclude={"sequence_number"})
        if "response" in seen:
            del seen["response"]["created_at"]
        if events and "delta" in seen and events[-1]["type"] == seen["type"]:
            events[-1]["delta"] += seen["delta"]
        else:
            events.append(seen)
    return events


@pytest.mark.parametrize("ask", [plain, streamed, raw_stream])
def test_replies_are_the_same(ask: Callable[[Any], Any]) -> None:
    seen = {}
    for mode in MODES:
        with provider(mode, list(REPLIES.values())) as client:
            seen[mode] = {name: ask(client) for name in REPLIES}
    for name in REPLIES:
        assert seen["relay"][name] == seen["provider"][name]
        assert seen["scripted"][name] == seen["provider"][name]


class Weather(BaseModel):
    city: str
    degrees: float


@pytest.mark.parametrize("mode", MODES)
def test_structured_output_is_parsed(mode: str) -> None:
    with provider(mode, [Output(items=[said('{"city": "Pau", "degrees": 21.5}')])] * 2) as client:
        reply = client.responses.parse(model=MODEL, input="weather?", text_format=Weather)
        assert reply.output_parsed == Weather(city="Pau", degrees=21.5)
        with client.responses.stream(model=MODEL, input="weather?", text_format=Weather) as stream:
            assert stream.get_final_response().output_parsed == Weather(city="Pau", degrees=21.5)


@pytest.mark.parametrize("mode", MODES)
def test_a_tool_loop_goes_round(mode: str) -> None:
    """The client sends the model's items back as it got them."""
    script = [REPLIES["interleaved"], Output(items=[TEXT])]
    with provider(mode, script) as client:
        first = client.responses.create(model=MODEL, input="hi", tools=TOOLS)
        history: list[Any] = [{"role": "user", "content": "hi"}, *first.output]
        history.append({"type": "function_call_output", "call_id": "call_1", "output": "rain"})
        history.append({"type": "custom_tool_call_output", "call_id": "call_2", "output": "done"})
        with client.responses.stream(model=MODEL, input=history, tools=TOOLS) as stream:
            assert stream.get_final_response().output_text == TEXT["content"][0]["text"]


@pytest.mark.parametrize("name", [name for name in REPLIES if name not in ("length", "filtered")])
@pytest.mark.parametrize("ids", [True, False])
def test_what_a_client_sends_back_is_the_reply(name: str, ids: bool) -> None:
    """Every kind of reply is known again, sent back as the client got it or without its ids, in one branch."""
    with (
        ResponsesUpstream([REPLIES[name], Output(items=[TEXT])]) as upstream,
        served(Relay("", base_url=upstream.url)) as rollout,
        sdk(rollout) as client,
    ):
        first = client.responses.create(model=MODEL, input="hi")
        items = [item.model_dump(exclude_none=True) for item in first.output]
        for item in items if not ids else []:
            item.pop("id", None)
            item.pop("status", None)
        history: list[Any] = [
            {"role": "user", "content": "hi"},
            *items,
            {"role": "user", "content": "go on"},
        ]
        client.responses.create(model=MODEL, input=history)
        assert upstream.calls[-1].body["input"] == history
        dag = rollout.trace.dag
        assert [node.message.role for node in dag.nodes] == ["user", "assistant", "user", "assistant"]
        assert len(dag.leaves) == 1
        (back,) = RESPONSES.join([m for item in items for m in RESPONSES.decode(json.dumps(item).encode())])
        written = [json.loads(item) for item in RESPONSES.encode([dag.nodes[1].message])]
        assert RESPONSES.parse_request({"input": written})[0] == [dag.nodes[1].message]
        if ids:
            assert back == dag.nodes[1].message


# going on from a reply


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("mode", MODES)
def test_a_reply_can_be_gone_on_from(mode: str, stream: bool) -> None:
    script = [Output(items=[TEXT, CALL]), Output(items=[said("It rains.")], identity="resp_02")]
    with provider(mode, script) as client:
        first = client.responses.create(model=MODEL, input="hi", instructions="Be brief.", tools=TOOLS)
        result: Any = [{"type": "function_call_output", "call_id": "call_1", "output": "rain"}]
        more: dict[str, Any] = {"model": MODEL, "input": result, "previous_response_id": first.id}
        if stream:
            with client.responses.stream(**more) as events:
                second = events.get_final_response()
        else:
            second = client.responses.create(**more)
        assert second.output_text == "It rains."
        assert second.previous_response_id == first.id
        with pytest.raises(openai.BadRequestError) as caught:
            client.responses.create(model=MODEL, input="x", previous_response_id="resp_nope")
        error: Any = caught.value
        assert (error.code, error.param, error.type) == (
            "previous_response_not_found",
            "previous_response_id",
            "invalid_request_error",
        )
        assert "'resp_nope' not found" in error.message


def test_the_branch_of_a_reply_goes_on() -> None:
    asked: list[list[str]] = []

    def model(messages: Any) -> str:
        asked.append([message.text for message in messages])
        return f"answer {len(asked)}"

    with served(Scripted(model)) as rollout, sdk(rollout) as client:
        first = client.responses.create(model=MODEL, input="one", instructions="Be brief.")
        second = client.responses.create(
            model=MODEL, input="two", instructions="Be brief.", previous_response_id=first.id
        )
        other = client.responses.create(model=MODEL, input="two", previous_response_id=first.id)
        third = client.responses.create(
            model=MODEL, input="three", instructions="Be long.", previous_response_id=second.id
        )
        client.responses.create(
            model=MODEL, input="four", instructions="Be long.", previous_response_id=third.id
        )
        whole: list[Any] = [{"role": "system", "content": "Be brief."}, {"role": "user", "content": "one"}]
        whole += [*first.output, {"role": "user", "content": "two"}, *other.output]
        client.responses.create(model=MODEL, input=[*whole, {"role": "user", "content": "again"}])
        dag = rollout.trace.dag
    assert asked == [
        ["Be brief.", "one"],
        ["Be brief.", "one", "answer 1", "two"],
        ["Be brief.", "one", "answer 1", "two"],
        ["Be brief.", "one", "answer 1", "two", "answer 2", "Be long.", "three"],
        ["Be brief.", "one", "answer 1", "two", "answer 2", "Be long.", "three", "answer 4", "four"],
        ["Be brief.", "one", "answer 1", "two", "answer 3", "again"],
    ]
    assert len(dag.roots) == 1 and len(dag.leaves) == 2
    assert sum(node.sampled for node in dag.nodes) == 6


def test_the_upstream_keeps_what_it_has() -> None:
    """A relayed request that goes on from a reply reaches the upstream as it is."""
    script = [Output(items=[TEXT]), Output(items=[TEXT], identity="resp_02")]
    with ResponsesUpstream(script) as upstream, served(Relay("", base_url=upstream.url)) as rollout:
        with sdk(rollout) as client:
            first = client.responses.create(model=MODEL, input="one")
            client.responses.create(model=MODEL, input="two", previous_response_id=first.id)
        assert upstream.calls[1].body == {"model": MODEL, "input": "two", "previous_response_id": "resp_01"}
        assert [node.parent for node in rollout.trace.dag.nodes] == [-1, 0, 1, 2]


# what goes up


def test_requests_reach_the_provider_as_they_are() -> None:
    parts: list[Any] = [
        {"type": "input_text", "text": "look"},
        {"type": "input_image", "image_url": "data:image/png;base64,iVBORw0KGgo=", "detail": "low"},
        {"type": "input_image", "file_id": "file_1", "detail": "auto"},
        {"type": "input_file", "filename": "a.pdf", "file_data": "data:application/pdf;base64,JVBERi0="},
        {"type": "input_file", "file_url": "https://a.example/x.pdf"},
    ]
    history: list[Any] = [
        {"role": "developer", "content": "Be brief."},
        {"role": "user", "content": parts},
        thought("hm", encrypted_content="ENC"),
        CALL,
        {"type": "function_call_output", "call_id": "call_1", "output": parts[:2]},
    ]
    received = []
    with ResponsesUpstream() as upstream:
        with openai.OpenAI(base_url=upstream.url + "/v1", api_key="key") as client:
            client.responses.create(**ASK | {"input": history})
        received.append(upstream.calls[-1])
        with served(Relay("", base_url=upstream.url)) as rollout, sdk(rollout) as client:
            client.responses.create(**ASK | {"input": history})
            dag = rollout.trace.dag
        received.append(upstream.calls[-1])
    assert received[0].raw == received[1].raw
    assert rollout.session.key not in json.dumps(received[1].headers)
    roles = ["system", "system", "user", "assistant", "tool", "assistant"]
    assert [node.message.role for node in dag.nodes] == roles
    kinds = [part.type for part in dag.nodes[2].message.content]  # type: ignore[union-attr]
    assert kinds == ["text", "image_url", "opaque", "file", "file"]
    (call,) = dag.calls
    assert call.usage is not None and (call.usage.prompt_tokens, call.usage.cached_tokens) == (12, 5)
    assert call.sampling_asked["reasoning_effort"] == "low"
    assert [tool.type for tool in dag.tool_list(call.tools)] == ["function", "custom", "web_search"]


# errors

ERRORS = {
    400: openai.BadRequestError,
    401: openai.AuthenticationError,
    403: openai.PermissionDeniedError,
    404: openai.NotFoundError,
    409: openai.ConflictError,
    422: openai.UnprocessableEntityError,
    429: openai.RateLimitError,
    500: openai.InternalServerError,
    503: openai.InternalServerError,
}


def refused(client: Any, **more: Any) -> Any:
    """Class, status, body and text of the error."""
    with pytest.raises(openai.APIStatusError) as caught:
        list(client.responses.create(model=MODEL, input="hi", **more))
    error = caught.value
    return type(error), error.status_code, error.body, str(error)


@pytest.mark.parametrize("stream", [False, True])
def test_errors_have_their_class_and_words(stream: bool) -> None:
    seen: dict[str, Any] = {}
    for mode in MODES[:2]:
        with provider(mode, [failing(status, "it is so", "code") for status in ERRORS]) as client:
            seen[mode] = [refused(client, stream=stream) for _ in ERRORS]
    for kind, ours, theirs in zip(ERRORS.values(), seen["relay"], seen["provider"], strict=True):
        assert ours[0] is kind
        assert ours == theirs


@pytest.mark.parametrize(
    ("error", "kind", "status", "name"),
    [
        (UpstreamRejected("no", status=400), openai.BadRequestError, 400, "invalid_request_error"),
        (UpstreamRateLimited("no", retry_after=3), openai.RateLimitError, 429, "rate_limit_error"),
        (UpstreamServerError("no", status=500), openai.InternalServerError, 500, "api_error"),
    ],
)
def test_errors_of_other_models_have_the_form(error: Exception, kind: Any, status: int, name: str) -> None:
    with served(Scripted([error])) as rollout, sdk(rollout) as client:
        got = refused(client)
    assert got[:3] == (kind, status, {"message": "no", "type": name, "param": None, "code": None})


FAILED = {"code": "server_error", "message": "it broke"}
RESPONSE_FAILED = response(Output(status_of="failed"), {}) | {"error": FAILED}
BEGUN = [event("response.created", sequence_number=0, response=response(Output(status_of="in_progress"), {}))]


@pytest.mark.parametrize(
    "last",
    [
        event(
            "response.failed",
            sequence_number=1,
            response=response(Output(status_of="failed"), {}) | {"error": FAILED},
        ),
        event("error", sequence_number=1, **FAILED, param=None),
    ],
)
def test_a_stream_that_fails_passes_its_last_event_on(last: bytes) -> None:
    seen = {}
    for mode in MODES[:2]:
        with provider(mode, [Output(events=[*BEGUN, last])]) as client:
            events = list(client.responses.create(model=MODEL, input="hi", stream=True))
            seen[mode] = [one.model_dump() for one in events]
    assert seen["relay"] == seen["provider"]


@pytest.mark.parametrize("stream", [False, True])
def test_a_full_context_has_the_providers_words(stream: bool) -> None:
    words = "Your input exceeds the context window of this model. Please adjust your input and try again."
    seen = {}
    for mode in MODES[:2]:
        with provider(mode, [failing(400, words, "context_length_exceeded", "input")]) as client:
            got = refused(client, stream=stream)
            seen[mode] = got[0], got[1], got[2]["code"], got[2]["message"]
    assert seen["relay"] == seen["provider"]
    with served(Scripted([ContextLengthError("too many words")])) as rollout, sdk(rollout) as client:
        got = refused(client, stream=stream)
        assert rollout.session.last_overflow is not None and rollout.session.stop_condition is None
    assert got[2]["code"] == "context_length_exceeded"


def test_a_full_context_inside_a_stream_is_an_overflow() -> None:
    error = {"code": "context_length_exceeded", "message": "Your input exceeds the context window."}
    failed = response(Output(status_of="failed"), {}) | {"error": error}
    events = [*BEGUN, event("response.failed", sequence_number=1, response=failed)]
    with (
        ResponsesUpstream([Output(events=events)]) as upstream,
        served(Relay("", base_url=upstream.url)) as rollout,
    ):
        with sdk(rollout) as client:
            got = list(client.responses.create(model=MODEL, input="hi", stream=True))
        assert got[-1].type == "response.failed" and got[-1].response.error.code == error["code"]  # type: ignore[union-attr]
        assert rollout.session.last_overflow is not None


def test_a_stream_that_is_cut_is_cut_for_the_client() -> None:
    with (
        ResponsesUpstream([Output(items=[thought("hm"), TEXT], cut_after=14, pace=0.01)]) as upstream,
        served(Relay("", base_url=upstream.url, max_retries=0)) as rollout,
        sdk(rollout) as client,
    ):
        with pytest.raises((openai.APIError, Exception)) as caught:
            list(client.responses.create(model=MODEL, input="hi", stream=True))
        assert not isinstance(caught.value, AssertionError)
        (call,) = rollout.trace.dag.calls
        assert (
            call.error is not None
            and call.partial_text
            and TEXT["content"][0]["text"].startswith(call.partial_text)
        )
        assert len(rollout.trace.dag.nodes) == 1


def test_a_slow_stream_is_kept_open() -> None:
    settings = Settings(keepalive_after=0.1, keepalive_every=0.1)
    script = ["hello", UpstreamServerError("down", status=503), UpstreamRejected("bad", status=400)]
    with served(Scripted(script, latency=0.5), settings=settings) as rollout, sdk(rollout) as client:
        with client.responses.stream(model=MODEL, input="hi") as stream:
            assert stream.get_final_response().output_text == "hello"
        (error,) = client.responses.create(model=MODEL, input="two", stream=True)
        assert (error.type, error.message) == ("error", "down")
        (failed,) = client.responses.create(model=MODEL, input="three", stream=True)
        assert (failed.type, failed.response.error.message) == ("response.failed", "bad")


def test_a_stop_is_one_request_that_is_not_repeated() -> None:
    with (
        served(Scripted(["one"]), limits=Limits(max_turns=1)) as rollout,
        sdk(rollout, max_retries=2) as client,
    ):
        client.responses.create(model=MODEL, input="hi")
        before = rollout.session.requests
        with pytest.raises(openai.BadRequestError, match="max_turns") as caught:
            client.responses.create(model=MODEL, input="hi")
        assert caught.value.type == "invalid_request_error"
        assert rollout.session.requests == before + 1


@pytest.mark.parametrize(
    "more",
    [{"background": True}, {"conversation": "conv_1"}, {"prompt": {"id": "pmpt_1"}}, {"input": []}],
)
def test_what_cannot_be_recorded_is_refused(more: dict[str, Any]) -> None:
    with served(Scripted(["one"])) as rollout, sdk(rollout, max_retries=2) as client:
        with pytest.raises(openai.BadRequestError) as caught:
            client.responses.create(**{"model": MODEL, "input": "hi"} | more)
        assert next(iter(more)) in str(caught.value)
        assert rollout.session.requests == 1


def test_other_routes_say_that_there_is_nothing() -> None:
    with served(Scripted(["one"])) as rollout, sdk(rollout, max_retries=2) as client:
        reply = client.responses.create(model=MODEL, input="hi")
        for ask in (
            lambda: client.responses.retrieve(reply.id),
            lambda: client.responses.delete(reply.id),
            lambda: client.responses.input_items.list(reply.id),
            lambda: client.responses.compact(model=MODEL, input="hi"),
        ):
            with pytest.raises(openai.NotFoundError) as caught:
                ask()
            assert caught.value.type == "not_found_error"
            assert "previous_response_id" in str(caught.value) or "compact" in str(caught.value)
        assert rollout.session.requests == 1
        assert [one.id for one in client.models.list()] == ["scripted"]
        with sdk(rollout, api_key="wrong") as stranger, pytest.raises(openai.AuthenticationError):
            stranger.responses.create(model=MODEL, input="hi")
