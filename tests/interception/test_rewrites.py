"""Rewritten requests and answers on the wire: pinned, spliced in, recorded, and no cost for those without hooks."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Sequence
from typing import Any, ClassVar

import httpx
import msgspec
import pytest
from support.rollouts import body, client, post, served
from support.upstream import Say, Upstream

from vfnb.clients import Scripted
from vfnb.dialects import Dialect
from vfnb.dialects.chat import Chat
from vfnb.errors import ConfigError
from vfnb.interception import Edit, Hooks, Settings
from vfnb.trace import Trace
from vfnb.types import (
    AssistantMessage,
    HostedResult,
    Message,
    Messages,
    Request,
    Response,
    Tool,
    ToolMessage,
    UserMessage,
)

CALL = {"id": "a", "type": "function", "function": {"name": "look", "arguments": "{}"}}


class Editor(Hooks):
    """Numbers new tool messages; answers as `reply` says."""

    def __init__(
        self, role: str | None = "tool", reply: Callable[[Response], Response | None] | None = None
    ) -> None:
        self.role = role
        self.reply = reply
        self.edits_request = role is not None
        self.edits_response = reply is not None
        self.new: list[list[str]] = []

    async def edit(self, request: Request, first: int, trace: Trace) -> dict[int, list[Edit]]:
        await asyncio.sleep(0.01)
        self.new.append([message.text for message in request.messages[first:]])
        found: dict[int, list[Edit]] = {}
        for position, message in enumerate(request.messages[first:], first):
            if message.role == self.role:
                after = message.model_copy(update={"content": f"[{len(self.new)}] {message.text.lower()}"})
                found[position] = [Edit("number", message, after)]
        return found

    async def answer(self, response: Response, trace: Trace) -> tuple[Response, Sequence[Edit]]:
        assert self.reply is not None
        after = self.reply(response)
        if after is None:
            return response, ()
        return after, [Edit("reply", response.message, after.message)]


def asked(*results: str) -> list[dict[str, Any]]:
    """A history in which `look` was called once for each result."""
    messages: list[dict[str, Any]] = [{"role": "user", "content": "begin"}]
    for number, result in enumerate(results):
        messages.append({"role": "assistant", "content": None, "tool_calls": [CALL | {"id": f"c{number}"}]})
        messages.append({"role": "tool", "tool_call_id": f"c{number}", "content": result})
    return messages


def looking(data: Any, number: int) -> Say:
    done = sum(message["role"] == "tool" for message in data["messages"])
    return Say(text=None, calls=[CALL | {"id": f"c{done}"}])


def results(upstream: Upstream) -> list[list[str]]:
    return [
        [message["content"] for message in call.body["messages"] if message["role"] == "tool"]
        for call in upstream.calls
    ]


@pytest.mark.parametrize("rewritten_bytes", [False, True])
def test_a_rewritten_message_stays_rewritten_in_every_later_request(rewritten_bytes: bool) -> None:
    hooks = Editor()
    with Upstream(looking) as upstream, served(upstream.url, hooks=hooks) as rollout:
        for count in range(4):
            data = body(asked(*[f"RESULT {number}" for number in range(count)]), temperature=0.5)
            raw = json.dumps(data, indent=count if rewritten_bytes else None)
            answer = httpx.post(rollout.url, content=raw, headers=rollout.headers)
            assert answer.status_code == 200, answer.text
        one, two, three = "[2] result 0", "[3] result 1", "[4] result 2"
        assert results(upstream) == [[], [one], [one, two], [one, two, three]]
        assert hooks.new == [["begin"], ["RESULT 0"], ["RESULT 1"], ["RESULT 2"]]
        dag = rollout.trace.dag
        assert len(dag.leaves) == 1 and len(dag.nodes) == 8
        assert [message.text for message in dag.messages(dag.leaves[0]) if message.role == "tool"] == [
            one,
            two,
            three,
        ]
        assert [(one.call, one.before.text, one.after.text) for one in rollout.trace.rewrites] == [
            (1, "RESULT 0", one),
            (2, "RESULT 1", two),
            (3, "RESULT 2", three),
        ]
        assert upstream.calls[-1].body["temperature"] == 0.5


def test_the_bytes_around_a_rewritten_message_stay_as_they_were() -> None:
    with Upstream(looking) as upstream, served(upstream.url, hooks=Editor()) as rollout:
        odd = b'{"messages":[ {"content":"begin" , "role":"user","x":1.50},'
        call = b'{"role":"assistant","content":null,"tool_calls":[{"type":"function","id":"c0",'
        call += b'"function":{"arguments":"{  }","name":"look"}}]}'
        tool = b'{"role":"tool","tool_call_id":"c0","content":"OLD","cache":true}'
        raw = odd + call + b"," + tool + b'], "model":"mock","seed":12345678901234567890}'
        assert httpx.post(rollout.url, content=raw, headers=rollout.headers).status_code == 200
        sent = upstream.calls[0].raw
        assert b'{"content":"begin" , "role":"user","x":1.50}' in sent and call in sent
        assert b'"seed": 12345678901234567890' in sent
        assert upstream.calls[0].body["messages"][2] == {
            "role": "tool",
            "tool_call_id": "c0",
            "content": "[1] old",
            "cache": True,
        }


def test_a_request_without_new_words_to_rewrite_goes_out_as_it_came() -> None:
    with Upstream() as upstream, served(upstream.url, hooks=Editor()) as rollout:
        raw = b'{ "model" : "mock", "messages":[{"role":"user" ,"content":"hi"}] }'
        httpx.post(rollout.url, content=raw, headers=rollout.headers)
        assert upstream.calls[0].raw == raw


def test_a_retry_after_a_failure_gets_the_same_rewritten_words() -> None:
    def script(data: Any, number: int) -> Say:
        return Say(status=500, raw=b'{"error":{"message":"busy"}}') if number < 3 else looking(data, number)

    hooks = Editor()
    with Upstream(script) as upstream, served(upstream.url, hooks=hooks) as rollout:
        (failed, _), (status, _) = post(rollout, body(asked("OLD")), body(asked("OLD")))
        assert (failed, status) == (500, 200)
        assert results(upstream) == [["[1] old"]] * 4
        assert hooks.new[1:] == [[]]
        assert len(rollout.trace.dag.leaves) == 1


def test_the_same_new_message_in_two_requests_at_once_is_one_history() -> None:
    hooks = Editor()
    with (
        Upstream(lambda data, number: Say(text=f"reply {number}", delay=0.1)) as upstream,
        served(upstream.url, hooks=hooks) as rollout,
    ):

        async def main() -> None:
            async with client(rollout) as http:

                async def ask() -> None:
                    async with http.post(rollout.url, json=body(asked("OLD"))) as answer:
                        assert answer.status == 200

                await asyncio.gather(ask(), ask())
                async with http.post(rollout.url, json=body(asked("OLD"))) as answer:
                    assert answer.status == 200

        asyncio.run(main())
        sent = [found[0] for found in results(upstream)]
        assert sent[2] in sent[:2]  # pinned to one of them


def test_streams_stay_live_when_no_hook_needs_the_whole_turn() -> None:
    class Looks(Editor):
        on_trace = on_request = True

    say = Say(text="words " * 4, pace=0.05)
    with Upstream([say]) as upstream, served(upstream.url, hooks=Looks()) as rollout:

        async def main() -> list[bytes]:
            async with (
                client(rollout) as http,
                http.post(rollout.url, json=body(stream=True)) as answer,
            ):
                pieces = []
                async for piece in answer.content.iter_any():
                    if not pieces:
                        assert upstream.active == 1  # the upstream is not at its end yet
                    pieces.append(piece)
                return pieces

        pieces = asyncio.run(main())
        assert len(pieces) > 2 and b"".join(pieces).endswith(b"data: [DONE]\n\n")


@pytest.mark.parametrize("replaces", [False, True])
def test_streams_are_buffered_with_keepalives_for_hooks_of_the_whole_turn(replaces: bool) -> None:
    def reply(response: Response) -> Response | None:
        if not replaces:
            return None
        return response.model_copy(update={"message": AssistantMessage(content="other words")})

    settings = Settings(keepalive_after=0.05, keepalive_every=0.05)
    hooks = Editor(None, reply)
    say = Say(text="words " * 4, pace=0.05)
    with Upstream([say]) as upstream, served(upstream.url, hooks=hooks, settings=settings) as rollout:
        ((status, raw),) = post(rollout, body(stream=True))
        assert status == 200 and raw.count(b": keepalive\n\n") >= 2
        events = [line[6:] for line in raw.splitlines() if line.startswith(b"data: {")]
        text = "".join(json.loads(event)["choices"][0]["delta"].get("content") or "" for event in events)
        assert text == ("other words" if replaces else "words " * 4)
        assert raw.endswith(b"data: [DONE]\n\n") and b": keepalive" not in raw[raw.index(b"data:") :]
        assert rollout.trace.last_reply == text
        assert [node.text for node in rollout.trace.nodes if node.sampled] == ["words " * 4]


def test_a_replaced_answer_is_durable_before_it_is_delivered() -> None:
    def reply(response: Response) -> Response:
        return response.model_copy(update={"message": AssistantMessage(content="shown")})

    with Upstream() as upstream, served(upstream.url, hooks=Editor(None, reply)) as rollout:
        ((status, raw),) = post(rollout, body())
        data = json.loads(raw)
        assert status == 200 and data["choices"][0]["message"]["content"] == "shown"
        assert data["choices"][0]["finish_reason"] == "stop" and data["usage"]["completion_tokens"] == 3
        (call,) = rollout.trace.calls
        nodes = rollout.trace.nodes
        assert call.reply_node is not None and call.shown_node is not None
        assert (nodes[call.reply_node].text, nodes[call.shown_node].text) == ("hello", "shown")
        post(rollout, body([*body()["messages"], {"role": "assistant", "content": "shown"}]))
        assert rollout.trace.calls[1].prompt_node == call.shown_node


def test_a_rollout_without_rewriting_hooks_keeps_no_pins() -> None:
    with Upstream() as upstream, served(upstream.url) as rollout:
        post(rollout, body())
        assert rollout.session.pins is None and not rollout.session.hooks.whole_turns


# Dialects


class Blocks(Dialect[dict[str, Any], dict[str, Any]]):
    """A format whose items hold several messages, as those of Anthropic do."""

    routes: ClassVar[tuple[str, ...]] = ("/blocks",)
    history: ClassVar[str | None] = "turns"

    def parse_request(self, body: dict[str, Any]) -> tuple[Messages, list[Tool] | None]:
        return [one for turn in body["turns"] for one in self.decode(msgspec.json.encode(turn))], None

    def parse_response(self, resp: dict[str, Any]) -> Response:
        return Response(message=AssistantMessage(content=resp["said"]))

    def decode(self, item: msgspec.Raw | bytes) -> Messages:
        found: Messages = []
        for block in msgspec.json.decode(item)["blocks"]:
            if "said" in block:
                found.append(AssistantMessage(content=block["said"]))
            elif "result" in block:
                found.append(ToolMessage(tool_call_id=block["id"], content=block["result"]))
            else:
                found.append(UserMessage(content=block["text"]))
        return found

    def rewrite(self, item: msgspec.Raw | bytes, messages: Sequence[Message]) -> bytes:
        data = msgspec.json.decode(item)
        for block, message in zip(data["blocks"], messages, strict=True):
            block["result" if "result" in block else "text"] = message.text
        return msgspec.json.encode(data)

    def frame(self, response: Response, model: str, created: int = 0) -> bytes:
        return msgspec.json.encode({"said": response.text})


class Plain(Dialect[dict[str, Any], dict[str, Any]]):
    """A format that says only what it must."""

    routes: ClassVar[tuple[str, ...]] = ("/plain",)

    def parse_request(self, body: dict[str, Any]) -> tuple[Messages, list[Tool] | None]:
        return [ToolMessage(tool_call_id="a", content=text) for text in body["texts"]], None

    def parse_response(self, resp: dict[str, Any]) -> Response:
        return Response(message=AssistantMessage(content=resp["said"]))

    def frame(self, response: Response, model: str, created: int = 0) -> bytes:
        return msgspec.json.encode({"said": response.text})


def test_an_item_of_several_messages_is_rewritten_in_place() -> None:
    sent: list[list[str]] = []

    def script(messages: Messages) -> str:
        sent.append([message.text for message in messages])
        return "fine"

    bodies: list[bytes] = []

    class Kept(Scripted):
        async def call(self, request: Any) -> Any:
            bodies.append(request.body)
            return await super().call(request)

    mixed = {"blocks": [{"id": "a", "result": "ONE"}, {"text": "AND"}, {"id": "b", "result": "TWO"}]}
    turns: list[Any] = [{"blocks": [{"text": "begin"}]}, {"blocks": [{"said": "look"}]}, mixed]
    with served(Kept(script), hooks=Editor()) as rollout:
        for more in ([], [{"blocks": [{"said": "fine"}]}, {"blocks": [{"text": "NEXT"}]}]):
            turns = [*turns, *more]
            answer = httpx.post(rollout.base_url + "/blocks", json={"turns": turns}, headers=rollout.headers)
            assert answer.status_code == 200, answer.text
        rewritten = ["[1] one", "AND", "[1] two"]
        assert sent == [["begin", "look", *rewritten], ["begin", "look", *rewritten, "fine", "NEXT"]]
        for raw in bodies:
            blocks = json.loads(raw)["turns"][2]["blocks"]
            assert [block.get("result", block.get("text")) for block in blocks] == rewritten
        assert len(rollout.trace.dag.leaves) == 1


def test_a_dialect_that_cannot_write_its_messages_says_so() -> None:
    with served(Scripted(["unused"]), hooks=Editor()) as rollout:
        answer = httpx.post(rollout.base_url + "/plain", json={"texts": ["A"]}, headers=rollout.headers)
        assert answer.status_code == 400
        assert isinstance(rollout.session.fault, ConfigError)
        assert "dialect 'plain' cannot rewrite requests: define history" in str(rollout.session.fault)


class Searching(Chat):
    """Chat with the results of a search that the provider ran, as unknown keys of the message."""

    name: ClassVar[str] = "searching"
    routes: ClassVar[tuple[str, ...]] = ("/searching",)

    def hosted_results(self, response: Response) -> list[HostedResult]:
        found = (response.message.model_extra or {}).get("searches", [])
        return [
            HostedResult(id=one["id"], tool="web_search", text=one["text"], signed="seal" in one)
            for one in found
        ]

    def replace_hosted(self, response: Response, results: list[HostedResult]) -> Response:
        texts = {result.id: result.text for result in results}
        message = response.message.model_copy(deep=True)
        for one in (message.model_extra or {})["searches"]:
            one["text"] = texts[one["id"]]
        return response.model_copy(update={"message": message})


def test_hosted_tool_results_are_readable_and_replaceable_where_the_dialect_has_them() -> None:
    seen: list[HostedResult] = []

    def reply(response: Response) -> Response:
        seen.extend(response.hosted_results)
        changed = [one.model_copy(update={"text": "gone"}) for one in response.hosted_results]
        return response.model_copy(update={"hosted_results": changed})

    said = AssistantMessage.model_validate(
        {"content": "found it", "searches": [{"id": "s1", "text": "the answer key"}]}
    )
    with served(Scripted([said]), hooks=Editor(None, reply)) as rollout:
        answer = httpx.post(rollout.base_url + "/searching", json=body(), headers=rollout.headers)
        message = answer.json()["choices"][0]["message"]
        assert message["searches"] == [{"id": "s1", "text": "gone"}] and message["content"] == "found it"
        assert seen == [HostedResult(id="s1", tool="web_search", text="the answer key")]


def test_a_dialect_without_hosted_results_has_none_to_replace() -> None:
    assert Chat().hosted_results(Response(message=AssistantMessage(content="x"))) == []
    with pytest.raises(ConfigError, match="dialect 'chat' cannot replace hosted results"):
        Chat().replace_hosted(Response(message=AssistantMessage(content="x")), [])
