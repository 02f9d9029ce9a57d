"""What user code must leave as it is on a trace, put back if it does not.

Hooks and harnesses are handed the trace itself. They may write `info`, `state`, tags, notes, labels and `dropped`;
the rest is the record, and a wrong value in it would cost more than the one rollout.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from pydantic import BaseModel

from vfnb.errors import VfnbError
from vfnb.trace.judging import JudgeCall
from vfnb.trace.trace import Span, Trace

__all__ = ["Fixed", "held"]

_DEPTH = 2  # a reward's value, an error's message, a key of the task's data
_PRIVATE = ("_dag", "_on_mark")
_SCALARS = frozenset({str, int, float, bool, type(None)})
_GONE = object()
_FREE: dict[str, tuple[type, ...]] = {
    "info": (dict,),
    "tags": (list,),
    "notes": (list,),
    "labels": (dict,),
    "dropped": (str, type(None)),
}
"""What hooks may set, and to what."""
_ADVICE = {
    "rewards": "return the number from the hook instead",
    "metrics": "return the number from a @vf.metric instead",
    "errors": "raise instead",
    "stop_condition": "use @vf.stop instead",
    "end_state": "raise, use @vf.stop, or set trace.dropped instead",
    "answer": "return it from the harness instead",
    "tags": "they are a list of texts: use trace.tag(...)",
    "notes": "they are a list of texts: use trace.note(...)",
    "labels": "they are named values: use trace.label(...)",
    "info": "it is a dict: set its keys",
    "dropped": "it is None or the reason as a text",
}


class Fixed:
    """The record as it stands: the fields, what is in them down to an error's message, the lists of the graph."""

    def __init__(self, trace: Trace) -> None:
        self._fields = trace.__dict__.copy()
        self._parts: list[tuple[str, Any, Any]] = []
        for name, value in self._fields.items():
            if type(value) not in _SCALARS and name != "info":
                self._take(name, value, _DEPTH)
        self._private = {name: trace.__pydantic_private__[name] for name in _PRIVATE}  # type: ignore[index]
        self._lists = None if trace.dag.folded else trace.dag.lists()

    def _take(self, name: str, value: Any, depth: int) -> None:
        kind = type(value)
        items = (
            value.__dict__
            if kind is not dict and kind is not list and isinstance(value, BaseModel)
            else value
        )
        if not isinstance(items, list | dict):
            return
        self._parts.append((name, items, items.copy()))
        if depth and items:
            for item in items.values() if isinstance(items, dict) else items:
                if type(item) not in _SCALARS:
                    self._take(name, item, depth - 1)

    def mend(self, trace: Trace) -> list[str]:
        """Put back what has been changed; returns the names of those fields."""
        fields = trace.__dict__
        wrong = {
            name
            for name, value in self._fields.items()
            if (now := fields.get(name, _GONE)) is not value and not _stands(name, now, value)
        }
        for name, items, saved in self._parts:
            if items != saved and not _grown(name, items, saved):
                wrong.add(name)
        if wrong:
            for name, items, saved in self._parts:
                if name in wrong:
                    items.clear()
                    (items.update if isinstance(items, dict) else items.extend)(saved)
            for name in wrong:
                fields[name] = self._fields[name]
        private: Any = trace.__pydantic_private__
        wrong.update(name for name, value in self._private.items() if private.get(name) is not value)
        private.update(self._private)
        return sorted(wrong) + self._mend_graph(trace)

    def _mend_graph(self, trace: Trace) -> list[str]:
        """The graph may have grown meanwhile, and no more than that."""
        found = []
        lists = trace.dag.lists() if self._lists is None else self._lists
        for name, kept, saved in lists:
            if getattr(trace.dag, name) is not kept or kept[: len(saved)] != saved:
                kept[: len(saved)] = saved
                setattr(trace.dag, name, kept)
                found.append(f"dag.{name}")
        return found


def _stands(name: str, now: Any, value: Any) -> bool:
    """Whether a field may have the other value that it has now."""
    if name not in _FREE:
        return type(now) is type(value) and type(now) in _SCALARS and bool(now == value)
    return isinstance(now, _FREE[name]) and (not isinstance(now, list) or _texts(now))


def _grown(name: str, items: Any, saved: Any) -> bool:
    """Whether a container that is not as it was may stand: tags, and the calls that a judge notes for its hook."""
    if name in ("tags", "notes"):
        return _texts(items)
    if name == "labels":
        return all(isinstance(key, str) and type(value) in _SCALARS for key, value in items.items())
    return (
        name == "judge_calls"
        and isinstance(items, list)
        and items[: len(saved)] == saved
        and all(isinstance(item, JudgeCall) for item in items[len(saved) :])
    )


def _texts(items: Any) -> bool:
    return all(isinstance(item, str) for item in items)


@contextmanager
def held(trace: Trace, label: str, error: type[VfnbError], stage: Span | None = None) -> Iterator[None]:
    """Around a piece of user code: the record is as before afterwards.

    Args:
        label: the code's name in the message.
        error: what is raised if the code ended well but changed the record.
        stage: the stage that the code belongs to, if it may last longer: others write on the trace then.
    """
    fixed = Fixed(trace)
    names: list[str] = []
    try:
        yield
    finally:
        if stage is None or stage.end is None:
            names = fixed.mend(trace)
    if names:
        advice = _ADVICE.get(names[0], "it is part of the record; put values of your own into trace.info")
        raise error(f"{label} changed trace.{names[0]}; {advice}")
