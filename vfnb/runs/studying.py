"""`vf.study`: one taskset under many settings, executed as one resumable thing."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from vfnb.agents import Harness
from vfnb.clients import AnyModel, resolve_model
from vfnb.errors import ConfigError, VfnbError
from vfnb.runs.axes import Axis, Option, find_axes, folder_name, points, setting_name
from vfnb.runs.budget import Budget
from vfnb.runs.manifest import STUDY, write_manifest
from vfnb.runs.source import Source, as_taskset
from vfnb.runs.start import Prepared, evaluate, prepare, stable_setting, start_together
from vfnb.runs.studies import Study
from vfnb.types import SamplingConfig
from vfnb.utils.ids import canonical_json, digest

__all__ = ["study"]

AnyHarness = str | Harness[Any] | Callable[..., Any]
AnySampling = SamplingConfig | dict[str, Any]

_KNOWN = inspect.signature(evaluate).parameters
_TASKS = ("taskset", "task", "n")


def study(
    taskset: Source | Mapping[str, Source],
    *,
    model: AnyModel | Sequence[AnyModel] | Mapping[str, AnyModel],
    harness: AnyHarness | Sequence[AnyHarness] | Mapping[str, AnyHarness] = "null",
    sampling: AnySampling | Sequence[AnySampling] | Mapping[str, AnySampling] | None = None,
    rollouts: int | Sequence[int] = 1,
    axes: Mapping[str, Any] | None = None,
    design: str = "grid",
    concurrency: int = 64,
    max_tokens: int | None = None,
    max_cost: float | None = None,
    dir: str | Path | None = None,
    **settings: Any,
) -> Study:
    """Run one taskset under many settings and return at once; `wait()` or `await` waits for the end.

    An axis is a list of values, or a dict of values by name, given for any setting; everything else is the same
    for all. Each setting is a run of its own in the common folder. Calling again with the same folder takes over
    what is done, and a value that is added costs its own rollouts only. All settings are checked before the first
    call.

    Args:
        taskset: a taskset (object or class), a list of tasks, or an id; a dict of tasksets by name is an axis.
        model: as for `vf.evaluate`; objects are shared by all settings, with their limits.
        harness: as for `vf.evaluate`.
        sampling: as for `vf.evaluate`; a list of dicts makes a column for each key.
        rollouts: samples per task and setting.
        axes: axes by the dotted key of a config, as in `{"sampling.temperature": [0, 1], "taskset.difficulty":
            [1, 2], "harness.system_prompt": {"none": "", "brief": "Be brief."}, "limits.max_turns": [2, 8]}`. The
            tables are `taskset`, `task` (short for `taskset.task`), `harness`, `runtime`, `sampling`, `limits`,
            `timeouts` and `scoring`.
        design: `grid` (all combinations), `list` (first with first, second with second, ...) or `paired` (the first
            value of each axis is the baseline, and one axis is changed at a time).
        concurrency: rollouts under way at a time over all settings, which advance together.
        max_tokens: bound on the tokens of the whole study, earlier sittings included.
        max_cost: bound on its cost in US dollars.
        dir: the common folder; `./runs/<taskset>-study-<hash>` by default, whatever the values of the axes are.
        settings: what `vf.evaluate` takes besides; a list makes an axis of it too.

    Raises:
        ConfigError: something cannot work; the message says for which setting, and how to mend it.
        TasksetError: the tasks cannot be loaded.
        StoreLocked: another process writes one of the folders.
    """
    given: dict[str, Any] = {"taskset": taskset, "model": model, "harness": harness, "sampling": sampling}
    given |= {"rollouts": rollouts, "concurrency": concurrency, "dir": dir}
    given |= {"max_tokens": max_tokens, "max_cost": max_cost, **settings}
    fixed, found = find_axes(given, axes or {}, _KNOWN)
    if not found:
        raise ConfigError(
            "study() has no axis: give a list for a setting, or use vf.evaluate for a single one"
        )
    defaults = {
        name: known.default for name, known in _KNOWN.items() if known.default is not inspect.Parameter.empty
    }
    fixed = defaults | fixed | {"dir": None}
    if "model" in fixed:
        fixed["model"] = resolve_model(fixed["model"])
    if "taskset" in fixed:
        fixed["taskset"] = as_taskset(fixed["taskset"])
    cells = _cells(fixed, found, design)
    name = as_taskset(fixed["taskset"]).name if "taskset" in fixed else "tasksets"
    folder = Path(dir) if dir is not None else _folder(name, found, next(iter(cells.values()))[1])
    budget = Budget(max_tokens, max_cost)
    places = _places(cells)
    placed = {
        setting: replace(prepared.placed(folder / places[setting]), budget=budget)
        for setting, (_, prepared) in cells.items()
    }
    runs = start_together(list(placed.values()), concurrency)
    about = {
        "taskset": name,
        "design": design,
        "axes": [{"key": axis.key, "columns": axis.columns} for axis in found],
        "settings": [
            {
                "name": setting,
                "folder": places[setting],
                "planned": len(prepared.units),
                "values": {
                    column: value for option in point.values() for column, value in option.columns.items()
                },
            }
            for setting, (point, prepared) in cells.items()
        ],
    }
    write_manifest(folder, STUDY, about)
    return Study(folder, dict(zip(placed, runs, strict=True)), about)


Cell = tuple[dict[str, Option], Prepared]


def _cells(fixed: Mapping[str, Any], axes: Sequence[Axis], design: str) -> dict[str, Cell]:
    """Every setting by its name, checked."""
    cells: dict[str, Cell] = {}
    tasks: dict[tuple[str, ...], Any] = {}
    ordered = sorted(axes, key=lambda axis: "." in axis.key)  # a dotted key changes what a plain one has set
    shaping = [axis.key for axis in axes if axis.key.partition(".")[0] in _TASKS]
    for point in points(axes, design):
        name = setting_name(point)
        if name in cells:
            raise ConfigError(f"the setting {name} comes twice; each needs values of its own")
        same = tuple(point[key].label for key in shaping)
        try:
            settings = dict(fixed)
            for axis in ordered:
                settings = axis.apply(settings, point[axis.key])
            prepared = prepare(**settings, tasks=tasks.get(same))
        except VfnbError as error:
            raise type(error)(f"{name}: {error}") from error.__cause__
        tasks.setdefault(same, prepared.tasks)
        cells[name] = point, prepared
    return cells


def _places(cells: Mapping[str, Cell]) -> dict[str, str]:
    """A folder for each setting: its name, as far as a file system takes it."""
    places = {name: folder_name(point) for name, (point, _) in cells.items()}
    taken = [place.lower() for place in places.values()]  # some file systems know no capitals
    return {
        name: place
        if len(place) <= 100 and taken.count(place.lower()) == 1
        else f"{place[:80]}-{digest(name, size=4)}"
        for name, place in places.items()
    }


def _folder(taskset: str, axes: Sequence[Axis], one: Prepared) -> Path:
    """One folder per taskset, kind of axes and fixed setting, whatever the values on the axes are."""
    varied = {axis.key.partition(".")[0] for axis in axes} | {"runtime"}  # which a harness may choose
    setting = {key: value for key, value in one.agent.identity().items() if key not in varied}
    name = re.sub(r"[^\w.-]+", "-", Path(taskset).name).strip("-.") or "run"
    keys = sorted(axis.key for axis in axes)
    return (
        Path("runs") / f"{name}-study-{digest(name, canonical_json([keys, stable_setting(setting)]), size=4)}"
    )
