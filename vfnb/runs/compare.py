"""`vf.compare`: one taskset under several harnesses, each an ordinary run in a common folder."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from vfnb.agents import Harness, resolve_harness
from vfnb.clients import AnyModel, resolve_model
from vfnb.errors import ConfigError
from vfnb.runs.comparison import Comparison
from vfnb.runs.manifest import COMPARISON, read_manifest, write_manifest
from vfnb.runs.source import Source, as_taskset
from vfnb.runs.start import Prepared, evaluate, prepare, stable_setting, start_together
from vfnb.utils.config import nearest
from vfnb.utils.ids import canonical_json, digest

__all__ = ["compare"]

AnyHarness = str | Harness[Any] | Callable[..., Any]


def compare(
    taskset: Source,
    *,
    harnesses: Sequence[AnyHarness] | Mapping[str, AnyHarness],
    model: AnyModel,
    rollouts: int = 1,
    concurrency: int = 64,
    dir: str | Path | None = None,
    **settings: Any,
) -> Comparison:
    """Run one taskset under several harnesses and return at once; `wait()` or `await` waits for the end.

    Each is a run of its own, which resumes as any other: what has been done in the folder is taken over, and a
    harness that is added later costs its own rollouts only. All pairings are checked before the first starts.

    Args:
        taskset: a taskset (object or class), a list of tasks, or the id of an installed taskset.
        harnesses: names, objects or functions; or these by the names under which they are shown and stored.
        model: a model object, or a name that is relayed to `OPENAI_BASE_URL`; shared by all, with its limits.
        rollouts: samples per task and harness.
        concurrency: rollouts under way at a time over all harnesses, which advance together.
        dir: the common folder, with one folder per harness; `./runs/<taskset>-harnesses-<hash>` by default.
        settings: what `vf.evaluate` takes besides, the same for all. `max_tokens` and `max_cost` hold for each.

    Raises:
        ConfigError: something cannot work; the message says what and how to mend it.
        TasksetError: the tasks cannot be loaded.
        StoreLocked: another process writes one of the folders.
    """
    named = _named(harnesses)
    known = inspect.signature(evaluate).parameters
    for name in settings:
        if name not in known or name == "harness":
            match = "harnesses" if name == "harness" else nearest(name, known)
            raise ConfigError(
                f"compare() takes no {name!r}" + (f"; did you mean {match!r}?" if match else "")
            )
    if not isinstance(concurrency, int) or concurrency < 1:
        raise ConfigError(f"concurrency={concurrency!r} must be a whole number, at least 1")
    defaults = {
        name: known[name].default for name in known if known[name].default is not inspect.Parameter.empty
    }
    shared = defaults | settings | {"model": resolve_model(model), "rollouts": rollouts}
    shared |= {"concurrency": concurrency, "dir": None}
    prepared = {name: prepare(taskset, **shared | {"harness": harness}) for name, harness in named.items()}
    folder = (
        Path(dir) if dir is not None else _folder(as_taskset(taskset).name, next(iter(prepared.values())))
    )
    folders = {name: _plain(name) for name in named}
    placed = [run.placed(folder / folders[name]) for name, run in prepared.items()]
    runs = dict(zip(named, start_together(placed, concurrency), strict=True))
    earlier = {
        name: place
        for name, place in read_manifest(folder, COMPARISON).get("harnesses", {}).items()
        if place not in folders.values()
    }
    write_manifest(folder, COMPARISON, {"harnesses": earlier | folders})
    return Comparison(folder, runs)


def _named(harnesses: Sequence[AnyHarness] | Mapping[str, AnyHarness]) -> dict[str, Harness[Any]]:
    """The harnesses by name; a second one of a name becomes `name_2`."""
    if isinstance(harnesses, str) or not isinstance(harnesses, Sequence | Mapping) or not harnesses:
        raise ConfigError(f"harnesses={harnesses!r} must be a list of harnesses, or a dict of them by name")
    if isinstance(harnesses, Mapping):
        found = {str(name): resolve_harness(what) for name, what in harnesses.items()}
    else:
        found = {}
        for what in harnesses:
            harness = resolve_harness(what)
            count = sum(other.name == harness.name for other in found.values())
            found[f"{harness.name}_{count + 1}" if count else harness.name] = harness
    folders = {_plain(name) for name in found}
    if len(folders) < len(found) or "" in folders:
        raise ConfigError(f"harnesses: the names {', '.join(map(repr, found))} do not make a folder each")
    return found


def _plain(name: str) -> str:
    return re.sub(r"[^\w.-]+", "-", name).strip("-.")


def _folder(taskset: str, one: Prepared) -> Path:
    """One folder per taskset, model and setting, whatever the harnesses are."""
    setting = {key: value for key, value in one.agent.identity().items() if key not in ("harness", "runtime")}
    name = _plain(Path(taskset).name) or "run"
    return Path("runs") / f"{name}-harnesses-{digest(name, canonical_json(stable_setting(setting)), size=4)}"
