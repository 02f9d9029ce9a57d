"""Two conversations, or two configs, side by side: what is the same, changed, or on one side only."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

from vfnb._late import late
from vfnb.lab.aligning import common
from vfnb.lab.messages import full_text
from vfnb.trace.identity import Identity, identity
from vfnb.types import AssistantMessage, ToolCall, ToolMessage

if TYPE_CHECKING:
    import pandas as pd

    from vfnb.trace.graph import Node
    from vfnb.types import Message

__all__ = ["CallDiff", "Diff", "DiffKind", "DiffRow", "DiffSpan", "diff_configs", "diff_nodes", "spans_of"]

DiffKind = Literal["same", "changed", "left", "right"]

_WORD = re.compile(r"\n|[^\S\n]*\S+|[^\S\n]+")
WORDS = 1_500  # of a side that are compared word by word; longer texts line by line first


class DiffSpan(NamedTuple):
    """A piece of a text: on both sides (`same`), or on one (`left`, `right`)."""

    kind: Literal["same", "left", "right"]
    text: str


@dataclass(frozen=True, slots=True)
class CallDiff:
    """A tool call beside its counterpart: matched by name, in order."""

    kind: DiffKind
    left: ToolCall | None
    right: ToolCall | None
    arguments: tuple[str, ...] = ()
    """Of a changed call: the names of the arguments that differ; empty if the whole text does."""


@dataclass
class DiffRow:
    """One message beside its counterpart, or one key of two configs with its values."""

    kind: DiffKind
    left: Any = None
    """A message or a value, None where there is none."""
    right: Any = None
    key: str = ""
    """Key of a config, or of a task."""
    left_at: int | None = None
    """Position in the left conversation, from 0."""
    right_at: int | None = None
    left_node: int | None = None
    """Number of the message in its trace's graph."""
    right_node: int | None = None
    left_tokens: int | None = None
    """Tokens that the message adds, if known."""
    right_tokens: int | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    """Further columns of the frame."""

    @property
    def role(self) -> str:
        """The message's role, `""` of a value."""
        one = self.left if self.left is not None else self.right
        return str(getattr(one, "role", ""))

    @cached_property
    def spans(self) -> list[DiffSpan]:
        """The text of both sides in pieces: those that both have, and those of one side only."""
        return spans_of(_said(self.left), _said(self.right))

    @cached_property
    def calls(self) -> list[CallDiff]:
        """The tool calls of both sides."""
        return _calls(_asked(self.left), _asked(self.right))


class Diff:
    """Two things side by side.

    Attributes:
        kind: `traces`, `branches`, `runs` or `configs`.
        left, right: what the sides are called.
        rows: in order, those that are the same too.
        notes: what else differs, in words.
    """

    def __init__(
        self, kind: str, left: str, right: str, rows: Sequence[DiffRow], notes: Sequence[str] = ()
    ) -> None:
        self.kind = kind
        self.left = left
        self.right = right
        self.rows = list(rows)
        self.notes = tuple(notes)

    @property
    def first(self) -> DiffRow | None:
        """The first row that is not the same on both sides: where they diverge. None if nothing differs."""
        return next((row for row in self.rows if row.kind != "same"), None)

    @property
    def counts(self) -> dict[str, int]:
        """How many rows are `same`, `changed`, `left` and `right`."""
        found = Counter(row.kind for row in self.rows)
        return {kind: found[kind] for kind in ("same", "changed", "left", "right")}

    @property
    def tokens(self) -> tuple[int | None, int | None]:
        """Tokens of each side, None where they are not known."""
        return _sum(row.left_tokens for row in self.rows), _sum(row.right_tokens for row in self.rows)

    def frame(self) -> pd.DataFrame:
        """A row per row.

        Returns:
            Of messages `kind`, `role`, and of both sides position, node, tokens, text and number of tool calls; of
            configs `key`, `kind` and both values.
        """
        import pandas as pd

        from vfnb.lab.typed import typed

        if self.kind == "configs":
            names = {
                name: [getattr(row, name) for row in self.rows] for name in ("key", "kind", "left", "right")
            }
            return pd.DataFrame(names)
        columns: dict[str, Any] = {
            "kind": typed("text", [row.kind for row in self.rows]),
            "role": typed("text", [row.role for row in self.rows]),
        }
        for name in ("at", "node", "tokens"):
            for side in ("left", "right"):
                values = [getattr(row, f"{side}_{name}") for row in self.rows]
                columns[f"{side}_{name}"] = typed("int", values)
        for side in ("left", "right"):
            messages = [getattr(row, side) for row in self.rows]
            texts = [None if one is None else one.text for one in messages]
            columns[f"{side}_text"] = typed("text", texts)
            columns[f"{side}_calls"] = typed("int", [len(_asked(one)) for one in messages])
        return pd.DataFrame(columns)

    def view(self) -> Any:
        """Both sides as a widget, scrolled together."""
        return late("Diff.view", self)

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[DiffRow]:
        return iter(self.rows)

    def __repr__(self) -> str:
        counts = ", ".join(f"{n} {kind}" for kind, n in self.counts.items() if n)
        return f"Diff({self.kind}: {counts or 'nothing'})"

    def __str__(self) -> str:
        from vfnb.lab.diff_twin import diff_text

        return diff_text(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        from vfnb.lab.diff_twin import diff_bundle

        return diff_bundle(self)


def _sum(values: Iterable[int | None]) -> int | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


# Conversations


def diff_nodes(
    left: Sequence[Node], right: Sequence[Node], names: tuple[str, str], kind: str, notes: Sequence[str] = ()
) -> Diff:
    """Two lines of messages, aligned by their content: ids of tool calls do not count, nor does provider state."""
    sides = [[_turn(node.message) for node in nodes] for nodes in (left, right)]
    equal = common([turn.key for turn in sides[0]], [turn.key for turn in sides[1]])
    rows: list[DiffRow] = []
    last = (-1, -1)
    for i, j in [*equal, (len(left), len(right))]:
        rows += _between(left[last[0] + 1 : i], right[last[1] + 1 : j], last)
        if i < len(left) and j < len(right):
            a, b = sides[0][i].reasoning, sides[1][j].reasoning
            differs = a is not None and b is not None and a != b
            rows.append(_row("changed" if differs else "same", left[i], right[j], i, j))
        last = i, j
    return Diff(kind, *names, rows, notes)


def _turn(message: Message) -> Identity:
    """What a message is matched by: its identity without the ids that each run makes anew."""
    if isinstance(message, AssistantMessage) and message.tool_calls:
        calls = [call.model_copy(update={"id": ""}) for call in message.tool_calls]
        return identity(message.model_copy(update={"tool_calls": calls}))
    if isinstance(message, ToolMessage):
        return identity(message.model_copy(update={"tool_call_id": ""}))
    return identity(message)


def _between(left: Sequence[Node], right: Sequence[Node], last: tuple[int, int]) -> Iterator[DiffRow]:
    """Rows of messages without an equal one: paired by role and tools, so that a change is seen as one."""
    pairs = common(*[[_shape(node.message) for node in nodes] for nodes in (left, right)])
    at = (0, 0)
    for i, j in [*pairs, (len(left), len(right))]:
        for index in range(at[0], i):
            yield _row("left", left[index], None, last[0] + 1 + index, None)
        for index in range(at[1], j):
            yield _row("right", None, right[index], None, last[1] + 1 + index)
        if i < len(left) and j < len(right):
            yield _row("changed", left[i], right[j], last[0] + 1 + i, last[1] + 1 + j)
        at = i + 1, j + 1


def _shape(message: Message) -> tuple[str, ...]:
    return message.role, *(call.name for call in _asked(message))


def _row(kind: DiffKind, left: Node | None, right: Node | None, i: int | None, j: int | None) -> DiffRow:
    return DiffRow(
        kind,
        left.message if left is not None else None,
        right.message if right is not None else None,
        left_at=i,
        right_at=j,
        left_node=left.index if left is not None else None,
        right_node=right.index if right is not None else None,
        left_tokens=_tokens(left),
        right_tokens=_tokens(right),
    )


def _tokens(node: Node | None) -> int | None:
    return node.end - node.start if node is not None and node.has_tokens else None


def _said(message: Any) -> str:
    """The text of a message with its reasoning and other parts, without tool calls; a value as text."""
    if message is None:
        return ""
    if not hasattr(message, "role"):
        return str(message)
    if isinstance(message, AssistantMessage) and message.tool_calls:
        message = message.model_copy(update={"tool_calls": []})
    return full_text(message)


def _asked(message: Any) -> list[ToolCall]:
    return message.tool_calls if isinstance(message, AssistantMessage) else []


def _calls(left: Sequence[ToolCall], right: Sequence[ToolCall]) -> list[CallDiff]:
    pairs = common(
        [(call.namespace, call.name) for call in left], [(call.namespace, call.name) for call in right]
    )
    found: list[CallDiff] = []
    at = (0, 0)
    for i, j in [*pairs, (len(left), len(right))]:
        found += [CallDiff("left", call, None) for call in left[at[0] : i]]
        found += [CallDiff("right", None, call) for call in right[at[1] : j]]
        if i < len(left) and j < len(right):
            a, b = left[i].parsed, right[j].parsed
            names: tuple[str, ...] = ()
            if isinstance(a, dict) and isinstance(b, dict):
                names = tuple(
                    str(key) for key in {**a, **b} if key not in a or key not in b or a[key] != b[key]
                )
            found.append(CallDiff("same" if a == b else "changed", left[i], right[j], names))
        at = i + 1, j + 1
    return found


# Texts


def spans_of(left: str, right: str) -> list[DiffSpan]:
    """Two texts in pieces, by words; long ones by lines first. Joining `same` and `left` gives the left text."""
    if left == right:
        return [DiffSpan("same", left)] if left else []
    a, b = _WORD.findall(left), _WORD.findall(right)
    if len(a) <= WORDS and len(b) <= WORDS:
        return _joined(_pieces(a, b))
    lines = _pieces(left.splitlines(keepends=True), right.splitlines(keepends=True))
    found: list[DiffSpan] = []
    for ours, theirs, same in lines:
        if same:
            found.append(DiffSpan("same", ours))
            continue
        a, b = _WORD.findall(ours), _WORD.findall(theirs)
        fine = len(a) <= WORDS and len(b) <= WORDS
        found += _joined(_pieces(a, b) if fine else [(ours, theirs, False)])
    return found


def _pieces(a: Sequence[str], b: Sequence[str]) -> list[tuple[str, str, bool]]:
    """Left text, right text, and whether they are equal, piece by piece."""
    found: list[tuple[str, str, bool]] = []
    at = (0, 0)
    for i, j in [*common(a, b), (len(a), len(b))]:
        ours, theirs = "".join(a[at[0] : i]), "".join(b[at[1] : j])
        if ours or theirs:
            found.append((ours, theirs, False))
        if i < len(a) and j < len(b):
            if found and found[-1][2]:
                found[-1] = (found[-1][0] + a[i], found[-1][1] + b[j], True)
            else:
                found.append((a[i], b[j], True))
        at = i + 1, j + 1
    return found


def _joined(pieces: Iterable[tuple[str, str, bool]]) -> list[DiffSpan]:
    found: list[DiffSpan] = []
    for ours, theirs, same in pieces:
        if same:
            found.append(DiffSpan("same", ours))
            continue
        found += [DiffSpan("left", ours)] if ours else []
        found += [DiffSpan("right", theirs)] if theirs else []
    return found


# Configs


def diff_configs(
    left: Mapping[str, Any], right: Mapping[str, Any], names: tuple[str, str] = ("left", "right")
) -> Diff:
    """Two nested mappings, by dotted key."""
    a, b = dict(_flat(left)), dict(_flat(right))
    rows = []
    for key in sorted({**a, **b}):
        kind: DiffKind = "left" if key not in b else "right" if key not in a else "changed"
        if key in a and key in b and a[key] == b[key]:
            kind = "same"
        rows.append(DiffRow(kind, a.get(key), b.get(key), key=key))
    return Diff("configs", *names, rows)


def _flat(values: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, Any]]:
    for name, value in values.items():
        key = f"{path}.{name}" if path else str(name)
        if isinstance(value, Mapping) and value:
            yield from _flat(value, key)
        else:
            yield key, value
