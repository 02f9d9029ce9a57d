"""The traces of a run as a sequence that reads from disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, overload

from vfnb.errors import StoreError
from vfnb.store import RunReader
from vfnb.trace import Trace

__all__ = ["TraceList"]

Mark = Callable[[str, str, str], None]


class TraceList(Sequence[Trace]):
    """Each trace is read when it is looked at. Order: task, then sample.

    Args:
        reader: the run.
        mark: stores a tag, a note or a label, `mark(trace_id, kind, text)`.
        tokenizer: gives the model's tokenizer, if it is known.
        version: whose scores the traces have; each one's newest by default.
    """

    def __init__(
        self,
        reader: RunReader,
        mark: Mark,
        tokenizer: Callable[[], Any] | None = None,
        version: int | None = None,
    ) -> None:
        self._reader = reader
        self._mark = mark
        self._tokenizer = tokenizer
        self._version = version
        heads = reader.heads("superseded = 0")
        self._ids = [h.id for h in sorted(heads, key=lambda h: (h.task_idx, h.task_key, h.rollout, h.num))]

    def __len__(self) -> int:
        return len(self._ids)

    @overload
    def __getitem__(self, index: int) -> Trace: ...
    @overload
    def __getitem__(self, index: slice) -> list[Trace]: ...
    def __getitem__(self, index: int | slice) -> Trace | list[Trace]:
        if isinstance(index, slice):
            return [
                self._bound(trace)
                for trace in self._reader.load_traces(self._ids[index], version=self._version)
            ]
        return self._load(self._ids[index])

    def __iter__(self) -> Iterator[Trace]:
        return map(self._load, self._ids)

    def __call__(self, trace_id: str) -> Trace:
        """The trace with this id, or the only one whose id starts so.

        Raises:
            StoreError: there is none, or more than one.
        """
        found = [known for known in self._ids if known.startswith(trace_id)]
        if len(found) != 1:
            what = "no trace" if not found else f"{len(found)} traces"
            hint = "; a condition goes into run.traces.where(...)" if " " in trace_id else ""
            raise StoreError(f"{what} of {self._reader.dir} with an id like {trace_id!r}{hint}")
        return self._load(found[0])

    def where(self, condition: str) -> list[Trace]:
        """The traces that a condition fits: SQL as in `"right = 1 AND turns > 3"`.

        Its columns are those of `frame("traces")`, labels too, and every reward and metric.

        Raises:
            ConfigError: it is no such condition.
        """
        from vfnb.lab.frames import filtered, frame, rewards

        table = frame(self._reader, "traces", version=self._version).set_index("trace", drop=False)
        signals = rewards(self._reader, self._version)
        table = table.join(signals.drop(columns=[name for name in signals if name in table]))
        chosen = set(filtered(table, condition)["trace"])
        return [self._load(known) for known in self._ids if known in chosen]

    def _load(self, trace_id: str) -> Trace:
        return self._bound(self._reader.load_trace(trace_id, version=self._version))

    def _bound(self, trace: Trace) -> Trace:
        trace.on_mark(partial(self._mark, trace.id))
        trace.dag.tokenizer = self._tokenizer
        return trace

    def __repr__(self) -> str:
        return f"<{len(self)} traces of {self._reader.dir}>"
