"""Finding a taskset by entry point, module, `module:Class` and file."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.listings import BLOG, PAGE, ours

import vfnb as vf
from vfnb.errors import ConfigError, TasksetError
from vfnb.tasks import load_taskset, taskset_class, tasksets

TWO = ours(PAGE) + "\n\nclass OtherTaskset(AdditionTaskset):\n    pass\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    """A package laid out as the documentation says."""
    folder = tmp_path / "my_addition"
    folder.mkdir()
    (folder / "taskset.py").write_text(ours(PAGE))
    (folder / "__init__.py").write_text(
        'from my_addition.taskset import AdditionTaskset\n\n__all__ = ["AdditionTaskset"]\n'
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    for name in [name for name in sys.modules if name.startswith("my_addition")]:
        monkeypatch.delitem(sys.modules, name)
    return "my_addition"


def test_entry_point() -> None:
    assert "addition" in tasksets()
    taskset = load_taskset("addition", {"num_tasks": 3})
    assert len(taskset.resolve()) == 3
    assert taskset.name == taskset.config.id == "addition"


@pytest.mark.parametrize(
    "id", ["my_addition", "my-addition", "my_addition.taskset", "my_addition.taskset:AdditionTaskset"]
)
def test_package_and_module(package: str, id: str) -> None:
    assert taskset_class(id).__name__ == "AdditionTaskset"


def test_file_with_all_and_with_a_class(tmp_path: Path) -> None:
    (tmp_path / "blog.py").write_text(ours(BLOG))
    (tmp_path / "two.py").write_text(TWO)
    assert len(load_taskset(str(tmp_path / "blog.py")).resolve()) == 100
    assert taskset_class(f"{tmp_path}/two.py:OtherTaskset").__name__ == "OtherTaskset"
    with pytest.raises(
        TasksetError, match=r"has AdditionTaskset, OtherTaskset; name one, as in '.*:AdditionTaskset'"
    ):
        taskset_class(f"{tmp_path}/two.py")
    with pytest.raises(TasksetError, match=r"has no AdditionTaskse; did you mean AdditionTaskset\?"):
        taskset_class(f"{tmp_path}/two.py:AdditionTaskse")


def test_edited_file_is_seen(tmp_path: Path) -> None:
    file = tmp_path / "edited.py"
    file.write_text(ours(BLOG))
    assert len(load_taskset(str(file)).resolve()) == 100
    file.write_text(ours(BLOG).replace("range(100)", "range(7)"))
    assert len(load_taskset(str(file)).resolve()) == 7


def test_names_that_lead_nowhere(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("import vfnb as vf\n\nX = vf.Taskset\n")
    for id, text in (
        ("adition", r"no taskset 'adition': .* did you mean 'addition'\?"),
        ("zzzz", "published: .*addition"),
        (f"{tmp_path}/none.py", "no taskset file"),
        (f"{tmp_path}/empty.py", "has no Taskset class; export one in __all__"),
        ("json:JSONDecoder", "must be a subclass of vf.Taskset"),
    ):
        with pytest.raises(TasksetError, match=text):
            taskset_class(id)


def test_wrong_settings_have_their_path() -> None:
    with pytest.raises(ConfigError, match=r"taskset\.num-tasks: unknown key; did you mean num_tasks\?"):
        load_taskset("addition", {"num-tasks": 3})
    assert load_taskset("addition", num_tasks=2).config.explicit() == {"id": "addition", "num_tasks": 2}


def test_class_can_be_given_its_config() -> None:
    cls = taskset_class("addition")
    assert issubclass(cls, vf.Taskset)
    assert cls(cls.config_type()(num_tasks=1)).resolve()[0].data.idx == 0
