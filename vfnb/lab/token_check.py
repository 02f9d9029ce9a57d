"""`trace.verify_tokens(engine)`: the stored tokens scored once more, beside the log-probabilities on record."""

from __future__ import annotations

import asyncio
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vfnb import loops
from vfnb.clients.engines.base import TokenEngine
from vfnb.clients.engines.vllm_request import is_plain
from vfnb.errors import ConfigError
from vfnb.lab.html import MAX_ROWS, Page, banner, esc, table
from vfnb.lab.text import columns, lines
from vfnb.lab.words import listing, number, one_line
from vfnb.trace import Branch, ModelCall, Trace

if TYPE_CHECKING:
    import pandas as pd

__all__ = ["CheckedCall", "TokenCheck", "verify_tokens"]

_HEAD = ["call", "tokens", "checked", "largest gap", "at", "token", "stored", "scored", "not checked because"]


@dataclass(frozen=True, slots=True)
class CheckedCall:
    """One call's sampled tokens. The last numbers are those of the token with the largest gap."""

    call: int
    branch: int
    """Id of the branch that owns its reply."""
    tokens: int
    """Sampled."""
    checked: int
    gap: float | None = None
    """|stored - scored|, in nats."""
    mean_gap: float | None = None
    position: int | None = None
    """In the branch."""
    token: str = ""
    stored: float | None = None
    scored: float | None = None
    reason: str = ""
    """Why tokens were left out."""


class TokenCheck:
    """What scoring again has found. Gaps are absolute differences of log-probabilities, in nats."""

    def __init__(self, calls: list[CheckedCall], engine: str) -> None:
        self.calls = calls
        self.engine = engine

    @property
    def worst(self) -> CheckedCall | None:
        """The call with the largest gap; None if nothing could be compared."""
        return max(
            (call for call in self.calls if call.gap is not None),
            key=lambda call: call.gap or 0,
            default=None,
        )

    @property
    def gap(self) -> float | None:
        """The largest gap."""
        return None if self.worst is None else self.worst.gap

    @property
    def checked(self) -> int:
        """How many sampled tokens were compared."""
        return sum(call.checked for call in self.calls)

    @property
    def tokens(self) -> int:
        """How many there are."""
        return sum(call.tokens for call in self.calls)

    def frame(self) -> pd.DataFrame:
        """A row per call, with the fields of `CheckedCall`."""
        import pandas as pd

        return pd.DataFrame(
            [asdict(call) for call in self.calls], columns=list(CheckedCall.__dataclass_fields__)
        )

    @property
    def _told(self) -> list[str]:
        if not self.tokens:
            return ["no sampled tokens: this model was called by text; a token client records them"]
        head = f"{self.checked:,} of {self.tokens:,} sampled tokens scored again by {self.engine}"
        worst = self.worst
        if worst is None:
            return [head]
        return [
            f"{head}: largest gap {number(worst.gap)} in call {worst.call} (position {worst.position}, "
            f"{worst.token!r}: stored {number(worst.stored)}, scored {number(worst.scored)})"
        ]

    @property
    def _left_out(self) -> list[str]:
        reasons: dict[str, int] = {}
        for call in self.calls:
            if call.reason:
                reasons[call.reason] = reasons.get(call.reason, 0) + call.tokens - call.checked
        return [f"{count:,} tokens not compared: {reason}" for reason, count in reasons.items()]

    def __repr__(self) -> str:
        told = columns(_HEAD[:-1], [_cells(call)[:-1] for call in self.calls], widest=24)
        return lines(self._told, self._left_out, told, rest="frame()")

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, str]:
        page = Page("token check")
        page.add(f"<div><b>{esc(listing(self._told, ' '))}</b></div>")
        page.add(banner(self._left_out))
        rows = [[esc(cell) for cell in _cells(call)] for call in self.calls[:MAX_ROWS]]
        page.add(table(_HEAD, rows, caption="gaps are differences of log-probabilities, in nats"))
        return {"text/plain": repr(self), "text/html": page.close("frame()")}


def _cells(call: CheckedCall) -> list[str]:
    at = "" if call.position is None else str(call.position)
    numbers = [number(call.gap), at, one_line(repr(call.token), 20) if call.token else ""]
    return [
        *(str(call.call), str(call.tokens), str(call.checked)),
        *numbers,
        *(number(call.stored), number(call.scored), call.reason),
    ]


def verify_tokens(trace: Trace, engine: TokenEngine | None = None) -> TokenCheck:
    """Score a trace's tokens again: one pass over each branch that owns sampled tokens.

    What was sampled at another temperature than 1 (or 0), or with top_p, penalties and the like, has
    log-probabilities of another distribution and is not compared; neither are branches with images.

    Args:
        engine: with the weights that sampled, e.g. `vf.VLLM(...)` or `vf.Embedded()`.

    Raises:
        ConfigError: there is no engine.
        ModelError: it failed.
    """
    if not isinstance(engine, TokenEngine):
        raise ConfigError("verify_tokens needs a token engine, e.g. trace.verify_tokens(vf.VLLM(...))")
    branches = [sample.source for sample in trace.samples(unused_compactions=True)]
    found = loops.engine().run(_all(trace, branches, engine))
    return TokenCheck(sorted(found, key=lambda call: call.call), repr(engine))


async def _all(trace: Trace, branches: list[Branch], engine: TokenEngine) -> list[CheckedCall]:
    await engine.start()
    found = await asyncio.gather(*(_branch(trace, branch, engine) for branch in branches))
    return [call for calls in found for call in calls]


async def _branch(trace: Trace, branch: Branch, engine: TokenEngine) -> list[CheckedCall]:
    spans = [(call, *_span(branch, call)) for call in branch.calls if call.reply_node is not None]
    spans = [(call, begin, end) for call, begin, end in spans if begin < end]
    if branch.media:
        return [_left(branch, call, begin, end, "the prompt has images") for call, begin, end in spans]
    if not any(is_plain(call.sampling_sent) for call, _, _ in spans):
        return [_left(branch, call, begin, end, _OTHER) for call, begin, end in spans]
    ids = branch.token_ids
    limit = engine.max_model_len
    scored = await engine.score(ids if limit is None else ids[: limit - 1])
    return [_compare(branch, call, begin, end, scored, engine) for call, begin, end in spans]


_OTHER = "sampled from another distribution than the model's own (temperature, top_p, penalties)"


def _span(branch: Branch, call: ModelCall) -> tuple[int, int]:
    """Where a call's completion stands in the branch."""
    assert call.reply_node is not None
    node = branch.graph.nodes[call.reply_node]
    return node.total - (node.end - node.start) + node.lead, node.total


def _left(branch: Branch, call: ModelCall, begin: int, end: int, reason: str) -> CheckedCall:
    return CheckedCall(call.index, branch.id, int(branch.mask[begin:end].sum()), 0, reason=reason)


def _compare(
    branch: Branch, call: ModelCall, begin: int, end: int, scored: NDArray[np.float32], engine: TokenEngine
) -> CheckedCall:
    if not is_plain(call.sampling_sent):
        return _left(branch, call, begin, end, _OTHER)
    own = begin + np.flatnonzero(branch.mask[begin:end])
    seen = own[own < len(scored)]
    reason = "" if len(seen) == len(own) else "the context has no room to score the last token"
    if not len(seen):
        return CheckedCall(call.index, branch.id, len(own), 0, reason=reason)
    stored = branch.logprobs[seen]
    gaps = np.abs(stored - scored[seen])
    worst = int(gaps.argmax())
    place = int(seen[worst])
    return CheckedCall(
        call=call.index,
        branch=branch.id,
        tokens=len(own),
        checked=len(seen),
        gap=float(gaps[worst]),
        mean_gap=float(gaps.mean()),
        position=place,
        token=engine.tokenizer().decode([int(branch.token_ids[place])]),
        stored=float(stored[worst]),
        scored=float(scored[place]),
        reason=reason,
    )
