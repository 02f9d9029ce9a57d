"""The scripted model."""

from __future__ import annotations

import asyncio
import json
import threading
import time
from typing import Any

import pytest

from vfnb import loops
from vfnb.clients import ModelClient, ModelRequest, Price, Relay, Reply, Scripted, resolve_model
from vfnb.dialects import Splitter, get
from vfnb.errors import (
    ConfigError,
    ModelError,
    UpstreamCut,
    UpstreamRejected,
    UpstreamServerError,
    UpstreamTimeout,
)
from vfnb.types import AssistantMessage, Messages, Response, Tool, ToolCall, Usage, UserMessage

CHAT = get("chat")


def request(text: str = "hi", stream: bool = False, **keys: Any) -> ModelRequest:
    body: dict[str, Any] = {
        "model": "asked",
        "messages": [{"role": "user", "content": text}],
        "temperature": 1,
    }
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    raw = json.dumps(body).encode()
    split = Splitter(CHAT).split(raw)
    return ModelRequest(CHAT, raw, split, lambda: CHAT.read(split), model="asked", stream=stream, **keys)


def ask(client: ModelClient, *requests: ModelRequest) -> list[Reply]:
    async def main() -> list[Reply]:
        return [await client.call(entry) for entry in requests]

    return loops.engine().run(main())


def text(reply: Reply) -> str:
    assert reply.body is not None
    return CHAT.read_response(reply.body).text


def test_list_gives_one_reply_per_call() -> None:
    call = AssistantMessage(tool_calls=[ToolCall(id="1", name="f", arguments="{}")])
    full = Response(
        message=AssistantMessage(content="c"), usage=Usage(prompt_tokens=9), finish_reason="length"
    )
    client = Scripted(["a", call, full])
    replies = ask(client, request(), request(), request())
    assert text(replies[0]) == "a"
    assert replies[1].response is not None
    assert replies[1].response.finish_reason == "tool_calls"
    assert replies[2].response is not None
    assert replies[2].response.usage == Usage(prompt_tokens=9)
    assert replies[2].response.finish_reason == "length"
    with pytest.raises(UpstreamRejected, match=r"has 3 replies and this is call 4: .*cycle=True"):
        ask(client, request())
    assert client.calls == 4


def test_cycle_starts_anew() -> None:
    assert [text(reply) for reply in ask(Scripted(["a", "b"], cycle=True), *[request()] * 3)] == [
        "a",
        "b",
        "a",
    ]


def test_functions_get_what_they_ask_for() -> None:
    seen: dict[str, Any] = {}

    def plain(messages: Messages, tools: list[Tool] | None = None) -> str:
        seen["thread"], seen["tools"] = threading.current_thread().name, tools
        return messages[-1].text.upper()

    async def full(messages: Messages, *, model: str, sampling: dict[str, Any]) -> AssistantMessage:
        seen["model"], seen["sampling"] = model, sampling
        assert loops.user().inside
        return AssistantMessage(content="async")

    (reply,) = ask(Scripted(plain), request("hi", tools=[Tool(name="t")]))
    assert text(reply) == "HI"
    assert seen["thread"] == "vfnb-worker"
    assert seen["tools"] == [Tool(name="t")]
    (reply,) = ask(Scripted(full), request(sampling={"temperature": 0.5}))
    assert text(reply) == "async"
    assert (seen["model"], seen["sampling"]) == ("asked", {"temperature": 0.5})
    assert reply.sampling_sent == {"temperature": 0.5}
    (reply,) = ask(Scripted(lambda messages, **rest: ",".join(rest)), request())
    assert text(reply) == "tools,model,sampling"


@pytest.mark.parametrize(
    "script",
    [
        lambda: "x",
        lambda messages, other: "x",
        lambda *, messages: "x",
        lambda tools: "x",
        [],
        "text",
        [3],
        7,
    ],
)
def test_scripts_that_cannot_work_fail_at_once(script: Any) -> None:
    with pytest.raises(ConfigError):
        Scripted(script)


def test_failures_of_a_script_are_typed() -> None:
    def broken(messages: Messages) -> str:
        raise KeyError("gone")

    with pytest.raises(UpstreamRejected, match="KeyError: 'gone'"):
        ask(Scripted(broken), request())
    with pytest.raises(UpstreamRejected, match="gave int"):
        ask(Scripted(lambda messages: 3), request())
    with pytest.raises(UpstreamServerError, match="mine"):
        ask(Scripted([UpstreamServerError("mine", status=500)]), request())


def test_stream_is_framed() -> None:
    client = Scripted(["hello world"], chunk=4)

    async def main() -> bytes:
        reply = await client.call(request(stream=True))
        assert reply.chunks is not None
        return b"".join([chunk async for chunk in reply.chunks])

    raw = loops.engine().run(main())
    reader = CHAT.reader()
    reader.feed(raw)
    assert reader.complete
    assert reader.response().text == "hello world"
    assert reader.response().usage is not None
    assert reader.response().usage.completion_tokens == 2
    assert raw.count(b'"content":') == 4


def test_latency_pace_and_deadline() -> None:
    start = time.perf_counter()
    ask(Scripted(["a"], latency=0.1), request())
    assert time.perf_counter() - start >= 0.1

    async def late() -> None:
        deadline = asyncio.get_running_loop().time() + 0.05
        await Scripted(["a"], latency=5).call(request(deadline=deadline))

    with pytest.raises(UpstreamTimeout):
        loops.engine().run(late())


@pytest.mark.parametrize(
    "kind", ["connection", "malformed", "overflow", "rate_limit", "server_error", "timeout", "cut"]
)
def test_accidents_are_typed(kind: str) -> None:
    with pytest.raises(ModelError, match="injected"):
        ask(Scripted(["a"], faults={"kind": kind}), request())


def test_cut_streams() -> None:
    async def main() -> bytes:
        reply = await Scripted(["hello world"], faults={"kind": "cut"}).call(request(stream=True))
        assert reply.chunks is not None
        seen = b""
        with pytest.raises(UpstreamCut):
            async for chunk in reply.chunks:
                seen += chunk
        return seen

    assert b"[DONE]" not in loops.engine().run(main())


def test_accidents_depend_on_the_seed_only() -> None:
    def run(seed: int) -> list[bool]:
        client = Scripted(
            ["a"], cycle=True, faults={"kind": ["server_error", "timeout"], "rate": 0.5, "seed": seed}
        )
        outcomes = []
        for _ in range(20):
            try:
                ask(client, request())
                outcomes.append(True)
            except ModelError:
                outcomes.append(False)
        return outcomes

    assert run(1) == run(1) != run(2)
    assert 2 < sum(run(1)) < 18
    for faults in ({"kind": "unknown"}, {"rate": 2}, {"typo": 1}):
        with pytest.raises(ConfigError, match="faults"):
            Scripted(["a"], faults=faults)


def test_identity_follows_the_script() -> None:
    def one(messages: Messages) -> str:
        return "1"

    def two(messages: Messages) -> str:
        return "2"

    assert Scripted(one).identity() == Scripted(one).identity() != Scripted(two).identity()
    assert Scripted(["a"]).identity() == Scripted(["a"]).identity() != Scripted(["b"]).identity()
    assert repr(Scripted(one)) == "Scripted(one, name='scripted')"
    json.dumps(Scripted([AssistantMessage(content="x")]).identity())


def test_price() -> None:
    price = Price(1.0, 2.0, 0.5)
    usage = Usage(prompt_tokens=1_000_000, completion_tokens=500_000, cached_tokens=400_000)
    assert price.cost(usage) == pytest.approx(0.6 + 0.2 + 1.0)
    assert Price(1.0, 2.0).cost(usage) == pytest.approx(2.0)
    assert Scripted(["a"], price=(1, 2)).price == Price(1.0, 2.0)


def test_resolve_model(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", "http://localhost:9/v1")
    client = Scripted(["a"])
    assert resolve_model(client) is client
    relay = resolve_model("m")
    assert isinstance(relay, Relay)
    assert relay.base_url == "http://localhost:9/v1"
    for wrong, fix in ((None, "no model"), ("", "no model"), (3, "not int"), (len, "wrap the function")):
        with pytest.raises(ConfigError, match=fix):
            resolve_model(wrong)  # type: ignore[arg-type]


def test_messages_are_a_copy() -> None:
    def greedy(messages: Messages) -> str:
        messages.append(UserMessage(content="x"))
        return str(len(messages))

    entry = request()
    (reply,) = ask(Scripted(greedy), entry)
    assert text(reply) == "2"
    assert len(entry.messages()) == 1
