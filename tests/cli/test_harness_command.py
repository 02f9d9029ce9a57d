"""`vfnb harness list`, `install` and `remove`."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest
from support.tiny_programs import wheel

from vfnb.cli.main import FAILED, MISUSED, main

pytestmark = pytest.mark.usefixtures("programs")

MODULE = """
from support.tiny_programs import TinyAgent
from vfnb.installs import PyPI

class Tiny(TinyAgent):
    def recipe(self):
        return PyPI(({package!r},), self.version, program="tiny-agent", check=("--version",))
"""


@pytest.fixture
def name(tmp_path: Path) -> str:
    (tmp_path / "tiny.py").write_text(textwrap.dedent(MODULE).format(package=wheel(tmp_path)))
    return f"{tmp_path / 'tiny.py'}:Tiny"


def test_a_program_is_installed_and_removed(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["harness", "install", name]) == 0
    out, err = capsys.readouterr()
    assert out.startswith("tiny-agent 1.2.0: tiny-agent 1.2.0 (test) in /")
    assert err.splitlines()[0] == "tiny-agent 1.2.0: installing"
    assert main(["harness", "install", name]) == 0
    assert capsys.readouterr().err == ""
    assert main(["harness", "remove", name]) == 0
    assert main(["harness", "remove", name]) == 0
    assert capsys.readouterr().out == "tiny-agent 1.2.0: removed\ntiny-agent 1.2.0: was not installed\n"


def test_an_installation_that_fails_is_told_and_the_others_go_on(
    name: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["harness", "install", name, "--version", "7.0"]) == FAILED
    assert "version 7.0 was asked for" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        ([], "the following arguments are required"),
        (["install"], "the following arguments are required: name"),
        (["install", "null"], "harness 'null' is no program that is installed"),
        (["install", "nul"], "no harness 'nul'; did you mean 'null'?"),
        (["lisst"], "invalid choice: 'lisst'"),
    ],
)
def test_misuse_is_told(words: list[str], told: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["harness", *words]) == MISUSED
    assert told in capsys.readouterr().err


def test_the_list_is_a_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["harness", "list"]) == 0
    head, *rows = capsys.readouterr().out.splitlines()
    assert head.split()[:4] == ["name", "kind", "version", "installed"]
    assert {"bash", "null", "program"} <= {row.split()[0] for row in rows}
