"""An import: foreign records become the folder of a run, once for each content, as a whole or not at all."""

from __future__ import annotations

import asyncio
import concurrent.futures
import hashlib
import re
import shutil
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

from vfnb.errors import ConfigError, ImportRefused
from vfnb.exchange.imports.build import Episode, Lost
from vfnb.exchange.imports.finding import Found, find
from vfnb.exchange.imports.report import META, Fault, ImportReport
from vfnb.store import CONFIG_NAME, EpisodeRow, RunReader, RunStore, TaskRow, TraceRow, is_run
from vfnb.trace import Span, Trace
from vfnb.utils.cache import cache_root
from vfnb.utils.ids import digest
from vfnb.utils.plain import encode_json, plain

__all__ = ["import_run"]

VERSION = "1"
"""Of the conversion: another one makes the folder anew."""

Items = Iterator[Episode | Fault]


def import_run(path: Path, into: Path | None = None) -> Path:
    """The folder of a run with what `path` holds.

    Args:
        path: a file or folder of another program.
        into: the folder to be made; in the cache by default, named by the content, so that the same files are
            converted once.

    Raises:
        ImportRefused: nothing is there that can be imported, or no record of it can be read.
        ConfigError: `into` exists and is not an import of the same files.
    """
    found = find(path)
    mark = _digest(found)
    if into is None:
        target = cache_root() / "imported" / mark / _plain_name(found.root)
        if is_run(target):
            return target
    else:
        target = into.expanduser().absolute()
        if target.exists() and (target.is_file() or any(target.iterdir())):
            return _same(target, mark)
    _convert(found, mark, target)
    return target


def _same(target: Path, mark: str) -> Path:
    if is_run(target):
        with RunReader(target) as reader:
            record = reader.meta().get(META)
        if isinstance(record, dict) and record.get("digest") == mark:
            return target
    raise ConfigError(f"{target} exists and is no import of these files; give another into=")


def _plain_name(root: Path) -> str:
    stem = root.stem if root.is_file() else root.resolve().name
    return re.sub(r"[^\w.-]+", "-", stem).strip("-.")[:80] or "run"


def _digest(found: Found) -> str:
    state = hashlib.blake2b(f"{VERSION} {found.kind}".encode(), digest_size=16)
    for file in found.files:
        with file.open("rb") as opened:
            content = hashlib.file_digest(opened, "blake2b").digest()
        state.update(found.name(file).encode("utf-8", "surrogateescape") + b"\0" + content)
    return state.hexdigest()


def _convert(found: Found, mark: str, target: Path) -> None:
    target.parent.mkdir(parents=True, exist_ok=True)
    work = target.parent / f".{target.name}.{uuid4().hex[:8]}.tmp"
    stop = threading.Event()
    try:
        with concurrent.futures.ThreadPoolExecutor(
            1, "vfnb-import"
        ) as pool:  # a loop of its own, whoever calls
            try:
                report = pool.submit(lambda: asyncio.run(_write(found, mark, work, stop))).result()
            except BaseException:
                stop.set()
                raise
        if not report.traces:
            first = f", the first: {report.faults[0]}" if report.faults else ""
            raise ImportRefused(
                f"{found.root} has no record that can be read ({len(report.faults)} are damaged{first})",
                report,
            )
        if target.is_dir() and not any(target.iterdir()):
            target.rmdir()
        if not is_run(target):  # another process may have been first
            work.rename(target)
    finally:
        shutil.rmtree(work, ignore_errors=True)


async def _write(found: Found, mark: str, work: Path, stop: threading.Event) -> ImportReport:
    lost = Lost()
    read, about = _reader(found, lost)
    report = ImportReport(found.kind, str(found.root.absolute()), mark)
    seen: set[str] = set()
    store = RunStore.create_or_open(work)
    try:
        for item in read:
            if stop.is_set():
                raise ImportRefused("the import was broken off")
            if isinstance(item, Fault):
                report.faults.append(item)
                continue
            report.traces += len(item.traces)
            await _put(store, item, seen)
        report.lost = dict(lost)
        config = _config(found, about, report)
        head = {"taskset": about["taskset"], "harness": about["harness"], "model": about["model"]}
        await store.set_meta(
            state="finished", planned=report.traces, tasks=len(seen), **head, **{META: report.record()}
        )
        (work / CONFIG_NAME).write_text(config, encoding="utf-8", errors="backslashreplace")
    finally:
        store.close()
    return report


def _reader(found: Found, lost: Lost) -> tuple[Items, dict[str, Any]]:
    """What reads it, and what it says of itself: `taskset`, `harness`, `model`, `rollouts` and more."""
    from vfnb.exchange.imports import about, atif, harbor, inspect_log, verifiers

    file = found.files[0]
    match found.kind:
        case "verifiers":
            return verifiers.read_lines(file, found.name(file), lost), about.of_verifiers(found)
        case "atif":
            return atif.read_documents(found, lost), about.of_atif(found)
        case "harbor":
            return harbor.read_trials(found, lost), about.of_harbor(found)
        case "inspect":
            return inspect_log.read_log(file, found.name(file), lost), about.of_inspect(file)


def _config(found: Found, about: dict[str, Any], report: ImportReport) -> str:
    import tomli_w

    tables: dict[str, Any] = {
        "rollouts": about.get("rollouts", 1),
        "taskset": {"id": about["taskset"]},
        "harness": {"id": about["harness"]},
        "model": {"name": about["model"]},
        "imported": {
            "format": report.format,
            "source": report.source,
            "digest": report.digest,
            "not_read": len(report.faults),
            "not_carried": sorted(report.lost),
        },
    }
    return "# Imported: it can be read and scored again, not gone on with\n" + tomli_w.dumps(tables)


async def _put(store: RunStore, episode: Episode, seen: set[str]) -> None:
    traces = episode.traces
    for trace in traces:
        _time(trace)
    spans = [span for trace in traces for span in trace.timing.values()]
    started = min((span.start for span in spans), default=None)
    done = max((span.end for span in spans if span.end is not None), default=None)
    writes = [
        store.begin_episode(
            EpisodeRow(
                id=episode.id,
                group=episode.group,
                env=episode.env,
                started=started,
                ended=done,
                info=plain(episode.info),
            )
        )
    ]
    for trace in traces:
        writes += _begin(store, trace, episode, seen)
    for write in writes:
        await write
    for trace in traces:
        await store.finish_trace(trace)


def _time(trace: Trace) -> None:
    """The agent's time from its calls, if no stage has one."""
    calls = [call for call in trace.dag.calls if call.start]
    if calls and not trace.timing:
        trace.timing["agent"] = Span(start=calls[0].start, end=max(call.end or call.start for call in calls))


def _begin(store: RunStore, trace: Trace, episode: Episode, seen: set[str]) -> list[Any]:
    task = trace.task
    data = encode_json(plain(task.data))
    key = bytes.fromhex(digest(task.key, data))
    seen.add(task.key)
    starts = [span.start for span in trace.timing.values()]
    row = TraceRow(
        id=trace.id,
        episode=episode.id,
        group=episode.group,
        role=trace.agent,
        task=key,
        task_idx=task.idx,
        task_key=task.key,
        task_name=task.name,
        rollout=trace.rollout,
        rollout_hash=f"imported:{trace.id}",
        score_hash="imported",
        started=min(starts, default=None),
    )
    return [
        store.put_tasks([TaskRow(digest=key, idx=task.idx, key=task.key, name=task.name, data=data)]),
        store.begin_trace(row),
    ]
