"""The published listings run in a cell and as a module after changing only the import line."""

from __future__ import annotations

import asyncio
from itertools import islice
from pathlib import Path
from typing import Any

import pytest
from support.cells import module_file, run_cell
from support.listings import BLOG, INFINITE, PAGE, TOLERANCE, ours

import vfnb as vf
from vfnb.errors import TasksetError

PARTS = {
    "blog": [BLOG],
    "page": [PAGE],
    "tolerance": [PAGE, TOLERANCE, PAGE[PAGE.index("class AdditionTaskset") :]],
    "infinite": [PAGE, INFINITE],
}


def build(name: str, place: str, folder: Path) -> dict[str, Any]:
    parts = [ours(part) for part in PARTS[name]]
    if place == "module":
        return vars(module_file("\n".join(parts), folder / f"addition_{name}.py"))
    if place == "postponed":
        text = "from __future__ import annotations\n" + "\n".join(parts)
        return vars(module_file(text, folder / f"addition_postponed_{name}.py"))
    space = run_cell(parts[0])
    for part in parts[1:]:
        run_cell(part, space)
    return space


PLACES = pytest.mark.parametrize("place", ["cell", "module", "postponed"])


@PLACES
@pytest.mark.parametrize("name", ["blog", "page"])
def test_addition(name: str, place: str, tmp_path: Path) -> None:
    space = build(name, place, tmp_path)
    tasks = space["AdditionTaskset"]().resolve()
    assert len(tasks) == 100
    assert [task.data.idx for task in tasks] == list(range(100))
    assert tasks[3].data.prompt == "What is 3 + 3?"
    assert tasks[3].data.answer == 6
    for reply, value in (("6", 1.0), ("7", 0.0)):
        trace = vf.Trace(answer=reply)
        scores = asyncio.run(tasks[3].score(trace))
        assert scores.reward == value
        assert trace.rewards["exact_match"].value == value


@PLACES
def test_num_tasks_is_a_setting(place: str, tmp_path: Path) -> None:
    space = build("page", place, tmp_path)
    taskset = space["AdditionTaskset"](space["AdditionConfig"](num_tasks=3))
    assert len(taskset.resolve()) == 3
    assert len(space["AdditionTaskset"](num_tasks=4).resolve()) == 4


@PLACES
def test_tolerance_variant(place: str, tmp_path: Path) -> None:
    space = build("tolerance", place, tmp_path)
    taskset = space["AdditionTaskset"]({"num_tasks": 2, "task": {"tolerance": 0.5}})
    task = taskset.resolve()[1]
    assert task.config.tolerance == 0.5
    assert asyncio.run(task.score(vf.Trace(answer="2.4"))).reward == 1.0
    assert asyncio.run(task.score(vf.Trace(answer="2.6"))).reward == 0.0


@PLACES
def test_infinite_variant(place: str, tmp_path: Path) -> None:
    space = build("infinite", place, tmp_path)
    taskset = space["AdditionTaskset"]()
    assert [task.data.answer for task in islice(taskset, 3)] == [0, 2, 4]
    assert [task.data.answer for task in taskset.take(5).resolve()] == [0, 2, 4, 6, 8]
    with pytest.raises(TasksetError, match="is infinite; bound the run with take"):
        taskset.resolve()


def test_classes_can_be_defined_again_in_a_cell() -> None:
    space = run_cell(ours(PAGE))
    first = space["AdditionTaskset"]().resolve()[0]
    run_cell(ours(PAGE).replace("2 * i", "3 * i"), space)
    assert first.data.answer == 0
    assert space["AdditionTaskset"]().resolve()[2].data.answer == 6
