"""One upstream call from admission to the last byte of its answer."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Mapping
from typing import TYPE_CHECKING

import msgspec

from vfnb.clients.address import struck
from vfnb.clients.base import ModelRequest, Reply
from vfnb.dialects.translation import shown
from vfnb.errors import ContextLengthError, ModelError, UpstreamCut, UpstreamMalformed, UpstreamServerError
from vfnb.interception.answers import JSON, failure, stopped, stream_failure
from vfnb.interception.edits import Pins, rewrites_of
from vfnb.interception.exchange import Exchange, Whole
from vfnb.interception.faults import CallCancelled, SessionStopped
from vfnb.interception.turns import Turn, forwarded
from vfnb.trace.calls import ModelCall, error_info
from vfnb.trace.history import token_history
from vfnb.types import Request, Response, Usage

if TYPE_CHECKING:
    from vfnb.dialects import StreamReader
    from vfnb.interception.session import Session
    from vfnb.trace.records import Delta

__all__ = ["Call"]


class Call:
    """Runs one request of a session and answers its exchange. Whatever happens is recorded once."""

    __slots__ = ("_admitted", "_committed", "_exchange", "_headers", "_record", "_session", "_turn")

    def __init__(
        self, session: Session, turn: Turn, exchange: Exchange, headers: Mapping[str, str], transport: str
    ) -> None:
        self._session = session
        self._turn = turn
        self._exchange = exchange
        self._headers = headers
        self._admitted = False
        self._committed = False
        self._record = ModelCall(
            dialect=turn.dialect.name,
            model=turn.model,
            start=time.time(),
            tools=turn.tool_key,
            stream=turn.stream,
            digest=turn.digest.hex(),
            retry_of=session.retries.retry_of(turn.digest),
            sampling_asked=turn.sampling,
            markers=session.markers.read(headers, turn.split.fields),
            transport=transport,
        )

    async def run(self) -> None:
        """Admit, ask, record, answer.

        Raises:
            asyncio.CancelledError: the caller was cancelled; the call is recorded as cancelled.
        """
        session = self._session
        try:
            stop = await session.admit(self)
            if stop is not None:
                await self._stop(stop)
                return
            self._admitted = True
            try:
                self._record.start = time.time()
                await self._receive(await session.client.call(self._request()))
            finally:
                self._leave()
        except asyncio.CancelledError:
            await self._cancelled()
        except Exception as error:
            await self._failed(error)

    def _leave(self) -> None:
        if self._admitted:
            self._admitted = False
            self._session.leave()

    async def _stop(self, reason: str) -> None:
        self._session.stop(reason)
        self._exchange.failed = True
        await self._exchange.fail(stopped(self._turn.dialect, reason), self._stop_event(reason))

    def _stop_event(self, reason: str) -> bytes:
        return stream_failure(self._turn.dialect, SessionStopped(reason))

    def _request(self) -> ModelRequest:
        turn, session = self._turn, self._session
        graph = session.graph
        body = turn.split.body if session.pins is None else session.pins.body(turn)
        if turn.previous:
            body = session.reader.replies.body(turn, body)
        return ModelRequest(
            dialect=turn.dialect,
            split=turn.split if body is turn.split.body else None,
            body=body,
            messages=lambda: turn.messages(graph),
            tools=turn.tools,
            model=turn.model,
            asked=turn.sampling if body is turn.split.body else None,
            sampling=session.overrides,
            stream=turn.stream,
            headers=forwarded(self._headers),
            deadline=session.deadline,
            rollout_id=session.rollout_id,
            history=lambda: token_history(graph, turn.parent, turn.tool_key),
        )

    # the answer

    async def _receive(self, reply: Reply) -> None:
        self._record.sampling_sent = reply.sampling_sent
        self._record.served_model = reply.served_model
        self._record.dropped = reply.dropped
        self._record.replayed = reply.replayed
        if reply.failed:
            self._tries(reply.failed)
        if reply.chunks is not None:
            await self._stream(reply, reply.chunks)
            return
        self._record.first_token = self._record.end = time.time()
        self._exchange.last_byte = self._exchange.started
        response = reply.response
        if response is None:
            response = self._read(reply.body or b"")
        answer = await self._commit(response, reply)
        if answer is None:
            return
        if answer is response and self._exchange.framed and not self._turn.stream and reply.body is not None:
            await self._exchange.reply(Whole(200, JSON, reply.body))
        else:
            await self._answer(answer)

    async def _answer(self, response: Response) -> None:
        """A whole answer in the form that the program asked for."""
        turn, exchange = self._turn, self._exchange
        if not exchange.framed:
            await exchange.reply(Whole(200, JSON, b""))
        elif turn.stream:
            await self._play(response)
        else:
            await exchange.reply(Whole(200, JSON, self._frame(response)))

    def _tries(self, errors: list[ModelError]) -> None:
        """The client's own tries that failed before this answer, each as a call of its own."""
        session, turn, record = self._session, self._turn, self._record
        for error in errors:
            told = error_info(error, stage="agent")
            tried = msgspec.structs.replace(
                record, error=told, status=error.status or 502, delivered=False, end=told.at, rewrites=[]
            )
            delta = session.graph.commit(tried, parent=turn.parent, new=turn.new, reply=None)
            session.store_later(delta)
            record.retry_of = tried.index

    def _read(self, body: bytes) -> Response:
        try:
            return self._turn.dialect.read_response(body)
        except ValueError as error:
            raise UpstreamMalformed(
                f"the answer cannot be read: {error}", status=200, body=body[:65536]
            ) from error

    def _frame(self, response: Response) -> bytes:
        turn = self._turn
        return turn.dialect.answer(shown(response), turn.split.fields, int(self._record.start))

    async def _play(self, response: Response) -> None:
        """A whole answer as the event stream that the program asked for."""
        turn = self._turn
        events = turn.dialect.answer_stream(shown(response), turn.split.fields, int(self._record.start))
        await self._exchange.end(b"".join(events))

    async def _stream(self, reply: Reply, chunks: AsyncIterator[bytes]) -> None:
        """Pass events on as they come, keep the last back until the call is stored."""
        exchange, record = self._exchange, self._record
        live = self._turn.stream and exchange.framed and not self._session.hooks.whole_turns
        turn = self._turn
        reader = reply.reader or turn.dialect.reader(usage=turn.dialect.wants_usage(turn.split.fields))
        kept: list[bytes] = []
        now = asyncio.get_running_loop().time
        failed: Exception | None = None
        try:
            async for chunk in chunks:
                exchange.last_byte = now()
                passed = reader.feed(chunk)
                if record.first_token is None and reader.started:
                    record.first_token = time.time()
                if passed:
                    if live:
                        await exchange.write(passed)
                    else:
                        kept.append(passed)
        except ModelError as error:
            failed = error
        finally:
            await _close(chunks)
        reader.close()
        record.end = time.time()
        if not reader.complete or reader.error is not None:
            await self._cut(reader, failed, reply.secrets())
            return
        response = self._finished(reader)
        answer = await self._commit(response, reply)
        if answer is None:
            return
        if answer is response and exchange.framed and self._turn.stream:
            await exchange.end(b"".join(kept) + reader.held)
        else:
            await self._answer(answer)

    def _finished(self, reader: StreamReader) -> Response:
        try:
            return reader.response()
        except ValueError as error:
            raise UpstreamMalformed(f"the stream cannot be put together: {error}", status=200) from error

    async def _cut(self, reader: StreamReader, failed: Exception | None, secrets: Iterable[str]) -> None:
        """A stream that broke off, or that ended with an error of the upstream's."""
        self._record.partial_text = reader.partial_text
        if reader.error is not None:
            text = struck(str(reader.error.get("message") or reader.error), secrets)
            held = struck(reader.held.decode("utf-8", "surrogateescape"), secrets)
            kind = ContextLengthError if reader.overflowed(self._turn.dialect) else UpstreamServerError
            await self._failed(
                kind(f"the upstream ended its stream with an error: {text}", status=200),
                held.encode("utf-8", "surrogateescape"),
            )
        else:
            text = "the upstream's stream ended before its last event"
            await self._failed(failed or UpstreamCut(text, status=200))

    # the record

    async def _commit(self, response: Response, reply: Reply) -> Response | None:
        """Record the answer and make it durable; returns what the program gets, None if a stop took its place."""
        session, record = self._session, self._record
        record.id = response.id
        record.served_model = record.served_model or response.model
        record.finish_reason = response.finish_reason
        record.usage = self._priced(response)
        record.delivered = self._exchange.watched()
        self._exchange.response = shown(response)
        durable = session.journal.append(session.rollout_id, self._add(response, reply))
        await asyncio.sleep(0)  # it commits before our next turn; a waiter would get one turn later still
        await durable
        session.succeeded()
        return await self._hooked(response) if session.hooks.whole_turns else response

    async def _hooked(self, response: Response) -> Response | None:
        """Show the recorded turn to the hooks."""
        session, hooks, dialect = self._session, self._session.hooks, self._turn.dialect
        hosted = response.hosted_results = dialect.hosted_results(response)
        if hooks.on_response:
            stop = await hooks.response(response, session.trace)
            if stop is not None:
                await self._stop(stop)
                return None
        if not hooks.edits_response:
            return response
        answer, edits = await hooks.answer(response, session.trace)
        if not edits:
            return response
        if answer.hosted_results != hosted:
            answer = dialect.replace_hosted(answer, answer.hosted_results)
        delta = session.graph.show(self._record.index, answer.message, rewrites_of("response", edits))
        await session.journal.append(session.rollout_id, delta)
        self._exchange.response = answer
        return answer

    def _priced(self, response: Response) -> Usage | None:
        usage, price = response.usage, self._session.client.price
        if usage is not None and usage.cost is None and price is not None:
            usage.cost = price.cost(usage)
        return usage

    def _add(self, response: Response | None = None, reply: Reply | None = None) -> Delta:
        """Put the call into the graph, once."""
        session, turn, record = self._session, self._turn, self._record
        self._committed = True
        delta = session.graph.commit(
            record,
            parent=turn.parent,
            new=turn.new,
            reply=None if response is None else response.message,
            tokens=None if reply is None else reply.tokens,
        )
        mark: object = record.prompt_node
        if session.pins is not None:
            session.pins.pin(turn, record.prompt_node)
            mark = session.pins.mark(turn, record.prompt_node)
        if mark is not None:
            turn.splitter.remember(turn.split, mark, turn.sizes)
        if response is not None:
            session.reader.note(turn, record.id, record.index)
        session.retries.note(turn.digest, record.index, failed=response is None)
        self._exchange.call = record.index
        self._leave()
        return delta

    # failures

    async def _failed(self, error: Exception, event: bytes = b"") -> None:
        """Record a failure, make it durable, and tell the program.

        Args:
            event: the upstream's own error event, if it sent one.
        """
        session, exchange, dialect = self._session, self._exchange, self._turn.dialect
        exchange.failed = True
        exchange.error = error
        whole = failure(dialect, error)
        if not self._committed:
            try:
                self._note(error, whole.status)
                await session.journal.append(session.rollout_id, self._add())
            except Exception as second:  # the graph or the journal refuses: the rollout cannot go on
                session.fail(second)
        session.failed(error)
        if isinstance(error, UpstreamCut) and exchange.pieces:
            exchange.abort()
        else:
            await exchange.fail(whole, event or stream_failure(dialect, error))

    def _note(self, error: BaseException, status: int) -> None:
        record = self._record
        record.error = error_info(error, stage="agent")
        record.status = status
        record.delivered = False
        record.end = record.end or time.time()

    async def _cancelled(self) -> None:
        """Ended from our side: by the caller, whose cancellation goes on, or by the session."""
        exchange = self._exchange
        exchange.failed = True
        why = exchange.why or "the caller was cancelled"
        error = CallCancelled(f"the model call was cancelled: {why}")
        if not self._committed:
            self._note(error, 499)
            self._session.store_later(self._add())
        if exchange.why is None:
            raise asyncio.CancelledError
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()
        exchange.error = error
        await exchange.fail(stopped(self._turn.dialect, why), self._stop_event(why))

    async def edit(self, pins: Pins) -> None:
        """Let hooks rewrite the new messages."""
        session, turn = self._session, self._turn
        turn.settle(session.graph)
        request = self.hook_request()
        first = len(request.messages) - len(turn.new)
        edits = await session.hooks.edit(request, first, session.trace)
        self._record.rewrites = pins.apply(turn, edits, first)

    def hook_request(self) -> Request:
        """The request as hooks see it."""
        turn = self._turn
        return Request(
            messages=turn.messages(self._session.graph),
            tools=turn.tools,
            model=turn.model,
            sampling=self._record.sampling_asked,
        )


async def _close(chunks: AsyncIterator[bytes]) -> None:
    close = getattr(chunks, "aclose", None)
    if close is not None:
        await close()
