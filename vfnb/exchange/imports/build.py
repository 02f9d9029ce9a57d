"""Traces from what other programs recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vfnb.errors import TraceError
from vfnb.exchange.imports.fields import BadField
from vfnb.trace import ErrorInfo, ModelCall, Span, Trace
from vfnb.trace.identity import Identity, identity
from vfnb.types import AssistantMessage, Message

if TYPE_CHECKING:
    from vfnb.trace.tokens import TokenTurn

__all__ = ["Episode", "Lost", "Recording", "Said", "checked", "ended", "said", "span"]

Said = tuple[Message, Identity]
"""A message with what it is matched by."""


class Lost(dict[str, int]):
    """Counts of what a run has no place for."""

    def add(self, what: str, count: int = 1) -> None:
        """Count it."""
        if count:
            self[what] = self.get(what, 0) + count


@dataclass
class Episode:
    """Traces that belong together."""

    id: str
    traces: list[Trace]
    group: str = ""
    env: str = ""
    info: dict[str, Any] = field(default_factory=dict)


def said(message: Message) -> Said:
    """The message with its identity."""
    return message, identity(message)


def checked(trace: Trace) -> Trace:
    """A trace whose numbers a store can keep.

    Raises:
        BadField: one has more than 64 bits.
    """
    counters = trace.dag.counters
    used = (
        counters.prompt_tokens,
        counters.completion_tokens,
        counters.cached_tokens,
        counters.reasoning_tokens,
    )
    for name, value in (
        ("task.idx", trace.task.idx),
        ("rollout", trace.rollout),
        *(("usage", one) for one in used),
    ):
        if not -(2**63) <= value < 2**63:
            raise BadField(name, f"is {value}, more than 64 bits")
    return trace


class Recording:
    """Fills a trace's graph from calls that bring their whole history, as a session would."""

    def __init__(self, trace: Trace) -> None:
        self.trace = trace
        self.graph = trace.dag

    def call(
        self,
        history: Sequence[Said],
        reply: AssistantMessage | None,
        call: ModelCall,
        *,
        tools: Sequence[Mapping[str, Any]] = (),
        tokens: TokenTurn | None = None,
        path: str = "",
    ) -> None:
        """One call.

        Raises:
            BadField: its tokens contradict each other or the history.
        """
        call.tools = self.graph.add_tools(tools)
        parent, known = self.graph.walk(-1, history)
        try:
            self.graph.commit(call, parent=parent, new=history[known:], reply=reply, tokens=tokens)
        except TraceError as error:
            raise BadField(path, str(error)) from error

    def rest(self, history: Sequence[Said], *, anywhere: bool = True) -> bool:
        """The history as it was at the end, if there was a call at all.

        Args:
            history: all of it.
            anywhere: also if it does not go on where a branch has ended.

        Returns:
            Whether it is in the graph now.
        """
        parent, known = self.graph.walk(-1, history)
        if known == len(history):
            return True
        if not self.graph.calls or not (anywhere or (known and not self.graph.nodes[parent].children)):
            return False
        self.graph.rest(parent, history[known:])
        return True


def ended(trace: Trace, *, stop: str | None = None, cancelled: bool = False, failed: bool = False) -> None:
    """Give a trace its end.

    Args:
        trace: with its errors.
        stop: the name of what stopped it.
        cancelled: it was broken off.
        failed: it ended in an error.
    """
    trace.ok = not (failed or cancelled)
    trace.stop_condition = None if failed or cancelled else stop
    if cancelled:
        trace.end_state = "cancelled"
    elif failed:
        trace.end_state = "error"
        if not trace.errors:
            trace.errors = [ErrorInfo(type="Unknown", boundary="import", message="no error is on record")]
    else:
        trace.end_state = "stopped" if stop else "completed"


def span(start: float, end: float) -> Span | None:
    """A stage's time; None if it is not known."""
    return Span(start=start, end=end) if start and end else None
