"""Code digests: what a change of the code changes, and what it does not."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from support.cells import module_file, run_cell

from vfnb.utils.source import code_hash

BASE = """
LIMIT = 3
def helper(x):
    return x + 1

class Scorer:
    scale = 2
    def other(self, x):
        return x
    def score(self, x, by=1):
        '''Doc.'''
        return self.other(helper(x)) * by + LIMIT
"""


def of_cell(source: str, name: str = "Scorer") -> str:
    cls = run_cell(source)[name]
    found = code_hash(cls.score, owner=cls)
    assert found is not None
    return found


@pytest.mark.parametrize(
    "edit",
    [
        ("'''Doc.'''", "'''Another text.'''"),
        ("        '''Doc.'''\n", ""),
        ("return x + 1", "return x + 1  # a comment"),
        ("return x + 1", "return (x\n            + 1)"),
        ("def helper(x):\n", "def helper(x):\n\n    # why\n"),
    ],
)
def test_comments_space_and_docstrings_do_not_count(edit: tuple[str, str]) -> None:
    assert edit[0] in BASE
    assert of_cell(BASE.replace(*edit)) == of_cell(BASE)


@pytest.mark.parametrize(
    "edit",
    [
        ("* by + LIMIT", "* by - LIMIT"),
        ("by=1", "by=2"),
        ("LIMIT = 3", "LIMIT = 4"),
        ("return x + 1", "return x + 2"),
        ("        return x\n", "        return -x\n"),
    ],
)
def test_body_default_global_helper_and_sibling_count(edit: tuple[str, str]) -> None:
    assert edit[0] in BASE
    assert of_cell(BASE.replace(*edit)) != of_cell(BASE)


def test_helper_redefined_in_a_later_cell_counts() -> None:
    space = run_cell(BASE)
    before = code_hash(space["Scorer"].score)
    run_cell("def helper(x):\n    return x - 1\n", space)
    assert code_hash(space["Scorer"].score) != before


def test_same_code_in_cell_and_file_is_the_same(tmp_path: Path) -> None:
    module = module_file(BASE, tmp_path / "scorer_file.py")
    assert code_hash(module.Scorer.score, owner=module.Scorer) == of_cell(BASE)


def test_class_digest_covers_methods_and_values() -> None:
    classes = [run_cell(text)["Scorer"] for text in (BASE, BASE.replace("scale = 2", "scale = 3"), BASE)]
    first, other, again = map(code_hash, classes)
    assert first is not None
    assert first == again != other


def closure(factor: Any) -> Any:
    def inner(x: int) -> Any:
        return x * factor

    return inner


def test_closure_values_count() -> None:
    assert code_hash(closure(2)) == code_hash(closure(2)) != code_hash(closure(3))
    assert code_hash(closure({"a", "b", "c"})) == code_hash(closure({"c", "b", "a"}))


def test_function_in_a_closure_counts() -> None:
    assert code_hash(closure(closure(1))) != code_hash(closure(closure(2)))


def test_partial_arguments_count() -> None:
    assert code_hash(functools.partial(closure, 1)) != code_hash(functools.partial(closure, 2))


def test_wrapped_function_counts_as_itself() -> None:
    @functools.wraps(closure)
    def wrapper(*args: Any) -> Any:
        return closure(*args)

    assert code_hash(wrapper) == code_hash(closure)


def test_lambdas_of_one_line_are_told_apart() -> None:
    one, two = (lambda x: x + 1), (lambda y: y + 2)
    assert code_hash(one) is not None
    assert code_hash(one) != code_hash(two)


def recursive(n: int) -> int:
    return 0 if n == 0 else other_half(n - 1)


def other_half(n: int) -> int:
    return 0 if n == 0 else recursive(n - 1)


def test_recursion_ends() -> None:
    assert code_hash(recursive) is not None


def test_unknown_source_has_no_digest() -> None:
    space: dict[str, Any] = {}
    exec("def nowhere(x): return x", space)
    assert code_hash(space["nowhere"]) is None
    assert code_hash(len) is None
    assert code_hash(closure(space["nowhere"])) is not None  # not of our file: by its name only


def test_digest_is_stable_between_processes(tmp_path: Path) -> None:
    (tmp_path / "fixed.py").write_text(BASE + "\nWORDS = {'a', 'b', 'c'}\ndef f(x):\n    return x in WORDS\n")
    program = "import fixed; from vfnb.utils.source import code_hash; print(code_hash(fixed.f))"
    runs = {
        subprocess.run(
            [sys.executable, "-c", program],
            cwd=tmp_path,
            env=os.environ | {"PYTHONHASHSEED": seed},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for seed in ("1", "2")
    }
    assert len(runs) == 1
    assert len(runs.pop().strip()) == 32


@pytest.mark.parametrize(
    "made", ["MODEL", "vf.JudgeConfig(client=MODEL)", "Kind(vf.JudgeConfig(client=MODEL))"], ids=str
)
def test_a_model_or_a_judge_that_code_uses_counts_by_what_it_is(made: str) -> None:
    source = """
import vfnb as vf
class Kind(vf.Judge[str]):
    prompt = "{x}"
def say(messages):
    return "yes"
MODEL = vf.Scripted(say)
USED = MADE
def score(x):
    return USED, x
""".replace("MADE", made)
    first, same, other = (
        code_hash(run_cell(text)["score"]) for text in (source, source, source.replace("yes", "no"))
    )
    assert first == same != other and first is not None
