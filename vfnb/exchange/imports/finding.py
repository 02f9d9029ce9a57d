"""What a path holds: told by names and the first keys, nothing is run."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from vfnb.errors import ImportRefused
from vfnb.exchange.folder import MANIFEST
from vfnb.store import DATABASE_NAME
from vfnb.utils.config import nearest
from vfnb.utils.plain import decode_json

__all__ = ["EPISODES", "Found", "find"]

EPISODES = "traces.jsonl"
Kind = Literal["verifiers", "atif", "harbor", "inspect"]

_KNOWN = (
    "a run of vfnb, a run folder of verifiers (traces.jsonl), an ATIF trajectory or a folder of them, "
    "a job or trial of Harbor, or an Inspect log (.eval, .json)"
)


@dataclass(frozen=True)
class Found:
    """What is to be imported."""

    kind: Kind
    root: Path
    """The folder, or the file itself."""
    files: list[Path] = field(default_factory=list)
    """What is read; all of it decides whether an earlier import is the same."""

    def name(self, file: Path) -> str:
        """A file as faults call it."""
        return str(file.relative_to(self.root)) if file != self.root else file.name


def find(path: Path) -> Found:
    """
    Raises:
        ImportRefused: nothing is there, or nothing that can be imported.
    """
    path = path.expanduser().resolve()
    try:
        if path.is_file():
            return _file(path)
        if path.is_dir():
            return _folder(path)
    except OSError as error:
        raise ImportRefused(f"{path} cannot be read: {error}") from error
    raise ImportRefused(f"{path} does not exist{_near(path)}; give {_KNOWN}")


def _near(path: Path) -> str:
    """The nearest thing that is there."""
    if not path.parent.is_dir():
        return f" (nor does {path.parent})"
    there = [one.name for one in itertools.islice(path.parent.iterdir(), 1000)]
    match = nearest(path.name, there)
    return f"; did you mean {match!r}?" if match else f"; vf.runs({str(path.parent)!r}) lists runs"


def _file(path: Path) -> Found:
    if path.suffix == ".eval":
        return Found("inspect", path, [path])
    if path.suffix == ".jsonl":
        return Found("verifiers", path, [path])
    if path.suffix == ".json":
        kind = _json_kind(path)
        if kind in ("atif", "inspect"):
            return Found(kind, path, [path])
        if path.name == "result.json":
            return _folder(path.parent)
    raise ImportRefused(f"{path} is none of the files that can be imported; give {_KNOWN}")


def _folder(path: Path) -> Found:
    manifest = path / MANIFEST
    if manifest.is_file():
        return _export(path, manifest)
    if (path / EPISODES).is_file():
        return Found("verifiers", path, [path / EPISODES, *_configs(path)])
    trials = [path] if _is_trial(path) else sorted(each.parent for each in path.glob("*/result.json"))
    trials = [each for each in trials if _is_trial(each)]
    if trials:
        extra = [path / "result.json"] if trials != [path] and (path / "result.json").is_file() else []
        return Found("harbor", path, [*extra, *(file for each in trials for file in _trial_files(each))])
    logs = sorted(
        [*path.glob("*.eval"), *(one for one in path.glob("*.json") if _json_kind(one) == "inspect")]
    )
    if len(logs) == 1:
        return Found("inspect", path, logs)
    if logs:
        shown = ", ".join(log.name for log in logs[:5])
        raise ImportRefused(
            f"{path} has {len(logs)} Inspect logs, each a run of its own; give one file: {shown}"
        )
    documents = [one for one in _documents(path) if _json_kind(one) == "atif"]
    if documents:
        return Found("atif", path, [*documents, *_media(path)])
    raise ImportRefused(f"{path} has nothing that can be imported{_hint(path)}; give {_KNOWN}")


def _hint(path: Path) -> str:
    below = [one.parent for one in itertools.islice(path.glob(f"*/{DATABASE_NAME}"), 1000)]
    below += [one.parent.parent for one in itertools.islice(path.glob(f"*/*/{DATABASE_NAME}"), 1000)]
    if below:
        first, *others = sorted(set(below))
        return f", but {1 + len(others)} folders in it, such as {first.name}, have runs: see vf.runs({str(path)!r})"
    if (path / "results.jsonl").is_file():
        return " (its results.jsonl says which tasks are valid and has no rollouts)"
    deeper = sorted(path.glob(f"rollouts/step_*/*/*/{EPISODES}")) or sorted(path.glob(f"*/{EPISODES}"))
    if deeper:
        return f", but there is {deeper[-1].relative_to(path)} ({len(deeper)} such files): give one of them"
    return ""


def _export(path: Path, manifest: Path) -> Found:
    try:
        kind = json.loads(manifest.read_bytes())["format"]
    except (ValueError, KeyError, TypeError) as error:
        raise ImportRefused(f"{manifest} is no manifest of an export: {error!r}") from error
    if kind in ("verifiers", "prime-rl"):
        file = path / EPISODES if kind == "verifiers" else path / "episodes" / EPISODES
        return Found("verifiers", path, [file])
    if kind == "atif":
        return Found("atif", path, [*_documents(path), *_media(path)])
    raise ImportRefused(
        f"{path} is an export of the form {kind!r}, which has no whole traces; load the run itself, "
        "or an export of the form verifiers, prime-rl or atif"
    )


def _is_trial(path: Path) -> bool:
    record = _json(path / "result.json")
    return isinstance(record, dict) and "trial_name" in record


def _trial_files(path: Path) -> Iterator[Path]:
    yield path / "result.json"
    for pattern in ("agent/trajectory*.json", "steps/*/agent/trajectory*.json", "verifier/reward.*"):
        yield from sorted(path.glob(pattern))


def _configs(path: Path) -> list[Path]:
    return sorted(path.glob("configs/resolved/*.json"))


def _documents(path: Path) -> list[Path]:
    return sorted(one for one in path.rglob("*.json") if one.name != MANIFEST)


def _media(path: Path) -> list[Path]:
    kinds = ("*.png", "*.jpg", "*.jpeg", "*.gif", "*.webp")
    return sorted(one for kind in kinds for one in path.rglob(kind))


def _json(path: Path) -> Any:
    try:
        return decode_json(path.read_bytes())
    except (OSError, ValueError):
        return None


class _Head(msgspec.Struct):
    """What tells a kind; the rest of a document is passed over without being made into objects."""

    schema_version: Any = None
    eval: msgspec.Raw = msgspec.Raw()
    status: Any = None


def _json_kind(path: Path) -> Kind | None:
    raw = path.read_bytes()
    try:
        head = msgspec.json.decode(raw, type=_Head)
    except msgspec.ValidationError:  # no object
        return None
    except msgspec.DecodeError:  # NaN, which Python writes, or no JSON at all
        record = _json(path)
        if not isinstance(record, dict):
            return None
        mark = msgspec.Raw(b"{}" if "eval" in record else b"")
        head = _Head(record.get("schema_version"), mark, record.get("status"))
    if str(head.schema_version).startswith("ATIF"):
        return "atif"
    return "inspect" if bytes(head.eval) and head.status is not None else None
