"""Which traces of a run go into which part of an export, and what is said of the others."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from vfnb.exchange.credit import Advantage
from vfnb.exchange.notes import Note
from vfnb.exchange.records import NodeRow, faults, has_images, node_rows, task_record
from vfnb.exchange.sft import Unfit, sft_rows, unsampled_replies
from vfnb.exchange.training import SampleList, check_roles, collect, failed_episodes, unfit

if TYPE_CHECKING:
    from vfnb.trace import Sample, Trace

__all__ = ["Selection", "select_rows", "select_samples", "temperature_of"]


@dataclass
class Selection:
    """The traces that can be written at all, with their nodes, and the notes so far."""

    traces: list[Trace] = field(default_factory=list)
    rows: dict[str, list[NodeRow]] = field(default_factory=dict)
    notes: list[Note] = field(default_factory=list)
    read: int = 0
    agents: Sequence[str] | None = None
    broken: set[str] = field(default_factory=set)
    """Episodes of which a trace was refused: their other traces are not trained on."""
    advantages: dict[str, float] = field(default_factory=dict)
    """By trace, of those with samples."""
    _tasks: dict[tuple[str | None, str], str] = field(default_factory=dict)

    @classmethod
    def of(
        cls, read: Iterable[tuple[str, Trace | Exception]], agents: Sequence[str] | None = None
    ) -> Selection:
        """Check the records of all traces.

        Args:
            read: each trace under its id, or the error that reading it gave.
            agents: roles under training; all by default.

        Raises:
            ConfigError: a role that no trace has.
        """
        made = cls(agents=agents)
        for trace_id, outcome in read:
            made.read += 1
            if isinstance(outcome, Exception):
                made.refuse(trace_id, str(outcome))
            else:
                made.take(outcome)
        check_roles(made.traces, agents)
        return made

    def take(self, trace: Trace) -> None:
        """Check one trace and take it, unless it contradicts itself or the ones before."""
        if trace.end_state is None:
            self.note(trace.id, "all", "left out", "not ended")
            return
        if trace.id in self.rows:
            self.refuse(trace.id, "another trace has the same id")
            return
        rows = node_rows(trace)
        found = list(faults(rows))
        task = task_record(trace)["hash"]
        other = self._tasks.setdefault((trace.group_id, trace.task.key), task) != task
        if (found or other) and trace.episode_id:
            self.broken.add(trace.episode_id)
        for node, reason in found:
            self.refuse(trace.id, reason, node)
        if other:
            self.refuse(
                trace.id, "the task's data are not those of its group (another hash under the same key)"
            )
        elif not found:
            self.traces.append(trace)
            self.rows[trace.id] = rows

    def refuse(self, trace_id: str, reason: str, node: int | None = None) -> None:
        """Note a record that no part can have."""
        self.note(trace_id, "all", "refused", reason, node)

    def note(self, trace_id: str, part: Any, action: Any, reason: str, node: int | None = None) -> None:
        """Note anything."""
        self.notes.append(Note(trace_id, part, action, reason, node))


# Supervised rows


def select_rows(chosen: Selection, *, min_reward: float | None = None) -> list[dict[str, Any]]:
    """The rows for supervised fine-tuning, in the order of the traces."""
    failed = failed_episodes(chosen.traces) | chosen.broken
    rows: list[dict[str, Any]] = []
    for trace in chosen.traces:
        why = unfit(trace, failed, chosen.agents) or _below(trace, min_reward)
        if why is not None:
            chosen.note(trace.id, "sft", "left out", why)
            continue
        try:
            made = sft_rows(trace)
        except Unfit as error:
            chosen.note(trace.id, "sft", "refused", *error.args)
            continue
        if not made:
            chosen.note(trace.id, "sft", "left out", "no reply to train")
        elif (node := unsampled_replies(trace)) is not None:
            chosen.note(trace.id, "sft", "warning", "replies that the model did not sample train too", node)
        rows += made
    return rows


def _below(trace: Trace, least: float | None) -> str | None:
    if least is None:
        return None
    if trace.reward is None:
        return "no reward"
    return f"reward below {least:g}" if trace.reward < least else None


# Token samples


def select_samples(
    chosen: Selection,
    part: str,
    *,
    advantage: Advantage | None,
    temperature: float | None = None,
    images: bool = False,
    streams: bool = False,
) -> SampleList:
    """The token samples that can be trained on.

    For `rollouts` they have one temperature above 0, no images unless they can be carried (`images`), and an
    advantage other than 0 unless weight streams (`streams`) may train them in another way.
    """
    samples = collect(chosen.traces, advantage=advantage, agents=chosen.agents, failed=chosen.broken)
    chosen.advantages = {
        sample.trace_id: sample.advantage
        for sample in samples
        if sample.advantage is not None and math.isfinite(sample.advantage)
    }
    for out in samples.left_out:
        chosen.note(out.trace_id, part, "left out", out.reason)
    if part == "rollouts":
        samples = SampleList(_of_one_temperature(chosen, samples, temperature, images), samples.left_out)
        samples = SampleList(_with_a_signal(chosen, samples, streams), samples.left_out)
    return samples


def _of_one_temperature(
    chosen: Selection, samples: SampleList, given: float | None, images: bool
) -> list[Sample]:
    refused: dict[str, str] = {}
    common: float | None = None
    for sample in samples:
        found = temperature_of(sample, given)
        if isinstance(found, str):
            refused.setdefault(sample.trace_id, found)
        elif common is None:
            common = found
        elif found != common:
            refused.setdefault(sample.trace_id, f"temperature {found:g}, while others have {common:g}")
    for trace_id, reason in refused.items():
        chosen.note(trace_id, "rollouts", "refused", reason)
    for trace_id in {} if images else {sample.trace_id: None for sample in samples}:
        node = has_images(chosen.rows[trace_id])
        if node is not None and trace_id not in refused:
            refused[trace_id] = "images"
            chosen.note(trace_id, "rollouts", "refused", "its images are not carried without images=", node)
    return [sample for sample in samples if sample.trace_id not in refused]


def temperature_of(sample: Sample, given: float | None = None) -> float | str:
    """The temperature at which a sample's own tokens were sampled, or what is wrong with it.

    Args:
        sample: from `Trace.samples`.
        given: of calls that have none on record.
    """
    branch = sample.source
    nodes, calls = branch.graph.nodes, branch.graph.calls
    numbers = {nodes[index].call for index in branch.own if nodes[index].sampled and nodes[index].has_tokens}
    found = {calls[number].sampling_sent.get("temperature", given) for number in numbers}
    values = sorted(float(value) for value in found if value is not None)
    if not values or None in found:
        return "no temperature on record; give temperature="
    if len(values) > 1:
        return f"several temperatures: {', '.join(f'{value:g}' for value in values)}"
    if not 0 < values[0] < math.inf:
        return f"temperature {values[0]:g}; logits are divided by it"
    return values[0]


def _with_a_signal(chosen: Selection, samples: SampleList, streams: bool) -> list[Sample]:
    kept = []
    silent: Counter[str] = Counter()
    for sample in samples:
        if sample.advantage is None or not math.isfinite(sample.advantage):
            chosen.note(
                sample.trace_id, "rollouts", "refused", f"its advantage is {sample.advantage}", sample.branch
            )
        elif sample.advantage == 0.0 and not streams:
            silent[sample.trace_id] += 1
        else:
            kept.append(sample)
    for trace_id in silent:
        chosen.note(
            trace_id, "rollouts", "left out", "advantage 0: prime-rl drops it (equal rewards in its group)"
        )
    return kept
