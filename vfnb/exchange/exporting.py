"""Write a finished run in the form of another program, as a whole or not at all."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from vfnb.errors import ConfigError, ExportRefused
from vfnb.exchange.arrow import pyarrow, sample_table, write_parquet
from vfnb.exchange.credit import METHODS, Advantage
from vfnb.exchange.episodes import episode_record
from vfnb.exchange.folder import MANIFEST, fresh_folder
from vfnb.exchange.notes import ExportReport
from vfnb.exchange.packing import Piece, pack, piece
from vfnb.exchange.selection import Selection, select_rows, select_samples, temperature_of
from vfnb.exchange.wire import encode_batches
from vfnb.utils.plain import encode_json

if TYPE_CHECKING:
    from vfnb.exchange.training import SampleList
    from vfnb.trace import Trace

__all__ = ["FORMATS", "ExportOptions", "export"]

TARGET = {"prime-rl": "0.8.0", "commit": "559b4477", "verifiers": "a60a606e"}
"""The versions whose formats these are."""


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """What may be chosen; each format takes what concerns it."""

    env: str = ""
    """Name of the environment: the `name` of the source in prime-rl's configuration."""
    advantage: Advantage | None = "grpo"
    """As in `run.samples`; micro-batches need one."""
    agents: Sequence[str] | None = None
    """Roles under training; all by default."""
    seq_len: int = 8192
    """Tokens of a micro-batch. Longer samples are cut at the tail."""
    ranks: int = 1
    """Data-parallel size of the trainer."""
    pad_to: int = 1
    """Context-parallel size of the trainer."""
    step: int = 1
    """The training step that the micro-batches are for."""
    temperature: float | None = None
    """Of calls that have none on record."""
    min_reward: float | None = None
    """Rows for supervised fine-tuning only of traces with at least this reward."""

    def check(self, format: str) -> None:
        """
        Raises:
            ConfigError: values that cannot be.
        """
        if format not in FORMATS:
            raise ConfigError(f"no export format {format!r}; there are {', '.join(FORMATS)}")
        if format != "prime-rl":
            return
        if self.env.strip() in ("", "all", "agg"):
            raise ConfigError(f"env={self.env!r} is no environment name in prime-rl; give its source's name")
        if self.advantage not in METHODS:
            raise ConfigError(f"advantage={self.advantage!r}: prime-rl needs one of {', '.join(METHODS)}")
        if self.step < 1:
            raise ConfigError(f"step={self.step} cannot be; steps count from 1")
        pack([], seq_len=self.seq_len, ranks=self.ranks, pad_to=self.pad_to)


def export(
    traces: Iterable[tuple[str, Trace | Exception]],
    format: str,
    dir: str | Path,
    options: ExportOptions,
    *,
    source: str = "",
    skip_invalid: bool = False,
    overwrite: bool = False,
) -> ExportReport:
    """Write traces into a new folder.

    Args:
        traces: each under its id, or the error that reading it gave.
        format: one of `FORMATS`.
        dir: the folder to be made.
        options: see `ExportOptions`.
        source: the run's name, for the manifest.
        skip_invalid: leave out what contradicts itself or cannot be carried.
        overwrite: replace an earlier export in `dir`.

    Raises:
        ConfigError: a format, option or folder that cannot be.
        MissingExtra: pyarrow is not installed.
        ExportRefused: a trace contradicts itself or cannot be carried, or there is nothing to write.
    """
    options.check(format)
    pyarrow()
    target = Path(dir).expanduser().absolute()
    with fresh_folder(target, overwrite=overwrite) as work:
        chosen = Selection.of(traces, options.agents)
        counts = {"traces": chosen.read} | FORMATS[format](chosen, work, options)
        report = ExportReport(target, format, counts, chosen.notes)
        _judge(report, skip_invalid)
        _manifest(work, report, options, source)
    return report


def _judge(report: ExportReport, skip_invalid: bool) -> None:
    if report.refused and not skip_invalid:
        first = report.refused[0]
        place = "" if first.node is None else f", node {first.node}"
        raise ExportRefused(
            f"{len(report.refused)} records cannot be exported, the first is trace {first.trace_id}{place} "
            f"({first.part}): {first.reason}. skip_invalid=True (--skip-invalid) writes the others; "
            "the error's `report` lists all",
            report,
        )
    if not any(number for name, number in report.counts.items() if name != "traces"):
        raise ExportRefused(f"there is nothing to write:\n{report!r}", report)


def _manifest(work: Path, report: ExportReport, options: ExportOptions, source: str) -> None:
    from vfnb import __version__

    record = {
        "format": report.format,
        "vfnb": __version__,
        "target": TARGET,
        "run": source,
        "options": asdict(options),
        "counts": report.counts,
        "notes": [asdict(note) for note in report.notes],
    }
    (work / MANIFEST).write_bytes(msgspec.json.format(msgspec.json.encode(record), indent=2) + b"\n")


# Formats: each writes its files and returns its counts


def _prime_rl(chosen: Selection, work: Path, options: ExportOptions) -> dict[str, int]:
    samples = select_samples(chosen, "rollouts", advantage=options.advantage, temperature=options.temperature)
    counts = _episodes(chosen, work / "episodes", options)
    counts |= _sft(chosen, work, options)
    return counts | _rollouts(chosen, work, options, samples)


def _episodes(chosen: Selection, folder: Path, options: ExportOptions) -> dict[str, int]:
    episodes: dict[str, list[Trace]] = {}
    for trace in chosen.traces:
        episodes.setdefault(trace.episode_id or trace.id, []).append(trace)
    folder.mkdir(exist_ok=True)
    with (folder / "traces.jsonl").open("wb") as file:
        for episode, traces in episodes.items():
            record = episode_record(
                episode,
                [(trace, chosen.rows[trace.id]) for trace in traces],
                env=options.env,
                advantages=chosen.advantages,
                agents=options.agents,
                whole=episode not in chosen.broken,
            )
            file.write(encode_json(record) + b"\n")
    return {"episodes": len(episodes), "episode_traces": len(chosen.traces)}


def _sft(chosen: Selection, work: Path, options: ExportOptions) -> dict[str, int]:
    rows = select_rows(chosen, min_reward=options.min_reward)
    if rows:
        for name in ("sft", "sft_jsonl"):  # apart: a folder of both would load every row twice
            (work / name).mkdir()
        write_parquet(rows, work / "sft" / "train.parquet")
        lines = [encode_json({key: value for key, value in row.items() if value is not None}) for row in rows]
        (work / "sft_jsonl" / "train.jsonl").write_bytes(b"\n".join(lines) + b"\n")
    return {"sft_rows": len(rows)}


def _rollouts(chosen: Selection, work: Path, options: ExportOptions, samples: SampleList) -> dict[str, int]:
    pieces: list[Piece] = []
    for sample in samples:
        temperature = temperature_of(sample, options.temperature)
        assert isinstance(temperature, float)  # the others were refused
        made = piece(sample, seq_len=options.seq_len, temperature=temperature, env=options.env)
        if not any(made.mask):
            reason = f"nothing to train within {options.seq_len} tokens"
            chosen.note(sample.trace_id, "rollouts", "left out", reason, sample.branch)
            continue
        if len(made.ids) < len(sample):
            reason = f"cut to {options.seq_len} of {len(sample)} tokens"
            chosen.note(sample.trace_id, "rollouts", "warning", reason, sample.branch)
        pieces.append(made)
    dealt = pack(pieces, seq_len=options.seq_len, ranks=options.ranks, pad_to=options.pad_to)
    if dealt:
        folder = work / "run" / "rollouts" / f"step_{options.step}"
        folder.mkdir(parents=True)
        for rank, batches in enumerate(dealt):
            (folder / f"rank_{rank}.bin").write_bytes(encode_batches(batches))
    trained = sum(sum(one.mask) for one in pieces)
    return {
        "rollout_samples": len(pieces),
        "rollout_tokens_to_train": trained,
        "micro_batches_per_rank": len(dealt[0]) if dealt else 0,
    }


def _arrow(chosen: Selection, work: Path, options: ExportOptions) -> dict[str, int]:
    samples = select_samples(chosen, "samples", advantage=options.advantage)
    if samples:
        pa = pyarrow()
        table = sample_table(samples)
        with (
            pa.OSFile(str(work / "samples.arrow"), "wb") as file,
            pa.ipc.new_file(file, table.schema) as sink,
        ):
            sink.write_table(table)
    return {"samples": len(samples)}


def _verifiers(chosen: Selection, work: Path, options: ExportOptions) -> dict[str, int]:
    return _episodes(chosen, work, options)


FORMATS: dict[str, Callable[[Selection, Path, ExportOptions], dict[str, int]]] = {
    "prime-rl": _prime_rl,
    "sft": _sft,
    "arrow": _arrow,
    "verifiers": _verifiers,
}
"""`prime-rl`: episodes, sft, micro-batches; `sft`: the rows alone; `arrow`: token samples as a table; `verifiers`:
the episodes alone, where its readers look for them."""
