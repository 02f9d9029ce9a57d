"""`trace.view()`: the message graph beside the conversation."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from traitlets import Bool, Dict, Int, List, Unicode

from vfnb.lab.display import trace_bundle
from vfnb.lab.messages import full_text
from vfnb.lab.widgets.base import View, script, style
from vfnb.lab.widgets.details import detail
from vfnb.lab.widgets.outline import outline

if TYPE_CHECKING:
    from vfnb.trace import Trace

__all__ = ["TracePanel", "TraceView", "trace_view"]

FOLD_FROM = 120
"""A graph with more columns than this opens folded."""


class TracePanel(View):
    """The traits of a view that shows a trace; `show` puts one into it."""

    graph = Dict({}).tag(sync=True)
    """`outline` of the trace; empty while none is shown."""
    selected = Int(-1).tag(sync=True)
    """The chosen node; -1 for none."""
    leaf = Int(-1).tag(sync=True)
    """The last node of the branch that the conversation follows; -1 for the main one."""
    folded = Bool(False).tag(sync=True)
    """Whether the graph leaves out the inside of long chains."""
    tab = Unicode("facts").tag(sync=True)
    """What is shown of the chosen node: `facts`, `request`, `tokens` or `fork`."""
    query = Unicode("").tag(sync=True)
    """Text to search for in all messages, in any case."""
    hits: List[Any] = List([]).tag(sync=True)
    """Nodes that have it, in order."""

    def __init__(self, **kwargs: Any) -> None:
        self.trace: Trace | None = None
        self._texts: list[str] = []
        super().__init__(**kwargs)
        self.observe(self._search, "query")

    def show(self, trace: Trace) -> None:
        """Show this trace, or the same one as it stands now."""
        made = outline(trace)
        again = self.trace is not None and self.trace.id == trace.id
        with self.hold_sync():
            self.trace, self._texts = trace, []
            if not again:
                self.folded = made["columns"] > FOLD_FROM
                self.selected = self.leaf = -1
                self.query = ""
            self.graph = made

    def _search(self, change: Any) -> None:
        wanted = change["new"].strip().lower()
        if not wanted or self.trace is None:
            self.hits = []
            return
        _, nodes = self.trace.dag.snapshot()
        self._texts += [full_text(node.message).lower() for node in nodes[len(self._texts) :]]
        self.hits = [index for index, text in enumerate(self._texts) if wanted in text]

    def lookup(self, key: str) -> dict[str, Any]:
        """`TRACE:KIND:NUMBER`, e.g. the message of node 7."""
        trace, kind, number = key.split(":")
        if self.trace is None or self.trace.id != trace:
            raise KeyError(key)
        return detail(self.trace, kind, int(number))


class TraceView(TracePanel):
    """A trace to walk through. `selected`, `query` and the other traits may be set from Python too."""

    _esm = script("common", "panel", "trace")
    _css = style("common", "panel")

    def __init__(self, trace: Trace) -> None:
        super().__init__()
        self.show(trace)

    def refresh(self) -> None:
        """Take in what a running trace got since."""
        assert self.trace is not None
        self.show(self.trace)

    def twin(self) -> dict[str, str]:
        """As the trace displays itself."""
        assert self.trace is not None
        return trace_bundle(self.trace)

    def __repr__(self) -> str:
        return f"TraceView({self.trace!r})"


def trace_view(trace: Trace) -> TraceView:
    """The message graph beside the conversation, to click in."""
    return TraceView(trace)
