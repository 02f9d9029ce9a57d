"""A recorded trace as a book of answers: which reply was given to which request."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from hashlib import sha256
from typing import TYPE_CHECKING, Any, TypeVar, cast

from vfnb import errors
from vfnb.errors import ModelError
from vfnb.trace.identity import content, decode_content, identity
from vfnb.types import Message, Usage

if TYPE_CHECKING:
    from vfnb.trace.calls import ModelCall
    from vfnb.trace.tokens import TokenTurn
    from vfnb.trace.trace import Trace

__all__ = ["Difference", "Recorded", "box", "chain", "contrast", "failure", "moved", "shown"]

M = TypeVar("M", bound=Message)

_NOISE = re.compile(
    r"\b\d+(\.\d+)? ?(s|ms|secs?|seconds?|milliseconds?|minutes?)\b"  # how long something took
    r"|\b\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|[+-]\d\d:?\d\d)?)?\b"  # when
    r"|\b[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}\b"
    r"|\b((?i:id): ?)[0-9a-f]{6,}\b"
)
"""What two runs of one tool do not share: durations, dates, UUIDs, ids that are said to be some."""
_BOX = re.compile(rb"vfnb-box-\w+")
_ANY = "vfnb-box-any"
_SHOWN = 200  # characters of a message in a difference


@dataclass(slots=True, frozen=True)
class Difference:
    """Where a request left the record."""

    rollout: str
    """Id of the trace that asked."""
    trace: str
    """Id of the recorded trace."""
    call: int
    """The request's number within its rollout, from 0."""
    message: int
    """Index of the first message that differs."""
    recorded: str
    """That message in the record, around the first difference; `""` if the record ends before it."""
    asked: str
    """That message in the request, around the first difference; `""` if the request ends before it."""


def chain(messages: Sequence[Message]) -> list[bytes]:
    """A digest for each message with all before it; without reasoning and provider state, which programs drop, and
    with one name for all boxes."""
    digests: list[bytes] = []
    above = b""
    for message in messages:
        above = _link(above, message)
        digests.append(above)
    return digests


def _link(above: bytes, message: Message) -> bytes:
    raw = content(message)[1]
    plain = _BOX.sub(_ANY.encode(), raw)
    if message.role != "assistant":
        plain = _quiet(plain.decode("utf-8", "surrogateescape")).encode("utf-8", "surrogateescape")
    if plain != raw:
        message = decode_content(plain)
    return sha256(above + identity(message).key).digest()[:16]


def _quiet(text: str) -> str:
    return _NOISE.sub("~", text)


def box(messages: Iterable[Message]) -> str | None:
    """The name of the box that messages speak of: the folder in which a program ran has a random one."""
    for message in messages:
        found = _BOX.search(content(message)[1])
        if found:
            return found.group().decode()
    return None


def moved(message: M, to: str) -> M:
    """A message that speaks of another box."""
    raw = content(message)[1]
    if not _BOX.search(raw):
        return message
    return cast("M", decode_content(_BOX.sub(to.encode(), raw)))


class Recorded:
    """The calls of one trace by what they were asked.

    Args:
        trace: it must not grow any more.
        upto: only the first calls; None for all.
    """

    def __init__(self, trace: Trace, upto: int | None = None) -> None:
        self.id = trace.id
        self.graph = trace.dag
        calls, nodes = self.graph.snapshot()
        self.calls = calls
        self.upto = len(calls) if upto is None else upto
        digests: list[bytes] = []
        for node in nodes:
            digests.append(_link(digests[node.parent] if node.parent >= 0 else b"", node.message))
        self._nodes = {digest: index for index, digest in reversed(list(enumerate(digests)))}
        refused = _refused(calls)
        self._calls: dict[bytes, list[int]] = defaultdict(list)
        for call in calls:
            if call.prompt_node >= 0 and (call.delivered or call.index in refused):
                self._calls[digests[call.prompt_node]].append(call.index)

    @property
    def first(self) -> bytes | None:
        """The digest of the first call's prompt."""
        return next(iter(self._calls), None)

    def asked(self, prompt: bytes) -> list[int]:
        """The calls that had this prompt and whose end the program saw, in order."""
        return self._calls.get(prompt, [])

    @property
    def waiting(self) -> list[int]:
        """The calls that a replay has to give, in order."""
        return sorted(index for indices in self._calls.values() for index in indices if index < self.upto)

    def known(self, digests: Sequence[bytes]) -> int:
        """How many leading messages of a request are in the record."""
        count = 0
        while count < len(digests) and digests[count] in self._nodes:
            count += 1
        return count

    def expected(self, digests: Sequence[bytes], index: int) -> Message | None:
        """Message `index` of the record, in the history that shares all before it with a request."""
        parent = self._nodes[digests[index - 1]] if index else -1
        children = self.graph.children(parent)
        return self.graph.nodes[children[0]].message if children else None

    def usage(self, call: ModelCall) -> Usage | None:
        """What the call used; it costs nothing a second time."""
        return None if call.usage is None else call.usage.model_copy(update={"cost": 0.0})

    def tokens(self, call: ModelCall) -> TokenTurn | None:
        """The exact tokens of a recorded call, none of them to be trained again; None without tokens."""
        graph, columns = self.graph, self.graph.columns
        if columns is None or call.reply_node is None or not graph.nodes[call.reply_node].has_tokens:
            return None
        import numpy as np

        from vfnb.trace.tokens import TokenTurn

        path = [graph.nodes[index] for index in graph.path(call.reply_node)]
        reply = path[-1]
        pieces = [columns.ids[node.start : node.end] for node in path if node.has_tokens]
        ids = np.concatenate(pieces)
        sampled = reply.end - reply.start - reply.lead
        content = [columns.content(node.start, node.end) for node in path if node.has_tokens]
        return TokenTurn(
            prompt_ids=ids[: len(ids) - sampled],
            completion_ids=ids[len(ids) - sampled :],
            logprobs=columns.logprobs[reply.end - sampled : reply.end].copy(),
            spans=[(node.total - max(0, node.end - node.start), node.total) for node in path[:-1]],
            content_mask=np.concatenate(content),
            sampling_mask=np.zeros(sampled, np.bool_),
            routed_experts=None,
        )


def _refused(calls: Sequence[ModelCall]) -> set[int]:
    """The calls of whose failure the program heard: not those that the client tried again by itself."""
    again = {(call.retry_of, call.start) for call in calls if call.retry_of is not None}
    return {
        call.index
        for call in calls
        if call.error is not None and _kind(call) is not None and (call.index, call.start) not in again
    }


def _kind(call: ModelCall) -> type[ModelError] | None:
    kind = getattr(errors, call.error.type, None) if call.error is not None else None
    return kind if isinstance(kind, type) and issubclass(kind, ModelError) else None


def failure(call: ModelCall) -> ModelError | None:
    """The recorded failure as an exception; None if the call was answered or broken off by the program."""
    kind, told = _kind(call), call.error
    return None if kind is None or told is None else kind(told.message, status=told.status)


def contrast(recorded: Message | None, asked: Message | None) -> tuple[str, str]:
    """Two messages, each cut to what is around their first difference that counts."""
    texts = [_line(moved(message, _ANY)) if message is not None else "" for message in (recorded, asked)]
    bare = [_quiet(text) for text in texts]
    first = next((i for i, (a, b) in enumerate(zip(*bare, strict=False)) if a != b), min(map(len, bare)))
    begin = max(0, first - _SHOWN // 3)
    left, right = (("…" if begin else "") + _cut(text[begin:]) if text else "" for text in bare)
    return left, right


def shown(message: Message) -> str:
    """A message as one line: role, text and tool calls, cut."""
    return _cut(_line(message))


def _line(message: Message) -> str:
    calls: list[Any] = getattr(message, "tool_calls", None) or []
    said = [message.text, *(f"{call.name}({call.arguments})" for call in calls)]
    return f"{message.role}: " + " ".join(filter(None, said))


def _cut(text: str) -> str:
    return text if len(text) <= _SHOWN else text[: _SHOWN - 1] + "…"
