"""One rollout's access to the model: its key, its limits, its record."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Coroutine, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from vfnb import loops
from vfnb.dialects import Dialect, chat_decode, chat_encode, get
from vfnb.dialects.lenient import dumps
from vfnb.errors import ContextLengthError, HarnessError, ModelError
from vfnb.interception.answers import failure, stopped
from vfnb.interception.call import Call
from vfnb.interception.completion import Completion
from vfnb.interception.edits import Pins
from vfnb.interception.exchange import Exchange
from vfnb.interception.faults import SessionClosed, SessionStopped, bad_request
from vfnb.interception.hooks import Hooks
from vfnb.interception.journal import Journal, Memory
from vfnb.interception.limits import Limits
from vfnb.interception.markers import Marker, MarkerReader
from vfnb.interception.retries import Retries, marked_retry
from vfnb.interception.settings import Settings
from vfnb.interception.sink import Collected, Sink
from vfnb.interception.turns import TurnReader
from vfnb.interception.watch import Watch
from vfnb.trace.calls import ErrorInfo, ModelCall, error_info
from vfnb.types import (
    AssistantMessage,
    Message,
    Messages,
    OtherMessage,
    SamplingConfig,
    SystemMessage,
    Tool,
    ToolMessage,
    UserMessage,
    resolve_messages,
)

if TYPE_CHECKING:
    from vfnb.clients.base import ModelClient
    from vfnb.trace import Trace
    from vfnb.trace.records import Delta

__all__ = ["Pending", "Session"]


class Pending(NamedTuple):
    """One call that waits for the upstream. Times are seconds of the engine loop's clock."""

    since: float
    last_byte: float | None
    """None if the upstream has said nothing yet."""


class Session:
    """Everything of one rollout that touches the model. Lives on the engine loop.

    Args:
        trace: what the calls are recorded on.
        client: who answers them.
        sampling: settings of the run; they win over the program's.
        limits: bounds that are checked before each call.
        hooks: what the task wants to see or stop.
        journal: where calls become durable; None keeps the trace in memory.
        settings: times and sizes.
        markers: how the program declares what its calls are for.
    """

    def __init__(
        self,
        trace: Trace,
        client: ModelClient,
        *,
        sampling: SamplingConfig | None = None,
        limits: Limits | None = None,
        hooks: Hooks | None = None,
        journal: Journal | None = None,
        settings: Settings | None = None,
        markers: Iterable[Marker] = (),
    ) -> None:
        self.key = f"vf-{secrets.token_hex(16)}"
        """The capability: who has it may call the model as this rollout."""
        self.trace = trace
        self.graph = trace.dag
        self.rollout_id = trace.id
        self.client = client
        self.sampling = sampling or SamplingConfig()
        self.overrides: dict[str, Any] = self.sampling.given()
        if self.sampling.extra_body:
            self.overrides["extra_body"] = self.sampling.extra_body
        self.limits = limits or Limits()
        self._most_turns = self.limits.max_turns
        self.hooks = hooks or Hooks()
        self.journal = journal or Memory()
        self.settings = settings or Settings()
        self.markers = MarkerReader(markers)
        self.deadline: float | None = None
        """Latest end of any call, in seconds of the engine loop's clock."""
        self.stop_condition: str | None = None
        """Name of the stop that ended the rollout; the first one wins."""
        self.fault: Exception | None = None
        """Why it is pointless to go on: a failing hook or journal, an upstream that is down for good."""
        self.ended = asyncio.Event()
        """Set by a stop, a fault or `close`: from now on every request is refused."""
        self.last_overflow: ErrorInfo | None = None
        """The last call's overflow of the model's context, None once a later call succeeded."""
        self.requests = 0
        """Requests that came, refused ones included."""
        self.last_request: float | None = None
        """When the last request came, in seconds of the engine loop's clock."""
        self.retries = Retries(self.settings.keep_bytes)
        self.pins = Pins(self.graph) if self.hooks.edits_request else None
        """The messages that hooks have rewritten."""
        self.reader = TurnReader(self.graph)
        """Reads requests against the graph."""
        self._watch = Watch(self.retries, self.settings)
        self._closed = False
        self._running = 0
        self._freed = asyncio.Event()
        self._failures = 0
        self._progress: float | None = None
        self._writes: set[asyncio.Future[object]] = set()

    def __repr__(self) -> str:
        return f"Session(trace={self.trace.id}, calls={len(self.graph.calls)}, end={self._over()})"

    @property
    def model(self) -> str:
        """The model's name for display."""
        return self.client.name

    # serving

    def handle(
        self,
        dialect: Dialect[Any, Any],
        body: bytes,
        headers: Mapping[str, str],
        sink: Sink,
        *,
        transport: str = "http",
    ) -> Coroutine[Any, Any, object]:
        """Answer one request on `sink`; every failure is recorded and answered in the dialect's form."""
        return self._serve(dialect, body, headers, sink, transport)

    async def _serve(
        self,
        dialect: Dialect[Any, Any],
        body: bytes,
        headers: Mapping[str, str],
        sink: Sink,
        transport: str,
        *,
        framed: bool = True,
    ) -> Exchange | None:
        """The exchange that answered, None if the request was refused before there was one."""
        self.requests += 1
        now = self.last_request = asyncio.get_running_loop().time()
        over = self._over()
        if over is not None:
            await sink.reply(*stopped(dialect, over))
            return None
        try:
            turn = self.reader.read(dialect, body)
        except Exception as error:
            fault = bad_request(error)
            await self._unreadable(dialect, fault, sink, transport)
            if framed:
                return None
            raise fault from error
        token = headers.get("idempotency-key")
        marked = marked_retry(headers)
        while framed and (known := self.retries.find(turn.digest, token, marked=marked)) is not None:
            if await known.join(sink):
                self._delivered(known)
                self.retries.taken(known)
                return known
        if self._progress is None or self.retries.retry_of(turn.digest) is None:
            self._progress = now
        exchange = Exchange(dialect, turn.digest, token, sink, now, stream=turn.stream)
        exchange.framed = framed
        self.retries.begin(exchange)
        self._watch.wake()
        try:
            await Call(self, turn, exchange, headers, transport).run()
        finally:
            exchange.vanish()
            self.retries.end(exchange)
            self._delivered(exchange)
        return exchange

    async def _unreadable(
        self, dialect: Dialect[Any, Any], error: Exception, sink: Sink, transport: str
    ) -> None:
        """A request that could not be read, or a dialect that failed on it."""
        whole = failure(dialect, error)
        call = ModelCall(dialect=dialect.name, status=whole.status, delivered=False, transport=transport)
        call.error = error_info(error, stage="agent")
        call.start = call.end = call.error.at
        delta = self.graph.commit(call, parent=-1, new=[], reply=None)
        try:
            await self.journal.append(self.rollout_id, delta)
        except Exception as second:
            self.fail(second)
        self.failed(error)
        await sink.reply(*whole)

    def _delivered(self, exchange: Exchange) -> None:
        """Correct the record where the answer's fate differs from what was expected at the commit."""
        if exchange.call is None or exchange.failed or self._closed:
            return
        if self.graph.calls[exchange.call].delivered != exchange.delivered:
            self.store_later(self.graph.update_call(exchange.call, delivered=exchange.delivered))

    # direct calls

    async def complete(
        self,
        messages: str | Sequence[Message | Mapping[str, Any]],
        tools: Sequence[Tool] | None = None,
        *,
        markers: Mapping[str, str] | None = None,
        **params: Any,
    ) -> Completion:
        """Ask the model from any loop, without HTTP; recorded like any other call.

        Args:
            messages: the prompt, of messages or of dicts as in a Chat request; or a string for one user message.
            tools: tools to offer.
            markers: what the call is for, as the `x-vfnb-*` headers say it, e.g. `{"kind": "compaction"}`.
            params: further keys of a Chat Completions request, e.g. `temperature=0`.

        Raises:
            SessionStopped: the rollout has been stopped.
            SessionClosed: the rollout is over.
            ModelError: the model gave no answer.
        """
        headers = {f"x-vfnb-{name}": value for name, value in (markers or {}).items()}
        return await loops.engine().do(self._complete(_history(messages), tools, headers, params))

    async def _complete(
        self,
        messages: Messages,
        tools: Sequence[Tool] | None,
        headers: Mapping[str, str],
        params: Mapping[str, Any],
    ) -> Completion:
        self._check()
        chat = get("chat")
        body = _chat_body(chat, messages, tools, {"model": self.model, **params})
        exchange = await self._serve(chat, body, headers, Collected(), "inprocess", framed=False)
        if exchange is not None and exchange.response is not None and not exchange.failed:
            return Completion([*messages, exchange.response.message], exchange.response)
        self._check()
        assert exchange is not None and exchange.error is not None
        raise exchange.error

    def _check(self) -> None:
        if self.stop_condition is not None:
            raise SessionStopped(self.stop_condition)
        if self.fault is not None:
            raise self.fault
        if self._closed:
            raise SessionClosed("the rollout is over; its session answers no more calls")

    # what a call asks of its session

    async def admit(self, call: Call) -> str | None:
        """Wait for room under `max_turns`; then count the call in, or name the stop that refuses it."""
        counters = self.graph.counters
        while True:
            limits = self.limits
            over = self.stop_condition or limits.reached(counters)
            if over is not None:
                return over
            if limits.max_turns is None or counters.turns + self._running < limits.max_turns:
                break
            self._freed.clear()
            await self._freed.wait()
        self._running += 1
        if not (self.hooks.on_trace or self.hooks.on_request or self.hooks.edits_request):
            return None
        try:
            stop = await self._ask_hooks(call)
        except BaseException as error:
            self.leave()
            if isinstance(error, Exception):
                self.fail(error)
            raise
        if stop is not None:
            self.leave()
        return stop

    async def _ask_hooks(self, call: Call) -> str | None:
        hooks = self.hooks
        self._progress = None  # a slow hook is no silent upstream
        try:
            stop = await hooks.trace(self.trace) if hooks.on_trace else None
            if stop is None and hooks.on_request:
                stop = await hooks.request(call.hook_request(), self.trace)
            if stop is None and self.pins is not None:
                await call.edit(self.pins)
        finally:
            self._progress = asyncio.get_running_loop().time()
        return stop

    def leave(self) -> None:
        """An admitted call has its record."""
        self._running -= 1
        self._freed.set()

    def succeeded(self) -> None:
        """A call has an answer."""
        self._failures = 0
        self.last_overflow = None
        self._progress = None

    def failed(self, error: Exception) -> None:
        """A call has none."""
        if isinstance(error, ContextLengthError):
            self.last_overflow = error_info(error, stage="agent")
            return
        if not isinstance(error, ModelError):
            if getattr(error, "boundary", None) != "harness":
                self.fail(error)
            return
        self._failures += 1
        if self._failures >= self.settings.max_failures:
            self.fail(error)

    def store_later(self, delta: Delta) -> None:
        """Write without waiting; `close` waits."""
        try:
            write = asyncio.ensure_future(self.journal.append(self.rollout_id, delta))
        except Exception as error:
            self.fail(error)
            return
        self._writes.add(write)
        write.add_done_callback(self._written)

    def _written(self, write: asyncio.Future[object]) -> None:
        self._writes.discard(write)
        error = None if write.cancelled() else write.exception()
        if isinstance(error, Exception):
            self.fail(error)

    # ending

    def _over(self) -> str | None:
        if self.stop_condition is not None:
            return self.stop_condition
        if self.fault is not None:
            return type(self.fault).__name__
        return "closed" if self._closed else None

    def bound_turns(self, turns: int) -> None:
        """Allow at most so many answered calls from now on, in all branches together; the limits hold besides."""
        most = self.graph.counters.turns + turns
        if self._most_turns is not None:
            most = min(most, self._most_turns)
        self.limits = self.limits.model_copy(update={"max_turns": most})
        self._freed.set()  # calls that wait for room look again

    def stop(self, name: str) -> None:
        """End the rollout by a named stop; the first wins. Calls in flight go on, later ones are refused."""
        if self._over() is None:
            self.stop_condition = name
            self.ended.set()
            self._freed.set()

    def fail(self, error: Exception) -> None:
        """End the rollout by a fault; the first wins."""
        if self._over() is None:
            self.fault = error
            self.ended.set()
            self._freed.set()

    def pending(self) -> list[Pending]:
        """The calls that wait for the upstream, oldest first."""
        return [Pending(flying.started, flying.last_byte) for flying in self.retries.flying]

    def silent_for(self) -> float:
        """For how many seconds the program has got nothing because its upstream is silent or keeps failing.

        0 if the program is at work by itself: no call is in flight and the last one succeeded.
        """
        if self._progress is None or not (self.retries.flying or self._failures):
            return 0.0
        heard = [flying.last_byte for flying in self.retries.flying if flying.last_byte is not None]
        return asyncio.get_running_loop().time() - max([self._progress, *heard])

    async def close(self, why: str = "the rollout is over") -> None:
        """Refuse further requests, cancel and record the calls in flight, wait for the journal."""
        self._closed = True
        self.ended.set()
        self._freed.set()
        tasks = []
        for exchange in self.retries.flying:
            task = exchange.task
            if task is not None and task is not asyncio.current_task():
                exchange.why = why
                task.cancel()
                tasks.append(exchange)
        for exchange in tasks:
            await exchange.done()
        while self._writes:
            await asyncio.wait(self._writes)
        self._watch.stop()
        self.retries.clear()
        self.reader.clear()


_MESSAGES = (SystemMessage, UserMessage, AssistantMessage, ToolMessage, OtherMessage)


def _history(messages: str | Sequence[Message | Mapping[str, Any]]) -> Messages:
    """What a program gave as messages; dicts are read as Chat messages.

    Raises:
        HarnessError: an item is neither.
    """
    history = [
        chat_decode.message(dict(item)) if isinstance(item, Mapping) else item
        for item in (resolve_messages(messages) if isinstance(messages, str) else messages)
    ]
    for position, item in enumerate(history):
        if not isinstance(item, _MESSAGES):
            raise HarnessError(
                f"complete(messages): item {position} is a {type(item).__name__}; give messages such as "
                "vf.UserMessage(content=...), or dicts with role and content"
            )
    return history


def _chat_body(
    chat: Dialect[Any, Any], messages: Messages, tools: Sequence[Tool] | None, params: dict[str, Any]
) -> bytes:
    """A Chat request whose history comes last, so that a longer one starts with the same bytes."""
    if tools:
        params["tools"] = [chat_encode.tool(tool) for tool in tools]
    head = dumps(params)
    return head[:-1] + b',"messages":[' + b",".join(chat.encode(messages)) + b"]}"
