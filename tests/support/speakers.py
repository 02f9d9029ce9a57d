"""Programs and servers of every dialect: official SDKs here, scripted servers there."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

import anthropic
import openai
from google import genai
from google.genai import errors as genai_errors
from google.genai import types as g

from support.gemini_upstream import GeminiUpstream, Parts
from support.gemini_upstream import failing as gemini_failing
from support.messages_upstream import Blocks, MessagesUpstream
from support.messages_upstream import failing as messages_failing
from support.rollouts import Served
from support.upstream import Say, Upstream

__all__ = ["ERRORS", "FAILING", "IMAGE", "PROGRAMS", "RAW", "Heard", "Line", "image_sent", "server"]

IMAGE = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}
SYSTEM = "You add numbers."


@dataclass
class Line:
    """What the scripted model says in one turn."""

    text: str = ""
    reasoning: str = ""
    calls: list[tuple[str, str, dict[str, Any]]] = field(default_factory=list)
    """Id, name and arguments."""
    pace: float = 0.0


@dataclass
class Heard:
    """What a program understood of one answer."""

    text: str
    reasoning: str
    calls: list[tuple[str, str, dict[str, Any]]]
    finish: str
    tokens: int


# servers


def _chat(line: Line) -> Say:
    calls = [
        {"id": key, "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
        for key, name, args in line.calls
    ]
    return Say(text=line.text, reasoning=line.reasoning or None, calls=calls, pace=line.pace)


def _messages(line: Line) -> Blocks:
    blocks: list[dict[str, Any]] = []
    if line.reasoning:
        blocks.append({"type": "thinking", "thinking": line.reasoning, "signature": "c2lnbmVk"})
    if line.text:
        blocks.append({"type": "text", "text": line.text})
    blocks += [{"type": "tool_use", "id": key, "name": name, "input": args} for key, name, args in line.calls]
    return Blocks(blocks=blocks, pace=line.pace)


def _gemini(line: Line) -> Parts:
    parts: list[dict[str, Any]] = []
    if line.reasoning:
        parts.append({"text": line.reasoning, "thought": True})
    if line.text:
        parts.append({"text": line.text})
    parts += [
        {"functionCall": {"name": name, "args": args}, "thoughtSignature": "c2lnbmVk"}
        for _, name, args in line.calls
    ]
    return Parts(parts, pace=line.pace)


class ResponsesServer(Upstream):
    """Answers `/v1/responses` from a list of lines."""

    def __init__(self, lines: list[Line]) -> None:
        super().__init__([Say(text=str(number), pace=line.pace) for number, line in enumerate(lines)])
        self._lines = lines

    def whole(self, say: Say, model: str) -> dict[str, Any]:
        output: list[dict[str, Any]] = []
        line = self._lines[int(say.text or "0")]
        if line.reasoning:
            summary = [{"type": "summary_text", "text": line.reasoning}]
            output.append(
                {"id": "rs_1", "type": "reasoning", "summary": summary, "encrypted_content": "ZW5j"}
            )
        if line.text:
            part = {"type": "output_text", "text": line.text, "annotations": [], "logprobs": []}
            output.append(
                {
                    "id": "msg_1",
                    "type": "message",
                    "role": "assistant",
                    "status": "completed",
                    "content": [part],
                }
            )
        output += [
            {"id": f"fc_{key}", "type": "function_call", "status": "completed", "call_id": key, "name": name}
            | {"arguments": json.dumps(args)}
            for key, name, args in line.calls
        ]
        usage = {"input_tokens": 7, "output_tokens": 3, "total_tokens": 10}
        usage |= {
            "input_tokens_details": {"cached_tokens": 0},
            "output_tokens_details": {"reasoning_tokens": 0},
        }  # type: ignore[dict-item]
        head = {"id": "resp_1", "object": "response", "created_at": 1, "model": model, "status": "completed"}
        beside = {"parallel_tool_calls": True, "tool_choice": "auto", "tools": []}
        return head | beside | {"output": output, "usage": usage, "error": None, "incomplete_details": None}

    def streamed(self, say: Say, model: str, body: Any) -> list[bytes]:
        whole = self.whole(say, model)
        kinds: list[tuple[str, dict[str, Any]]] = [
            ("created", {"response": whole | {"status": "in_progress", "output": []}})
        ]
        for index, item in enumerate(whole["output"]):
            place = {"item_id": item["id"], "output_index": index}
            empty = {key: [] if isinstance(value, list) else value for key, value in item.items()}
            kinds.append(("output_item.added", {"output_index": index, "item": empty | _started(item)}))
            for name, text in _texts(item):
                at = place | ({} if name.startswith("function") else {"content_index": 0, "summary_index": 0})
                if item["type"] == "message":
                    at = place | {"content_index": 0}
                    part = item["content"][0] | {"text": ""}
                    kinds.append(("content_part.added", at | {"part": part}))
                kinds += [
                    (f"{name}.delta", at | {"delta": text[at_ : at_ + 4]}) for at_ in range(0, len(text), 4)
                ]
            kinds.append(("output_item.done", {"output_index": index, "item": item}))
        kinds.append(("completed", {"response": whole}))
        return [_event(f"response.{kind}", number, data) for number, (kind, data) in enumerate(kinds)]


def _started(item: dict[str, Any]) -> dict[str, Any]:
    return {"arguments": ""} if item["type"] == "function_call" else {}


def _texts(item: dict[str, Any]) -> Iterator[tuple[str, str]]:
    if item["type"] == "reasoning":
        yield "reasoning_summary_text", item["summary"][0]["text"]
    elif item["type"] == "message":
        yield "output_text", item["content"][0]["text"]
    else:
        yield "function_call_arguments", item["arguments"]


def _event(kind: str, number: int, data: dict[str, Any]) -> bytes:
    body = json.dumps({"type": kind, "sequence_number": number, **data})
    return f"event: {kind}\ndata: {body}\n\n".encode()


SERVERS: dict[str, Callable[[list[Line]], Any]] = {
    "chat": lambda lines: Upstream([_chat(line) for line in lines]),
    "responses": ResponsesServer,
    "messages": lambda lines: MessagesUpstream([_messages(line) for line in lines]),
    "gemini": lambda lines: GeminiUpstream([_gemini(line) for line in lines]),
}


def _openai_failing(status: int, text: str, code: str | None = None) -> Say:
    error = {
        "message": text,
        "type": "invalid_request_error" if status < 500 else "server_error",
        "code": code,
    }
    return Say(status=status, raw=json.dumps({"error": error}).encode())


FAILING: dict[str, Callable[[int, str], Any]] = {
    "chat": lambda status, text: Upstream([_openai_failing(status, text)]),
    "responses": lambda status, text: Upstream([_openai_failing(status, text)]),
    "messages": lambda status, text: MessagesUpstream([messages_failing(status, text)]),
    "gemini": lambda status, text: GeminiUpstream([gemini_failing(status, text)]),
}
"""Servers that refuse with a status and a text."""


@contextmanager
def server(dialect: str, lines: list[Line]) -> Iterator[Any]:
    """A scripted server of a dialect."""
    with SERVERS[dialect](lines) as started:
        yield started


def image_sent(dialect: str, body: Any) -> bool:
    """Whether a request's first user turn has the image, in the dialect's own form."""
    if dialect == "chat":
        (user,) = (one for one in body["messages"] if one["role"] == "user")
        return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{IMAGE}"}} in user[
            "content"
        ]
    if dialect == "responses":
        (user,) = (one for one in body["input"] if one.get("role") == "user")
        return any(part.get("image_url") == f"data:image/png;base64,{IMAGE}" for part in user["content"])
    if dialect == "messages":
        source = {"type": "base64", "media_type": "image/png", "data": IMAGE}
        return any(block.get("source") == source for block in body["messages"][0]["content"])
    inline = [part.get("inlineData") or {} for part in body["contents"][0]["parts"]]
    return any(base64.urlsafe_b64decode(one.get("data", "")) == base64.b64decode(IMAGE) for one in inline)


# programs


class Program:
    """An agent loop of two turns: asks, gives each call the result `3`, asks again."""

    def __init__(self, rollout: Served, *, stream: bool) -> None:
        self.stream = stream
        self.rollout = rollout

    def converse(self, turns: int = 2) -> list[Heard]:
        """Run the turns; returns what was heard in each."""
        self.begin("Add one and two.")
        found = []
        for _ in range(turns):
            heard = self.ask()
            found.append(heard)
            self.answer(heard)
        self.close()
        return found

    def begin(self, text: str) -> None:
        raise NotImplementedError

    def ask(self) -> Heard:
        raise NotImplementedError

    def answer(self, heard: Heard) -> None:
        raise NotImplementedError

    def close(self) -> None:
        self.client.close()  # type: ignore[attr-defined]


class ChatProgram(Program):
    def __init__(self, rollout: Served, *, stream: bool) -> None:
        super().__init__(rollout, stream=stream)
        self.client = openai.OpenAI(
            base_url=f"{rollout.base_url}/v1", api_key=rollout.session.key, max_retries=0
        )

    def begin(self, text: str) -> None:
        url = f"data:image/png;base64,{IMAGE}"
        parts = [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": url}}]
        self.messages: list[Any] = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": parts}]
        function = {"name": "add", "description": "adds", "parameters": SCHEMA}
        self.asked: dict[str, Any] = {"model": "asked", "tools": [{"type": "function", "function": function}]}
        self.asked |= {"temperature": 0.5, "max_tokens": 100, "tool_choice": "auto"}

    def ask(self) -> Heard:
        create = self.client.chat.completions
        if self.stream:
            options: Any = {"include_usage": True}
            with create.stream(messages=self.messages, stream_options=options, **self.asked) as stream:
                for _ in stream:
                    pass
                reply: Any = stream.get_final_completion()
        else:
            reply = create.create(messages=self.messages, **self.asked)
        choice = reply.choices[0]
        self.said = choice.message
        calls = [
            (c.id, c.function.name, json.loads(c.function.arguments)) for c in self.said.tool_calls or []
        ]
        thought = getattr(self.said, "reasoning_content", None) or ""
        return Heard(self.said.content or "", thought, calls, choice.finish_reason, reply.usage.total_tokens)

    def answer(self, heard: Heard) -> None:
        echo: dict[str, Any] = {"role": "assistant", "content": self.said.content}
        if heard.calls:
            echo["tool_calls"] = [
                {"id": key, "type": "function", "function": {"name": name, "arguments": json.dumps(args)}}
                for key, name, args in heard.calls
            ]
        self.messages.append(echo)
        self.messages += [{"role": "tool", "tool_call_id": key, "content": "3"} for key, _, _ in heard.calls]


class ResponsesProgram(Program):
    def __init__(self, rollout: Served, *, stream: bool) -> None:
        super().__init__(rollout, stream=stream)
        self.client = openai.OpenAI(
            base_url=f"{rollout.base_url}/v1", api_key=rollout.session.key, max_retries=0
        )

    def begin(self, text: str) -> None:
        url = f"data:image/png;base64,{IMAGE}"
        parts = [{"type": "input_text", "text": text}, {"type": "input_image", "image_url": url}]
        self.input: list[Any] = [{"role": "user", "content": parts}]
        tool = {
            "type": "function",
            "name": "add",
            "description": "adds",
            "parameters": SCHEMA,
            "strict": False,
        }
        self.asked: dict[str, Any] = {"model": "asked", "instructions": SYSTEM, "tools": [tool]}
        self.asked |= {"temperature": 0.5, "max_output_tokens": 100, "tool_choice": "auto"}

    def ask(self) -> Heard:
        if self.stream:
            with self.client.responses.stream(input=self.input, **self.asked) as stream:
                for _ in stream:
                    pass
                reply: Any = stream.get_final_response()
        else:
            reply = self.client.responses.create(input=self.input, **self.asked)
        self.said = reply.output
        calls = [
            (c.call_id, c.name, json.loads(c.arguments)) for c in reply.output if c.type == "function_call"
        ]
        thoughts = [part.text for item in reply.output if item.type == "reasoning" for part in item.summary]
        text = reply.output_text
        return Heard(text, "".join(thoughts), calls, reply.status, reply.usage.total_tokens)

    def answer(self, heard: Heard) -> None:
        self.input += [item.model_dump(exclude_none=True) for item in self.said]
        outputs = [
            {"type": "function_call_output", "call_id": key, "output": "3"} for key, _, _ in heard.calls
        ]
        self.input += outputs


class MessagesProgram(Program):
    def __init__(self, rollout: Served, *, stream: bool) -> None:
        super().__init__(rollout, stream=stream)
        self.client = anthropic.Anthropic(
            base_url=rollout.base_url, api_key=rollout.session.key, max_retries=0
        )

    def begin(self, text: str) -> None:
        source = {"type": "base64", "media_type": "image/png", "data": IMAGE}
        mark = {"cache_control": {"type": "ephemeral"}}
        parts = [{"type": "text", "text": text}, {"type": "image", "source": source, **mark}]
        self.messages: list[Any] = [{"role": "user", "content": parts}]
        tool = {"name": "add", "description": "adds", "input_schema": SCHEMA}
        self.asked: dict[str, Any] = {"model": "asked", "max_tokens": 100, "system": SYSTEM, "tools": [tool]}
        self.asked |= {"tool_choice": {"type": "auto"}, "extra_body": {"temperature": 0.5}}

    def ask(self) -> Heard:
        if self.stream:
            with self.client.messages.stream(messages=self.messages, **self.asked) as stream:
                for _ in stream:
                    pass
                reply: Any = stream.get_final_message()
        else:
            reply = self.client.messages.create(messages=self.messages, **self.asked)
        self.said = reply.content
        calls = [(block.id, block.name, block.input) for block in reply.content if block.type == "tool_use"]
        text = "".join(block.text for block in reply.content if block.type == "text")
        thought = "".join(block.thinking for block in reply.content if block.type == "thinking")
        usage = reply.usage
        tokens = usage.input_tokens + (usage.cache_read_input_tokens or 0) + usage.output_tokens
        return Heard(text, thought, calls, reply.stop_reason, tokens)

    def answer(self, heard: Heard) -> None:
        said = [block.model_dump(exclude_none=True) for block in self.said]
        self.messages.append({"role": "assistant", "content": said})
        results = [{"type": "tool_result", "tool_use_id": key, "content": "3"} for key, _, _ in heard.calls]
        if results:
            self.messages.append({"role": "user", "content": results})


class GeminiProgram(Program):
    def __init__(self, rollout: Served, *, stream: bool) -> None:
        super().__init__(rollout, stream=stream)
        options = g.HttpOptions(base_url=rollout.base_url)
        self.client = genai.Client(api_key=rollout.session.key, http_options=options)

    def begin(self, text: str) -> None:
        parts = [g.Part(text=text), g.Part.from_bytes(data=base64.b64decode(IMAGE), mime_type="image/png")]
        self.contents = [g.Content(role="user", parts=parts)]
        function = g.FunctionDeclaration(name="add", description="adds", parameters_json_schema=SCHEMA)
        self.config = g.GenerateContentConfig(
            system_instruction=SYSTEM,
            temperature=0.5,
            max_output_tokens=100,
            tools=[g.Tool(function_declarations=[function])],
            tool_config=g.ToolConfig(function_calling_config=g.FunctionCallingConfig(mode="AUTO")),  # type: ignore[arg-type]
            automatic_function_calling=g.AutomaticFunctionCallingConfig(disable=True),
        )

    def ask(self) -> Heard:
        asked: dict[str, Any] = {"model": "asked", "contents": self.contents, "config": self.config}
        if self.stream:
            replies = list(self.client.models.generate_content_stream(**asked))
        else:
            replies = [self.client.models.generate_content(**asked)]
        contents = [candidate.content for reply in replies for candidate in reply.candidates or []]
        self.said = [part for content in contents if content for part in content.parts or []]
        calls = [part.function_call for part in self.said if part.function_call]
        text = "".join(part.text or "" for part in self.said if not part.thought)
        thought = "".join(part.text or "" for part in self.said if part.thought)
        last: Any = replies[-1]
        finish, tokens = last.candidates[0].finish_reason.value, last.usage_metadata.total_token_count
        made = [(call.id or "", call.name or "", dict(call.args or {})) for call in calls]
        return Heard(text, thought, made, finish, tokens)

    def answer(self, heard: Heard) -> None:
        self.contents.append(g.Content(role="model", parts=self.said))
        results = [
            g.Part(function_response=g.FunctionResponse(id=key or None, name=name, response={"output": "3"}))
            for key, name, _ in heard.calls
        ]
        if results:
            self.contents.append(g.Content(role="user", parts=results))


RAW: dict[str, tuple[str, dict[str, Any]]] = {
    "chat": ("/v1/chat/completions", {"messages": [{"role": "user", "content": "hi"}], "stream": True}),
    "responses": ("/v1/responses", {"input": "hi", "stream": True}),
    "messages": (
        "/v1/messages",
        {"max_tokens": 9, "messages": [{"role": "user", "content": "hi"}], "stream": True},
    ),
    "gemini": ("/v1beta/models/m:streamGenerateContent?alt=sse", {"contents": [{"parts": [{"text": "hi"}]}]}),
}
"""Path and body of the shortest streamed request."""

PROGRAMS: dict[str, type[Program]] = {
    "chat": ChatProgram,
    "responses": ResponsesProgram,
    "messages": MessagesProgram,
    "gemini": GeminiProgram,
}
ERRORS = (openai.APIStatusError, anthropic.APIStatusError, genai_errors.APIError)
