"""Every example taskset is published, in the table of the README, and explained by its module."""

from __future__ import annotations

import importlib
import inspect
import re
import tomllib

import pytest
from support.paths import ROOT

import vfnb as vf

FOLDER = ROOT / "tasksets" / "vfnb_tasksets"
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
PUBLISHED: dict[str, str] = PROJECT["entry-points"]["vfnb.tasksets"]


def test_the_table_has_every_published_taskset() -> None:
    rows = re.findall(r"^\| `(\w+)` \|", (FOLDER / "README.md").read_text(), re.MULTILINE)
    assert sorted(rows) == sorted(PUBLISHED)
    modules = {path.stem for path in FOLDER.glob("*.py")} - {"__init__", "rows"}
    assert modules == set(PUBLISHED)


@pytest.mark.parametrize("name", sorted(PUBLISHED))
def test_a_module_names_its_taskset_and_explains_it(name: str) -> None:
    path, _, cls = PUBLISHED[name].partition(":")
    module = importlib.import_module(path)
    assert module.__all__ == [cls]
    assert len(module.__doc__ or "") > 300 and "vf.evaluate(" in (module.__doc__ or "")
    taskset = vf.load_taskset(path)
    assert type(taskset) is getattr(module, cls)
    first = next(iter(taskset))
    assert first.data.prompt_text and inspect.getdoc(type(first)) and inspect.getdoc(type(taskset))
