"""The official anthropic client cannot tell our server from the provider.

Each scenario runs three times: against a scripted provider, through our relay to it, and against our server alone
with a scripted model that says the same. What the client sees must be equal.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import anthropic
import pydantic
import pytest
from support.messages_upstream import Blocks, MessagesUpstream, event, failing, message
from support.rollouts import served
from support.upstream import Say

from vfnb.clients import Relay, Scripted
from vfnb.dialects import get
from vfnb.errors import ContextLengthError, UpstreamRateLimited, UpstreamRejected, UpstreamServerError
from vfnb.interception import Limits

MESSAGES = get("messages")
MODEL = "claude-x"
ASK: list[Any] = [{"role": "user", "content": "hi"}]
TOOLS: list[Any] = [
    {
        "name": "weather",
        "description": "The weather of a city.",
        "input_schema": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    }
]
CALL = {"type": "tool_use", "id": "toolu_1", "name": "weather", "input": {"city": "Besançon", "n": [1, 2.5]}}
THOUGHT = {"type": "thinking", "thinking": "Let me think about it. ", "signature": "c2lnbmVk"}
HIDDEN = {"type": "redacted_thinking", "data": "ZW5j"}
TEXT = {"type": "text", "text": "  hello there, wörld \U0001f600\n"}
SEARCH = {"type": "server_tool_use", "id": "srvtoolu_1", "name": "web_search", "input": {"query": "vfnb"}}
FOUND = {
    "type": "web_search_tool_result",
    "tool_use_id": "srvtoolu_1",
    "content": [
        {
            "type": "web_search_result",
            "url": "https://a.example",
            "title": "A",
            "encrypted_content": "x" * 40,
            "page_age": None,
        }
    ],
}
CITED = {
    "type": "text",
    "text": "It is so.",
    "citations": [
        {
            "type": "web_search_result_location",
            "cited_text": "so",
            "encrypted_index": "eA==",
            "title": "A",
            "url": "https://a.example",
        }
    ],
}

REPLIES: dict[str, Blocks] = {
    "text": Blocks(blocks=[TEXT]),
    "tool": Blocks(blocks=[TEXT, CALL]),
    "two tools": Blocks(blocks=[CALL, CALL | {"id": "toolu_2", "input": {}}]),
    "thinking": Blocks(blocks=[THOUGHT, TEXT, CALL]),
    "interleaved": Blocks(
        blocks=[THOUGHT, CALL, THOUGHT | {"thinking": "Again.", "signature": "czI="}, TEXT]
    ),
    "hidden thinking": Blocks(blocks=[HIDDEN, THOUGHT | {"thinking": ""}, HIDDEN, TEXT]),
    "unsigned thinking": Blocks(blocks=[THOUGHT | {"signature": ""}, TEXT]),
    "web search": Blocks(blocks=[TEXT, SEARCH, FOUND, CITED]),
    "texts around a call": Blocks(blocks=[TEXT, CALL, TEXT | {"text": "after"}]),
    "stop sequence": Blocks(blocks=[TEXT], reason="stop_sequence", sequence="END"),
    "length": Blocks(blocks=[TEXT], reason="max_tokens"),
    "pause": Blocks(blocks=[TEXT, SEARCH], reason="pause_turn"),
    "refusal": Blocks(blocks=[TEXT], reason="refusal"),
    "full window": Blocks(blocks=[TEXT], reason="model_context_window_exceeded"),
}


@contextmanager
def provider(mode: str, script: list[Say | str]) -> Iterator[Any]:
    """A client of the provider, of our relay to it, or of our server with a model that says the same."""
    if mode == "scripted":
        answers = [MESSAGES.parse_response(message(say, MODEL)) for say in script if isinstance(say, Say)]
        with served(Scripted(answers)) as rollout, sdk(rollout.base_url, rollout.session.key) as client:
            yield client
        return
    with MessagesUpstream(script) as upstream:
        if mode == "provider":
            with sdk(upstream.url, "key") as client:
                yield client
            return
        with (
            served(Relay("", base_url=upstream.url, max_retries=0)) as rollout,
            sdk(rollout.base_url, rollout.session.key) as client,
        ):
            yield client


def sdk(url: str, key: str | None, **settings: Any) -> Any:
    return anthropic.Anthropic(base_url=url, api_key=key, max_retries=0, timeout=20, **settings)


def plain(client: Any) -> Any:
    return client.messages.create(model=MODEL, max_tokens=99, messages=ASK, tools=TOOLS).model_dump()


def streamed(client: Any) -> Any:
    """The final message, the texts, the kinds of the events without those that only cut text into pieces."""
    with client.messages.stream(model=MODEL, max_tokens=99, messages=ASK, tools=TOOLS) as stream:
        kinds: list[str] = []
        for one in stream:
            if one.type != "content_block_delta" and kinds[-1:] != [one.type]:
                kinds.append(one.type)
        return stream.get_final_message().model_dump(), kinds


def raw_stream(client: Any) -> Any:
    events = client.messages.create(model=MODEL, max_tokens=99, messages=ASK, tools=TOOLS, stream=True)
    kinds: list[str] = []
    ends = []
    for one in events:
        if one.type.startswith(("message", "content_block_st")):
            ends.append(one.model_dump(exclude={"usage", "message"}))
        if not kinds or kinds[-1] != one.type:
            kinds.append(one.type)
    return ends, kinds


def beta(client: Any) -> Any:
    reply = client.beta.messages.create(
        model=MODEL, max_tokens=99, messages=ASK, tools=TOOLS, betas=["context-management-2025-06-27"]
    )
    return reply.model_dump()


@pytest.mark.parametrize("ask", [plain, streamed, raw_stream, beta])
def test_replies_are_the_same(ask: Callable[[Any], Any]) -> None:
    seen = {}
    for mode in ("provider", "relay", "scripted"):
        with provider(mode, list(REPLIES.values())) as client:
            seen[mode] = {name: ask(client) for name in REPLIES}
    for name in REPLIES:
        assert seen["relay"][name] == seen["provider"][name]
        assert seen["scripted"][name] == seen["provider"][name]


ERRORS = {
    400: anthropic.BadRequestError,
    401: anthropic.AuthenticationError,
    403: anthropic.PermissionDeniedError,
    404: anthropic.NotFoundError,
    409: anthropic.ConflictError,
    413: anthropic.APIStatusError,
    422: anthropic.UnprocessableEntityError,
    429: anthropic.RateLimitError,
    500: anthropic.InternalServerError,
    529: anthropic.InternalServerError,
}


def refused(client: Any, **more: Any) -> Any:
    """Class, status, body and text of the error."""
    with pytest.raises(anthropic.APIStatusError) as caught:
        reply = client.messages.create(model=MODEL, max_tokens=99, messages=ASK, **more)
        list(reply)
    error = caught.value
    return type(error), error.status_code, error.body, str(error)


@pytest.mark.parametrize("stream", [False, True])
def test_errors_have_their_class_and_words(stream: bool) -> None:
    seen: dict[str, Any] = {}
    for mode in ("provider", "relay"):
        with provider(mode, [failing(status, "it is so") for status in ERRORS]) as client:
            seen[mode] = [refused(client, stream=stream) for _ in ERRORS]
    for kind, ours, theirs in zip(ERRORS.values(), seen["relay"], seen["provider"], strict=True):
        assert issubclass(ours[0], kind)
        assert ours == theirs


@pytest.mark.parametrize(
    ("error", "kind", "status", "name"),
    [
        (UpstreamRejected("no", status=400), anthropic.BadRequestError, 400, "invalid_request_error"),
        (UpstreamRejected("no", status=404), anthropic.NotFoundError, 404, "not_found_error"),
        (UpstreamRateLimited("no", retry_after=3), anthropic.RateLimitError, 429, "rate_limit_error"),
        (UpstreamServerError("no", status=529), anthropic.OverloadedError, 529, "overloaded_error"),
        (UpstreamServerError("no", status=500), anthropic.InternalServerError, 500, "api_error"),
    ],
)
def test_errors_of_other_models_have_the_form(error: Exception, kind: Any, status: int, name: str) -> None:
    with (
        served(Scripted([error])) as rollout,
        sdk(rollout.base_url, rollout.session.key) as client,
    ):
        got = refused(client)
    assert got[:3] == (kind, status, {"type": "error", "error": {"type": name, "message": "no"}})


def test_an_error_inside_a_stream_is_raised_with_what_came_before() -> None:
    begun = [event("message_start", message=message(Blocks(), MODEL) | {"content": []}), event("ping")]
    begun.append(event("content_block_start", index=0, content_block=TEXT | {"text": ""}))
    begun.append(event("content_block_delta", index=0, delta={"type": "text_delta", "text": "part"}))
    begun.append(event("error", error={"type": "overloaded_error", "message": "Overloaded"}))
    seen = {}
    for mode in ("provider", "relay"):
        with provider(mode, [Blocks(events=list(begun))]) as client:
            text = ""
            with pytest.raises(anthropic.APIStatusError) as caught:
                for one in client.messages.create(model=MODEL, max_tokens=9, messages=ASK, stream=True):
                    if one.type == "content_block_delta":
                        text += one.delta.text
            seen[mode] = type(caught.value), caught.value.body, text
    assert seen["relay"] == seen["provider"]
    assert seen["relay"][1:] == (
        {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}},
        "part",
    )


@pytest.mark.parametrize("stream", [False, True])
def test_a_full_context_has_the_providers_words(stream: bool) -> None:
    words = "prompt is too long: 215000 tokens > 200000 maximum"
    seen = {}
    for mode in ("provider", "relay"):
        with provider(mode, [failing(400, words)]) as client:
            got = refused(client, stream=stream)
            seen[mode] = got[0], got[1], got[2]["error"]
    assert seen["relay"] == seen["provider"]
    other = "This model's maximum context length is 8192 tokens. However, you requested 9000 tokens"
    with (
        served(Scripted([ContextLengthError(other), ContextLengthError("too many words")])) as rollout,
        sdk(rollout.base_url, rollout.session.key) as client,
    ):
        first, second = refused(client, stream=stream), refused(client, stream=stream)
        assert rollout.session.last_overflow is not None and rollout.session.stop_condition is None
    assert first[:2] == (anthropic.BadRequestError, 400)
    assert first[2]["error"]["message"] == "prompt is too long: 9000 tokens > 8192 maximum"
    assert second[2]["error"] == {
        "type": "invalid_request_error",
        "message": "prompt is too long: too many words",
    }


def test_a_request_that_is_too_large_is_413() -> None:
    seen = {}
    for mode in ("provider", "relay"):
        with provider(mode, [failing(413, "Request exceeds the maximum size")]) as client:
            seen[mode] = refused(client)
    assert seen["relay"] == seen["provider"]


@pytest.mark.parametrize("mode", ["provider", "relay", "scripted"])
def test_tokens_are_counted_and_not_recorded(mode: str) -> None:
    with provider(mode, [Blocks()]) as client:
        counted = client.messages.count_tokens(
            model=MODEL, system="Be brief.", messages=ASK, tools=TOOLS, thinking={"type": "adaptive"}
        )
        beta = client.beta.messages.count_tokens(model=MODEL, messages=ASK)
        if mode == "scripted":
            assert beta.input_tokens < counted.input_tokens < 200
        else:
            assert counted.input_tokens == beta.input_tokens == 42


def test_models_are_listed() -> None:
    with (
        served(Scripted(["x"], name="mock")) as rollout,
        MessagesUpstream() as upstream,
        sdk(rollout.base_url, rollout.session.key) as ours,
        sdk(upstream.url, "key") as theirs,
    ):
        assert [one.model_dump() for one in ours.models.list()] == [
            one.model_dump() for one in theirs.models.list()
        ]
        assert ours.models.retrieve("mock").model_dump() == theirs.models.retrieve("mock").model_dump()


@pytest.mark.parametrize("mode", ["provider", "relay", "scripted"])
def test_a_tool_loop_with_thinking_goes_round(mode: str) -> None:
    """The client sends the model's blocks back as it got them; the next answer sees the result."""
    script: list[Say | str] = [REPLIES["thinking"], Blocks(blocks=[TEXT])]
    with provider(mode, script) as client:
        messages: list[Any] = list(ASK)
        first = client.messages.create(model=MODEL, max_tokens=99, messages=messages, tools=TOOLS)
        call = next(block for block in first.content if block.type == "tool_use")
        result = {"type": "tool_result", "tool_use_id": call.id, "content": "rain", "is_error": True}
        messages += [
            {"role": "assistant", "content": first.content},
            {"role": "user", "content": [result, {"type": "text", "text": "and now?"}]},
        ]
        with client.messages.stream(model=MODEL, max_tokens=99, messages=messages, tools=TOOLS) as stream:
            assert "".join(stream.text_stream) == TEXT["text"]


class Person(pydantic.BaseModel):
    name: str
    age: int


@pytest.mark.parametrize("mode", ["provider", "relay", "scripted"])
def test_helpers_of_the_client_work(mode: str) -> None:
    """Typed answers, and a loop over tools that the client runs by itself."""
    seen = []

    @anthropic.beta_tool
    def add(a: int, b: int) -> str:
        """Add.

        Args:
            a: the first number
            b: the second number
        """
        seen.append((a, b))
        return str(a + b)

    call = CALL | {"name": "add", "input": {"a": 1, "b": 2}}
    script: list[Say | str] = [
        Blocks(blocks=[{"type": "text", "text": '{"name": "Ada", "age": 36}'}]),
        Blocks(blocks=[call]),
        Blocks(blocks=[{"type": "text", "text": "3"}]),
    ]
    with provider(mode, script) as client:
        typed = client.messages.parse(model=MODEL, max_tokens=9, messages=ASK, output_format=Person)
        runner = client.beta.messages.tool_runner(model=MODEL, max_tokens=9, messages=ASK, tools=[add])
        texts = [block.text for reply in runner for block in reply.content if block.type == "text"]
    assert typed.parsed_output == Person(name="Ada", age=36)
    assert (texts, seen) == (["3"], [(1, 2)])


def test_the_trace_of_a_tool_loop_is_one_branch() -> None:
    script: list[Say | str] = [REPLIES["thinking"], Blocks(blocks=[TEXT])]
    for stream in (False, True):
        with (
            MessagesUpstream(list(script)) as upstream,
            served(Relay("", base_url=upstream.url)) as rollout,
            sdk(rollout.base_url, rollout.session.key) as client,
        ):
            first = client.messages.create(model=MODEL, max_tokens=99, messages=ASK, tools=TOOLS)
            result = {
                "type": "tool_result",
                "tool_use_id": "toolu_1",
                "content": [{"type": "text", "text": "r"}],
            }
            messages = [
                *ASK,
                {"role": "assistant", "content": first.content},
                {"role": "user", "content": [result]},
            ]
            asked = client.messages.create(model=MODEL, max_tokens=99, messages=messages, stream=stream)
            list(asked)
            dag = rollout.trace.dag
            assert [node.message.role for node in dag.nodes] == ["user", "assistant", "tool", "assistant"]
            assert len(dag.leaves) == 1
            said = dag.nodes[1].message
            assert said.reasoning_content == THOUGHT["thinking"]  # type: ignore[union-attr]
            assert said.tool_calls[0].arguments == json.dumps(CALL["input"])  # type: ignore[union-attr]
            assert [call.usage.prompt_tokens for call in dag.calls if call.usage] == [12, 12]
            assert [call.usage.cached_tokens for call in dag.calls if call.usage] == [5, 5]


IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "iVBORw0KGgo="}}
BLOCKS: list[Any] = [
    {"type": "text", "text": "look", "cache_control": {"type": "ephemeral"}},
    IMAGE,
    {"type": "image", "source": {"type": "url", "url": "https://a.example/x.png"}},
    {"type": "image", "source": {"type": "file", "file_id": "file_1"}},
    {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0="},
        "title": "t",
        "citations": {"enabled": True},
    },
    {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "plain"}},
    {"type": "document", "source": {"type": "url", "url": "https://a.example/x.pdf"}},
    {"type": "search_result", "source": "s", "title": "t", "content": [{"type": "text", "text": "found"}]},
]


def test_requests_reach_the_provider_as_they_are() -> None:
    system: Any = [{"type": "text", "text": "Be brief.", "cache_control": {"type": "ephemeral"}}]
    result = {
        "type": "tool_result",
        "tool_use_id": "toolu_1",
        "content": [IMAGE, {"type": "text", "text": "r"}],
    }
    messages: list[Any] = [
        {"role": "user", "content": BLOCKS},
        {"role": "assistant", "content": [THOUGHT, CALL]},
        {"role": "user", "content": [result]},
        {"role": "system", "content": "mid"},
    ]
    settings: Any = {
        "tools": [*TOOLS, {"type": "web_search_20250305", "name": "web_search", "max_uses": 2}],
        "tool_choice": {"type": "any", "disable_parallel_tool_use": True},
        "thinking": {"type": "enabled", "budget_tokens": 1024},
        "stop_sequences": ["END"],
        "metadata": {"user_id": "u"},
        "extra_body": {"top_k": 5},
    }
    received = []
    with MessagesUpstream() as upstream:
        with sdk(upstream.url, "key") as client:
            client.messages.create(model=MODEL, max_tokens=9, system=system, messages=messages, **settings)
        received.append(upstream.calls[-1])
        with (
            served(Relay("", base_url=upstream.url)) as rollout,
            sdk(rollout.base_url, None, auth_token=rollout.session.key) as client,
        ):
            client.messages.create(
                model=MODEL,
                max_tokens=9,
                system=system,
                messages=messages,
                extra_headers={"anthropic-beta": "x-1", "anthropic-version": "2026-10-21"},
                **settings,
            )
            roles = [node.message.role for node in rollout.trace.dag.nodes]
        received.append(upstream.calls[-1])
    assert received[0].raw == received[1].raw
    assert roles == ["system", "user", "assistant", "tool", "system", "assistant"]
    assert received[1].headers["anthropic-version"] == "2026-10-21"
    assert received[1].headers["anthropic-beta"] == "x-1"
    sent = {name.lower(): value for name, value in received[1].headers.items()}
    assert rollout.session.key not in json.dumps(sent)


def test_a_stop_is_one_request_that_is_not_repeated() -> None:
    with (
        served(Scripted(["one"]), limits=Limits(max_turns=1)) as rollout,
        anthropic.Anthropic(base_url=rollout.base_url, api_key=rollout.session.key) as client,
    ):
        client.messages.create(model=MODEL, max_tokens=9, messages=ASK)
        before = rollout.session.requests
        with pytest.raises(anthropic.PermissionDeniedError, match="max_turns") as caught:
            client.messages.create(model=MODEL, max_tokens=9, messages=ASK)
        assert caught.value.body["error"]["type"] == "permission_error"  # type: ignore[index]
        assert rollout.session.requests == before + 1


def test_a_key_that_is_not_known_is_401() -> None:
    with served(Scripted(["one"])) as rollout, sdk(rollout.base_url, "wrong") as client:
        got = refused(client)
    assert got[0] is anthropic.AuthenticationError and got[2]["error"]["type"] == "authentication_error"
