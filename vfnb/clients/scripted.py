"""The scripted model: a function or a list of replies in place of a model, for tests, demos and debugging."""

from __future__ import annotations

import asyncio
import inspect
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from typing import Any

import msgspec

from vfnb import loops
from vfnb.clients.accidents import Accidents
from vfnb.clients.base import ModelClient, ModelRequest, Reply
from vfnb.clients.outgoing import outgoing
from vfnb.clients.price import Price, price_of
from vfnb.dialects import Splitter
from vfnb.dialects.lenient import dumps
from vfnb.errors import ConfigError, ModelError, UpstreamCut, UpstreamRejected, UpstreamTimeout
from vfnb.types import AssistantMessage, Messages, Response, Usage
from vfnb.utils.source import code_hash
from vfnb.utils.told import raised

__all__ = ["Answer", "Scripted"]

Answer = str | AssistantMessage | Response | Exception
_OPTIONAL = ("tools", "model", "sampling")


class Scripted(ModelClient):
    """Answers calls from a script, framed in the program's dialect, streamed if it asked for a stream.

    Args:
        script: `fn(messages)` that returns text, a `vf.AssistantMessage` or a `vf.Response`, or raises. It also
            gets `tools`, `model` and `sampling` by keyword if it has parameters of these names. A sync function
            runs in a thread of its own, an async one on the loop of user code. Or a list of such answers (and
            exceptions, which are raised): each call takes the next one.
        name: the model's name.
        cycle: start a list anew at its end.
        latency: seconds before the first byte.
        pace: seconds between the events of a stream.
        chunk: characters per event of a stream.
        faults: accidents to inject, e.g. `{"kind": "server_error", "rate": 0.1, "seed": 0}`.
        price: US dollars per million tokens, as for `vf.Relay`.

    Usage is estimated unless a `vf.Response` gives it: a token is four bytes of the request, or one word of
    the answer.
    """

    def __init__(
        self,
        script: Callable[..., Answer | Awaitable[Answer]] | Sequence[Answer],
        *,
        name: str = "scripted",
        cycle: bool = False,
        latency: float = 0.0,
        pace: float = 0.0,
        chunk: int = 16,
        faults: Mapping[str, Any] | None = None,
        price: Price | tuple[float, ...] | None = None,
    ) -> None:
        self.name = name
        self.price = price_of(price)
        self.calls = 0
        """Calls so far."""
        self._latency = latency
        self._pace = pace
        self._chunk = chunk
        self._cycle = cycle
        self._accidents = Accidents(faults)
        self._function: Callable[..., Any] | None = None
        self._answers: list[Answer] = []
        self._keywords: tuple[str, ...] = ()
        if callable(script):
            self._function = script
            self._keywords = _keywords(script)
        elif isinstance(script, Sequence) and not isinstance(script, str):
            self._answers = [_checked(answer, f"replies[{index}]") for index, answer in enumerate(script)]
        else:
            raise ConfigError(
                f"vf.Scripted takes a function or a list of replies, not {type(script).__name__}"
            )
        if not callable(script) and not self._answers:
            raise ConfigError("vf.Scripted got an empty list of replies; give at least one")

    def identity(self) -> dict[str, Any]:
        data: dict[str, Any] = {"kind": "scripted", "model": self.name}
        if self._function is not None:
            return data | {"code": code_hash(self._function)}
        return data | {"replies": [_describe(answer) for answer in self._answers], "cycle": self._cycle}

    def __repr__(self) -> str:
        what = f"{len(self._answers)} replies" if self._function is None else _name(self._function)
        return f"Scripted({what}, name={self.name!r})"

    async def call(self, request: ModelRequest) -> Reply:
        number = self.calls
        self.calls += 1
        if request.deadline is None:
            return await self._answer(request, number)
        try:
            async with asyncio.timeout_at(request.deadline):
                return await self._answer(request, number)
        except TimeoutError as error:
            raise UpstreamTimeout("the scripted model had no answer at the call's deadline") from error

    async def _answer(self, request: ModelRequest, number: int) -> Reply:
        accident = self._accidents.draw(number)
        if self._latency:
            await asyncio.sleep(self._latency)
        if accident is not None and not (accident == "cut" and request.stream):
            raise self._accidents.error(accident)
        response = _response(await self._next(request, number), request, self.name)
        call = outgoing(request, "")
        reply = Reply(
            response=response, sampling_sent=call.sampling, served_model=self.name, first_byte=time.time()
        )
        dialect, created = request.dialect, int(reply.first_byte or 0)
        response.id = response.id or dialect.new_id()
        split = request.split or Splitter(dialect).split(request.body)
        fields = split.fields if request.model else {**split.fields, "model": msgspec.Raw(dumps(self.name))}
        if not request.stream:
            reply.body = dialect.answer(response, fields, created)
            return reply
        events = dialect.answer_stream(response, fields, created, size=self._chunk)
        reply.chunks = _play(events, self._pace, cut=accident == "cut")
        return reply

    async def _next(self, request: ModelRequest, number: int) -> Answer:
        if self._function is None:
            if number >= len(self._answers) and not self._cycle:
                raise UpstreamRejected(
                    f"the script has {len(self._answers)} replies and this is call {number + 1}: "
                    "give more replies, a function, or cycle=True"
                )
            answer = self._answers[number % len(self._answers)]
        else:
            answer = await self._ask(self._function, request)
        if isinstance(answer, ModelError):
            raise answer
        if isinstance(answer, Exception):
            raise UpstreamRejected(f"the script raised {raised(answer)}") from answer
        return answer

    async def _ask(self, function: Callable[..., Any], request: ModelRequest) -> Answer:
        values = {"tools": request.tools, "model": request.model, "sampling": dict(request.sampling)}
        keywords = {name: values[name] for name in self._keywords}
        messages: Messages = list(request.messages())
        try:
            if inspect.iscoroutinefunction(function):
                answer = await loops.user().do(function(messages, **keywords))
            else:
                answer = await loops.on_worker(lambda: function(messages, **keywords))
                if inspect.isawaitable(answer):
                    answer = await loops.user().do(_await(answer))
        except Exception as error:
            return error
        try:
            return _checked(answer, f"{_name(function)}()")
        except ConfigError as error:
            raise UpstreamRejected(str(error)) from error


async def _await(value: Awaitable[Any]) -> Any:
    return await value


async def _play(events: list[bytes], pace: float, *, cut: bool) -> AsyncIterator[bytes]:
    for index, event in enumerate(events):
        if cut and index * 2 >= len(events):
            raise UpstreamCut("the scripted stream was cut (injected fault)")
        if pace and index:
            await asyncio.sleep(pace)
        yield event


def _keywords(function: Callable[..., Any]) -> tuple[str, ...]:
    """Which of the optional arguments the function takes; fails if it cannot take `messages`."""
    try:
        parameters = inspect.signature(function).parameters
    except (TypeError, ValueError):
        return ()
    kinds = inspect.Parameter
    several = any(parameter.kind is kinds.VAR_KEYWORD for parameter in parameters.values())
    positional = [
        name
        for name, parameter in parameters.items()
        if parameter.kind in (kinds.POSITIONAL_ONLY, kinds.POSITIONAL_OR_KEYWORD, kinds.VAR_POSITIONAL)
    ]
    first = positional[0] if positional else None
    wrong = [
        name
        for name, parameter in parameters.items()
        if name != first
        and name not in _OPTIONAL
        and parameter.default is kinds.empty
        and parameter.kind not in (kinds.VAR_KEYWORD, kinds.VAR_POSITIONAL)
    ]
    if first is None or first in _OPTIONAL or wrong:
        raise ConfigError(
            f"the script {_name(function)}{inspect.signature(function)} must take `messages` first and of "
            "the others only `tools`, `model`, `sampling` without a default: def fn(messages, tools=None)"
        )
    return tuple(name for name in _OPTIONAL if name in parameters or several)


def _checked(answer: Any, where: str) -> Answer:
    if isinstance(answer, str | AssistantMessage | Response | Exception):
        return answer
    raise ConfigError(
        f"{where} of the scripted model gave {type(answer).__name__}; it must be text, "
        "a vf.AssistantMessage or a vf.Response"
    )


def _response(answer: Answer, request: ModelRequest, name: str) -> Response:
    if isinstance(answer, Response):
        response = answer.model_copy()
    else:
        message = AssistantMessage(content=answer) if isinstance(answer, str) else answer
        assert isinstance(message, AssistantMessage)
        response = Response(message=message, finish_reason="tool_calls" if message.tool_calls else "stop")
    response.model = response.model or name
    if response.usage is None:
        message = response.message
        spoken = [
            message.text,
            message.reasoning_content or "",
            *(call.arguments for call in message.tool_calls),
        ]
        words = sum(len(text.split()) for text in spoken)
        response.usage = Usage(prompt_tokens=max(1, len(request.body) // 4), completion_tokens=max(1, words))
    return response


def _describe(answer: Answer) -> Any:
    return (
        repr(answer)
        if isinstance(answer, Exception)
        else answer
        if isinstance(answer, str)
        else answer.model_dump()
    )


def _name(function: Callable[..., Any]) -> str:
    return getattr(function, "__name__", type(function).__name__)
