"""The samples of a whole run, with advantages, and what was left out."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from vfnb.errors import ConfigError
from vfnb.exchange.credit import METHODS, Advantage, advantages

if TYPE_CHECKING:
    import pandas as pd

    from vfnb.trace import Sample, Trace

__all__ = ["LeftOut", "SampleList", "check_roles", "collect", "failed_episodes", "unfit"]


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A trace that gives no samples, and why."""

    trace_id: str
    reason: str


class SampleList(list["Sample"]):
    """Samples of a run in the order of its traces: a plain list that also knows which traces are not in it."""

    def __init__(self, items: Iterable[Sample] = (), left_out: Iterable[LeftOut] = ()) -> None:
        super().__init__(items)
        self.left_out = list(left_out)

    def frame(self) -> pd.DataFrame:
        """A row per sample; `token_ids`, `mask` and `logprobs` hold arrays, as in `Sample`."""
        import pandas as pd

        return pd.DataFrame([_row(sample) for sample in self], columns=list(_COLUMNS))

    def __repr__(self) -> str:
        tokens = sum(len(sample) for sample in self)
        trained = sum(int(sample.mask.sum()) for sample in self)
        text = f"{len(self)} samples, {tokens} tokens, {trained} of them to train"
        if self.left_out:
            why = Counter(one.reason for one in self.left_out)
            text += "; left out: " + ", ".join(f"{count} traces ({reason})" for reason, count in why.items())
        return f"<{text}>"


_COLUMNS = (
    "trace_id",
    "episode_id",
    "group_id",
    "task_key",
    "branch",
    "cause",
    "reward",
    "advantage",
    "weight",
    "tokens",
    "trained",
    "token_ids",
    "mask",
    "logprobs",
)


def _row(sample: Sample) -> dict[str, Any]:
    counts = {"tokens": len(sample), "trained": int(sample.mask.sum())}
    return {name: counts[name] if name in counts else getattr(sample, name) for name in _COLUMNS}


def collect(
    traces: Iterable[Trace],
    *,
    advantage: Advantage | None = "grpo",
    agents: Collection[str] | None = None,
    unused_compactions: bool = False,
    failed: Collection[str] = (),
) -> SampleList:
    """The samples of some traces; advantages are relative to the group, else to the task.

    Left out: a trace that has not ended well, one whose episode has such a trace, one of a role that is not
    trained, one without tokens, and one without a reward if there are advantages.

    Args:
        traces: all of their groups, or the means are wrong.
        advantage: see `vfnb.exchange.credit`; None for none.
        agents: roles under training; all by default.
        unused_compactions: as in `Trace.samples`.
        failed: ids of episodes that miss a trace, besides those with one that has not ended well.

    Raises:
        ConfigError: an unknown kind of advantage, or a role that no trace has.
    """
    if advantage is not None and advantage not in METHODS:
        raise ConfigError(f"advantage={advantage!r} is unknown; give 'grpo', 'leave_one_out' or None")
    traces = list(traces)
    check_roles(traces, agents)
    failed = failed_episodes(traces) | set(failed)
    kept: list[tuple[Trace, list[Sample]]] = []
    out: list[LeftOut] = []
    for trace in traces:
        why = unfit(trace, failed, agents)
        if why is None and advantage is not None and trace.reward is None:
            why = "no reward"
        made = [] if why is not None else trace.samples(unused_compactions=unused_compactions)
        if why is None and not made:
            why = "no tokens to train"
        if why is None:
            kept.append((trace, made))
        else:
            out.append(LeftOut(trace.id, why))
    if advantage is not None:
        _assign(kept, advantage)
    return SampleList([sample for _, made in kept for sample in made], out)


def _assign(kept: list[tuple[Trace, list[Sample]]], method: Advantage) -> None:
    groups: dict[str, list[int]] = {}
    for place, (trace, _) in enumerate(kept):
        groups.setdefault(trace.group_id or trace.task.key, []).append(place)
    values = {group: [kept[place][0].reward or 0.0 for place in places] for group, places in groups.items()}
    for group, found in advantages(values, method).items():
        for place, value in zip(groups[group], found, strict=True):
            for sample in kept[place][1]:
                sample.advantage = value


def check_roles(traces: Iterable[Trace], agents: Collection[str] | None) -> None:
    """
    Raises:
        ConfigError: a role that no trace has.
    """
    roles = {trace.agent for trace in traces}
    unknown = sorted(set(agents or ()) - roles)
    if unknown and roles:
        raise ConfigError(f"no trace has the role {unknown[0]!r}; the run has {', '.join(sorted(roles))}")


def failed_episodes(traces: Iterable[Trace]) -> set[str]:
    """Episodes with a trace that did not end well."""
    return {trace.episode_id for trace in traces if trace.episode_id and not trace.ok}


def unfit(trace: Trace, failed: Collection[str], agents: Collection[str] | None) -> str | None:
    """Why a trace may not be trained on; None if it may."""
    if trace.dropped is not None:
        return "dropped"
    if not trace.ok:
        end = trace.end_state or "running"
        return f"not ok: {end}" + (f" ({trace.errors[-1].type})" if trace.errors else "")
    if trace.episode_id in failed:
        return "another trace of its episode is not ok"
    if agents is not None and trace.agent not in agents:
        return f"role {trace.agent!r} is not trained"
    return None
