"""A look at some rollouts: what was asked, what was answered, what it was worth."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from vfnb.lab.html import MAX_MESSAGE, MUTED, Page, badge, banner, details, esc, pre
from vfnb.lab.messages import full_text, preview
from vfnb.lab.rows import Row, trace_row
from vfnb.lab.text import lines
from vfnb.lab.words import clip, listing, number, one_line, plain

if TYPE_CHECKING:
    from vfnb.trace import Trace
    from vfnb.types import Messages

__all__ = ["Samples", "print_prompt_completions_sample", "sample"]

MAX_TRACES = 10
"""Rollouts shown per cell."""


def sample(traces: Sequence[Trace], n: int = 3, *, seed: int = 0) -> Samples:
    """`n` rollouts drawn without replacement, in their own order; all if there are fewer."""
    chosen = sorted(random.Random(seed).sample(range(len(traces)), min(n, len(traces))))
    return Samples([traces[index] for index in chosen], of=len(traces))


def print_prompt_completions_sample(run: Any, n: int = 3, *, seed: int = 0) -> None:
    """Print `n` sampled rollouts of a run, or of a list of traces: prompt, completion, rewards."""
    print(sample(getattr(run, "traces", run), n, seed=seed))


class Samples(Sequence["Trace"]):
    """Some rollouts of a run. Shows prompts, completions and rewards; indexes as the list of traces."""

    def __init__(self, traces: Sequence[Trace], *, of: int) -> None:
        self._traces = list(traces)
        self._of = of

    def __len__(self) -> int:
        return len(self._traces)

    def __getitem__(self, index: Any) -> Any:
        return self._traces[index]

    def __repr__(self) -> str:
        return f"Samples({len(self)} of {self._of} rollouts)"

    def __str__(self) -> str:
        """Prompts and completions in full, up to 2,000 characters a message."""
        return "\n\n".join([self._title(), *(_printed(trace) for trace in self._traces)])

    def _title(self) -> str:
        return f"{len(self)} of {self._of} rollouts"

    def _cut(self, shown: int) -> str:
        return f"{shown} of {len(self)} samples shown; print(samples) has all" if shown < len(self) else ""

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> dict[str, str]:
        page = Page("sample")
        page.add(f"<div><b>{esc(self._title())}</b></div>")
        for trace in self._traces[:MAX_TRACES]:
            page.add(_html(trace))
        cut = self._cut(min(len(self), MAX_TRACES))
        page.add(f'<div style="{MUTED}">{esc(cut)}</div>' if cut else "")
        return {"text/plain": self._text(), "text/html": page.close("print(samples)")}

    def _text(self) -> str:
        told = [line for trace in self._traces[:6] for line in _short(trace)]
        return lines([self._title()], told, [self._cut(min(len(self), 6))])


def _worth(row: Row) -> str:
    if row.outcome == "error":
        return f"error {row.error} at {row.boundary}: {one_line(row.message, 200)}"
    if row.outcome != "scored":
        return row.end_state or "unfinished"
    each = [f"{one_line(name, 40)} {number(value)}" for name, value in list(row.rewards.items())[:10]]
    return f"reward {number(row.reward)}" + (f" ({', '.join(each)})" if each else "")


def _title_of(row: Row) -> str:
    return listing([f"{one_line(row.name or row.task, 60)}", f"rollout {row.rollout}"])


def _split(trace: Trace) -> tuple[Messages, Messages]:
    """The messages of the main branch before the first sampled one, and the rest."""
    main = trace.main
    if main is None:
        return [], []
    nodes = [trace.dag.nodes[index] for index in main.path]
    first = next((place for place, node in enumerate(nodes) if node.sampled), len(nodes))
    return [node.message for node in nodes[:first]], [node.message for node in nodes[first:]]


def _short(trace: Trace) -> list[str]:
    row = trace_row(trace)
    prompt, completion = _split(trace)
    last = preview(completion[-1], 90) if completion else "none"
    more = f" (last of {len(completion)} messages)" if len(completion) > 1 else ""
    return [
        f"[{_title_of(row)}] {_worth(row)}",
        f"  prompt: {preview(prompt[-1], 90) if prompt else 'none'}",
        f"  completion{more}: {last}",
    ]


def _full(messages: Messages) -> str:
    told = [f"{message.role}: {clip(full_text(message), MAX_MESSAGE)}" for message in messages[:50]]
    if len(messages) > 50:
        told.append(f"… 50 of {len(messages)} messages shown; trace.messages has all")
    return "\n".join(told)


def _printed(trace: Trace) -> str:
    row = trace_row(trace)
    prompt, completion = _split(trace)
    body = f"--- prompt\n{_full(prompt)}\n--- completion\n{_full(completion)}"
    return plain(f"=== {_title_of(row)}: {_worth(row)}\n{body}")


def _html(trace: Trace) -> str:
    row = trace_row(trace)
    prompt, completion = _split(trace)
    head = f"<b>{esc(_title_of(row))}</b>"
    if row.outcome == "error":
        head += banner([_worth(row)])
    else:
        head += f" {badge(_worth(row), 'good' if row.outcome == 'scored' else 'warn')}"
    asked = details("prompt", pre(clip(_full(prompt), 3 * MAX_MESSAGE)))
    given = details("completion", pre(clip(_full(completion), 3 * MAX_MESSAGE)), opened=True)
    return f"<div>{head}{asked}{given}</div>"
