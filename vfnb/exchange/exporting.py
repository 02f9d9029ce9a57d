"""Write a finished run in the form of another program, as a whole or not at all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from vfnb.errors import ConfigError, ExportRefused
from vfnb.exchange.arrow import pyarrow, sample_table, write_parquet
from vfnb.exchange.atif import lost_on_the_way, trajectory
from vfnb.exchange.episodes import episode_record
from vfnb.exchange.folder import MANIFEST, fresh_folder, listed
from vfnb.exchange.live import write_live
from vfnb.exchange.notes import ExportReport
from vfnb.exchange.options import ExportOptions
from vfnb.exchange.rollouts import pieces_of, write_batches, write_samples
from vfnb.exchange.selection import Selection, select_rows, select_samples
from vfnb.utils.ids import digest
from vfnb.utils.plain import encode_json

if TYPE_CHECKING:
    from vfnb.trace import Trace

__all__ = ["FORMATS", "export"]

TARGET = {"prime-rl": "0.8.0", "commit": "559b4477", "verifiers": "a60a606e"}
"""The versions whose formats these are."""
_ARROW = ("prime-rl", "sft", "arrow")


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
        dir: the folder to be made; behind a link, the folder that it leads to.
        options: see `ExportOptions`.
        source: the run's name, for the manifest.
        skip_invalid: leave out what contradicts itself or cannot be carried.
        overwrite: replace an earlier export in `dir`, which must have no files of other origin.

    Raises:
        ConfigError: a format, option or folder that cannot be.
        MissingExtra: pyarrow is not installed.
        ExportRefused: a trace contradicts itself or cannot be carried, or there is nothing to write.
    """
    options.check(format, list(FORMATS))
    if not isinstance(dir, str | Path) or not str(dir):
        raise ConfigError(f"dir={dir!r} is no path")
    if format in _ARROW:
        pyarrow()
    target = Path(dir).expanduser().resolve()
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
    if report.counts.get("micro_batches_per_rank") == 0:
        raise ExportRefused(
            "there is no micro-batch: no sample has anything to train, and a trainer would wait for ever. The "
            f"formats sft and verifiers write the rest of it\n{report!r}",
            report,
        )


def _manifest(work: Path, report: ExportReport, options: ExportOptions, source: str) -> None:
    from vfnb import __version__

    record = {
        "format": report.format,
        "vfnb": __version__,
        "target": TARGET,
        "run": source,
        "options": options.record(),
        "counts": report.counts,
        "files": listed(work),
        "notes": [asdict(note) for note in report.notes],
    }
    (work / MANIFEST).write_bytes(msgspec.json.format(encode_json(record), indent=2) + b"\n")


# Formats: each writes its files and returns its counts


def _prime_rl(chosen: Selection, work: Path, options: ExportOptions) -> dict[str, int]:
    samples = select_samples(
        chosen,
        "rollouts",
        advantage=options.advantage,
        temperature=options.temperature,
        images=options.images is not None,
        streams=options.weights is not None,
    )
    counts = _episodes(chosen, work / "episodes", options)
    counts |= _sft(chosen, work, options)
    pieces = pieces_of(chosen, samples, options)
    counts |= write_samples(pieces, work / "samples")
    counts |= write_batches(chosen, samples, pieces, work / "run", options)
    if chosen.traces:
        write_live(chosen.traces, work / "live", options)
    return counts


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
    for trace in chosen.traces:
        columns = trace.dag.columns
        if columns is not None and (columns.experts or columns.kept):
            reason = "expert routing and what the sampling filters had left are not carried as JSON"
            chosen.note(trace.id, "episodes", "warning", reason)
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


def _atif(chosen: Selection, work: Path, options: ExportOptions) -> dict[str, int]:
    counts = {"trajectories": 0, "steps": 0}
    for trace in chosen.traces:
        if not len(trace.nodes):
            chosen.note(trace.id, "trajectories", "left out", "no message")
            continue
        folder = work / (trace.id if re.fullmatch(r"[\w-]{1,80}", trace.id) else digest(trace.id))
        folder.mkdir()
        document = trajectory(trace, folder)
        (folder / "trajectory.json").write_bytes(msgspec.json.format(encode_json(document), indent=1) + b"\n")
        for reason in lost_on_the_way(trace):
            chosen.note(trace.id, "trajectories", "warning", reason)
        counts["trajectories"] += 1
        counts["steps"] += len(document["steps"])
    return counts


Format = Callable[[Selection, Path, ExportOptions], dict[str, Any]]
FORMATS: dict[str, Format] = {
    "prime-rl": _prime_rl,
    "sft": _sft,
    "arrow": _arrow,
    "verifiers": _verifiers,
    "atif": _atif,
}
"""`prime-rl`: episodes, sft, samples, micro-batches, live; `sft`: the rows alone; `arrow`: token samples as a
table; `verifiers`: the episodes alone, where its readers look for them; `atif`: a trajectory for each trace."""
