"""The replay: a program runs again on the replies that were recorded; from a call on, a model may answer."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol

from vfnb.clients.base import ModelClient, ModelRequest, Reply
from vfnb.clients.recorded import Difference, Recorded, box, chain, contrast, failure, moved
from vfnb.errors import ConfigError, ReplayDiverged
from vfnb.trace.trace import Trace
from vfnb.types import AssistantMessage, Messages, Response
from vfnb.utils.ids import digest, new_id

if TYPE_CHECKING:
    import pandas as pd

    from vfnb.trace.calls import ModelCall

__all__ = ["Replay"]


class _HasTraces(Protocol):
    @property
    def traces(self) -> Iterable[Trace]: ...


@dataclass(slots=True)
class _Playing:
    """How far one rollout is."""

    book: Recorded
    used: set[int] = field(default_factory=set)
    asked: int = 0
    live: int = 0
    """Calls that the model answered, not the record."""
    difference: Difference | None = None


class Replay(ModelClient):
    """Answers from recorded traces: the reply that was given to the same messages, in any dialect.

    Args:
        source: a trace, or a run (or list of traces), of which each rollout takes the one that began with its
            messages; several with one beginning are taken in turn.
        upto: how many calls of the trace are replayed; None for all. Needs a single trace.
        then: who answers afterwards, a model object; without it a request that the record does not have fails.

    Replies keep their exact tokens, which are not trained a second time, and cost nothing. Messages are compared
    as the trace graph compares them; reasoning, provider state and the offered tools do not count. A request that
    leaves the record before its end raises `ReplayDiverged`, and `differences` has the place.

    Raises:
        ConfigError: there is no trace with a call, or `upto` does not fit.
    """

    def __init__(
        self,
        source: Trace | _HasTraces | Iterable[Trace],
        *,
        upto: int | None = None,
        then: ModelClient | None = None,
    ) -> None:
        traces = _traces(source)
        if upto is not None and (len(traces) != 1 or not 0 <= upto <= len(traces[0].dag.calls)):
            raise ConfigError(
                f"upto={upto} needs a single trace with as many calls; "
                + (f"there are {len(traces)} traces" if len(traces) != 1 else
                   f"trace {traces[0].id[:8]} has {len(traces[0].dag.calls)}")
            )  # fmt: skip
        self._books = [Recorded(trace, upto) for trace in traces if trace.dag.calls]
        if not self._books:
            raise ConfigError("vf.Replay got no trace with a model call; give a run or a trace that has some")
        self._first: dict[bytes | None, list[Recorded]] = {}
        for book in self._books:
            self._first.setdefault(book.first, []).append(book)
        self._turn: dict[bytes | None, int] = {}
        self._playing: dict[str, _Playing] = {}
        self._then = then
        self._upto = upto
        self.name = _model(self._books)  # some programs tell the model its name
        self.price = then.price if then is not None else None

    def identity(self) -> dict[str, Any]:
        books = digest(*(book.id for book in self._books))
        after = self._then.identity() if self._then is not None else None
        model = self._then.name if self._then is not None else self.name
        return {"kind": "replay", "model": model, "traces": books, "upto": self._upto, "then": after}

    def check(self) -> None:
        if self._then is not None:
            self._then.check()

    async def probe(self, timeout: float = 5.0) -> None:
        if self._then is not None:
            await self._then.probe(timeout)

    async def count(self, request: ModelRequest) -> int | bytes:
        return await (super().count(request) if self._then is None else self._then.count(request))

    def asks(self) -> tuple[ModelClient, ...]:
        return () if self._then is None else (self._then,)

    def __repr__(self) -> str:
        after = f", then {self._then!r}" if self._then is not None else ""
        return f"Replay({len(self._books)} traces{after})"

    @property
    def differences(self) -> list[Difference]:
        """Where requests first left the record, one for each rollout that did."""
        return [play.difference for play in self._playing.values() if play.difference is not None]

    def report(self) -> pd.DataFrame:
        """A row per rollout: `rollout`, `trace` (the recorded one), `calls`, `replayed`, `live`, and `call`,
        `message`, `recorded` and `asked` of the first difference if it left the record."""
        import pandas as pd

        names = ["rollout", "trace", "calls", "replayed", "live", "call", "message", "recorded", "asked"]
        rows: list[tuple[Any, ...]] = []
        for rollout, play in self._playing.items():
            found = play.difference
            place = (found.call, found.message, found.recorded, found.asked) if found else (None,) * 4
            rows.append((rollout, play.book.id, play.asked, len(play.used), play.live, *place))
        frame = pd.DataFrame(rows, columns=names)
        whole = dict.fromkeys(("calls", "replayed", "live", "call", "message"), "Int64")
        return frame.astype(whole | {name: "string" for name in names if name not in whole})

    async def call(self, request: ModelRequest) -> Reply:
        messages = request.messages()
        digests = chain(messages)
        play = self._play(request.rollout_id, digests)
        number = play.asked
        play.asked += 1
        found = self._find(play, digests)
        if found is not None:
            play.used.add(found)
            return _reply(play.book, play.book.calls[found], messages, self.name)
        if self._then is not None and _ahead(play, digests):
            play.live += 1
            return await self._then.call(request)
        raise self._diverged(play, request.rollout_id, number, messages, digests)

    def _play(self, rollout: str, digests: list[bytes]) -> _Playing:
        if rollout not in self._playing:
            start = digests[-1] if digests else None
            books = self._first.get(start) or self._books
            taken = self._turn.get(start, 0)
            self._turn[start] = taken + 1
            self._playing[rollout] = _Playing(books[taken % len(books)])
        return self._playing[rollout]

    def _find(self, play: _Playing, digests: list[bytes]) -> int | None:
        """The first call of the record with this prompt that is not used up."""
        calls = play.book.asked(digests[-1]) if digests else []
        return next((index for index in calls if index < play.book.upto and index not in play.used), None)

    def _diverged(
        self, play: _Playing, rollout: str, number: int, messages: Messages, digests: list[bytes]
    ) -> ReplayDiverged:
        book = play.book
        index = book.known(digests)
        here = messages[index] if index < len(messages) else None
        recorded, asked = contrast(book.expected(digests, index), here)
        play.difference = play.difference or Difference(rollout, book.id, number, index, recorded, asked)
        if index == len(messages):
            why = "the record has no further reply to these messages"
        else:
            why = f"message {index} differs: recorded {recorded!r}, asked {asked!r}"
        return ReplayDiverged(
            f"call {number} is not in the record of trace {book.id[:8]}: {why}. The program, its tools or the task "
            "are not as they were",
            status=400,
        )


def _traces(source: Trace | _HasTraces | Iterable[Trace]) -> list[Trace]:
    if isinstance(source, Trace):
        return [source]
    return list(source if isinstance(source, Iterable) else source.traces)


def _ahead(play: _Playing, digests: list[bytes]) -> bool:
    """Whether a request that the record does not answer comes after what was to be replayed."""
    book = play.book
    todo = any(index not in play.used for index in book.waiting)
    later = bool(digests) and any(index >= book.upto for index in book.asked(digests[-1]))
    return not todo or later or play.live > 0


def _reply(book: Recorded, call: ModelCall, messages: Messages, name: str) -> Reply:
    error = failure(call)
    if error is not None:
        raise error
    assert call.reply_node is not None
    message = book.graph.nodes[call.reply_node].message
    assert isinstance(message, AssistantMessage)
    here = box(messages)
    told = moved(message, here) if here is not None else message
    finish: Any = call.finish_reason or "stop"
    response = Response(
        message=told.model_copy(), finish_reason=finish, usage=book.usage(call), id=f"replay-{new_id()}"
    )
    return Reply(
        response=response,
        tokens=book.tokens(call) if told is message else None,  # else it says other words
        sampling_sent=dict(call.sampling_sent),
        served_model=call.served_model or name,
        replayed=True,
    )


def _model(books: Iterable[Recorded]) -> str:
    """The name of the model that was asked."""
    names = (call.model or call.served_model for book in books for call in book.calls)
    return next(filter(None, names), "replay")
