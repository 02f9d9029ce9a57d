"""Flags: every setting has one, in both layouts; what does not exist is named with its nearest match."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.packages import installed

from vfnb.cli.flags import read
from vfnb.cli.main import MISUSED, eval_main
from vfnb.errors import ConfigError
from vfnb.runs.resolve import resolve
from vfnb.runs.tree import EvalConfig
from vfnb.utils.config import all_keys

SETS = """
import vfnb as vf

class Config(vf.TasksetConfig):
    verbose: bool = False
    names: list[str] = []
    table: dict[str, float] = {}
    size: int | None = 3
    kind: str = ""

class Settings(vf.Taskset[vf.Task, Config]):
    def load(self):
        return [vf.Task(vf.TaskData(prompt="1?"))]
"""


def config(*words: str) -> EvalConfig:
    return resolve(read(words, ["dry_run"]).layers)


def test_the_commands_of_the_tasksets_page() -> None:
    # vf-validate gsm8k --select.include.idx 0:100
    assert config("addition", "--select.include.idx", "0:100").select.include.idx == ["0:100"]  # type: ignore[union-attr]
    # vf-validate gsm8k -s -n 50
    chosen = config("addition", "-s", "-n", "50").select
    assert (chosen.shuffle, chosen.limit, chosen.skip) == (True, 50, 0)
    # vf-validate gsm8k -s --select.skip 50 -n 50
    chosen = config("addition", "-s", "--select.skip", "50", "-n", "50").select
    assert (chosen.shuffle, chosen.limit, chosen.skip) == (True, 50, 50)
    # --select.include.idx 0:1000 -s -n 50
    assert config("addition", "--select.include.idx", "0:1000", "-s", "-n", "50").select.shuffle
    # --env.taskset.num-tasks and --env.taskset.task.tolerance
    taskset = config(
        "addition", "--env.taskset.num-tasks", "5", "--env.taskset.task.tolerance", "0.5"
    ).taskset
    assert taskset.explicit() == {"id": "addition", "num_tasks": 5, "task": {"tolerance": 0.5}}


@pytest.mark.parametrize(
    "words",
    [
        ("--env.taskset.num-tasks", "5"),
        ("--env.taskset.num_tasks", "5"),
        ("--taskset.num-tasks", "5"),
        ("--taskset.num-tasks=5",),
        ("--env.taskset", '{"num_tasks": 5}'),
    ],
)
def test_spellings_of_one_flag(words: tuple[str, ...]) -> None:
    assert config("addition", *words).taskset.explicit() == {"id": "addition", "num_tasks": 5}


def test_short_flags_and_names_in_place_of_tables() -> None:
    found = config(
        "addition", "-m", "gpt", "-r", "2", "-c", "3", "--runtime", "subprocess", "--harness", "null"
    )
    assert found.model is not None
    assert (found.model.name, found.rollouts, found.concurrency) == ("gpt", 2, 3)
    assert (found.runtime.type, found.harness.id) == ("subprocess", "null")
    found = config(
        "addition", "--model", "gpt", "--model.base-url", "http://127.0.0.1:1", "--model.price", "[1,2]"
    )
    assert found.model is not None
    assert (found.model.name, found.model.base_url, found.model.price) == (
        "gpt",
        "http://127.0.0.1:1",
        [1, 2],
    )
    assert config("addition", "--harness.id", "null").harness.id == "null"


def test_switches_lists_tables_and_no_value(tmp_path: Path) -> None:
    with installed(tmp_path, settings_set=SETS):
        words = (
            "--taskset.verbose --taskset.names a --taskset.names b --taskset.size null --no-resume --fresh"
        )
        found = config(
            "settings_set", *words.split(), "--taskset.table", '{"x": 1.5}', "--taskset.kind", "-0.5"
        )
        assert found.taskset.explicit() == {
            "id": "settings_set",
            "verbose": True,
            "names": ["a", "b"],
            "table": {"x": 1.5},
            "size": None,
            "kind": "-0.5",
        }
        assert (found.resume, found.fresh) == (False, True)
        assert config("settings_set", "--no-taskset.verbose").taskset.explicit()["verbose"] is False


def test_flags_win_over_files_and_later_files_over_earlier_ones(tmp_path: Path) -> None:
    (tmp_path / "a.toml").write_text(
        'rollouts = 1\nconcurrency = 1\ntaskset = "addition"\n[sampling]\nseed = 1'
    )
    (tmp_path / "b.toml").write_text("rollouts = 2\nconcurrency = 2\n[taskset]\nnum_tasks = 4")
    files = ("@", str(tmp_path / "a.toml"), "-c", "3", "@", str(tmp_path / "b.toml"))
    found = config(*files, "--sampling.temperature", "0")
    assert (found.rollouts, found.concurrency) == (2, 3)
    assert found.sampling.given() == {"seed": 1, "temperature": 0}
    assert found.taskset.explicit() == {"id": "addition", "num_tasks": 4}
    assert (
        config(f"@{tmp_path / 'a.toml'}", "--env.taskset.num-tasks", "6").taskset.explicit()["num_tasks"] == 6
    )


def test_every_setting_has_a_flag() -> None:
    keys = [key for key in all_keys(EvalConfig) if not key.startswith("record")]
    assert len(keys) > 60
    with pytest.raises(ConfigError) as caught:
        read(["addition", *(f"--{key.replace('_', '-')}x" for key in keys)], [])
    missed = [line for line in str(caught.value).splitlines() if "did you mean" not in line]
    assert missed == []


WRONG = {
    "--env.taskset.num-task 5": "--env.taskset.num-task: unknown flag; did you mean --env.taskset.num-tasks?",
    "--num-tasks 5": "--num-tasks: unknown flag; did you mean --taskset.num-tasks?",
    "--taskset.tolerance 1": "--taskset.tolerance: unknown flag; did you mean --taskset.task.tolerance?",
    "--env.taskset.tolerance 1": "did you mean --env.taskset.task.tolerance?",
    "--temprature 1": "--temprature: unknown flag; did you mean --sampling.temperature?",
    "--num-rollouts 2": "--num-rollouts: write rollouts",
    "--dry": "--dry: unknown flag; did you mean --dry-run?",
    "--max-input-tokens 3": "did you mean --limits.max-input-tokens?",
    "--env.agent.max-input-token 3": "did you mean --env.agent.limits.max-input-tokens?",
    "--harness.argv x": "--harness.argv: unknown flag",
    "--serve.address x": "--serve.address: there is no environment server",
    "-x": "-x: unknown flag; the short ones are -m",
    "-n x": "-n: input should be a valid integer",
    "-r 0": "--rollouts: input should be greater than or equal to 1 (got '0')",
    "--sampling.temperature=-1": "--sampling.temperature: input should be greater than or equal to 0",
    "--select.include.idx a:b": "--select.include.idx: idx entry 'a:b'",
    "--taskset.num-tasks": "--taskset.num-tasks: expected one argument",
    "--taskset.task {bad": "tables and lists are given as JSON",
    "--taskset.task [1]": "--taskset.task: input should be a valid dictionary",
    "--fresh true": "true: belongs to no flag; the taskset comes first",
    "--no-taskset.num-tasks": "--no-taskset.num-tasks: only switches have a --no- form",
    "--taskset.num-tasks 1 --env.taskset.num-tasks 2": "are two ways to write one setting; keep one",
    "--harness program": "--harness: harness 'program' has no command; give harness.argv",
    "--runtime subproces": "--runtime: runtime 'subproces' is unknown; did you mean 'subprocess'?",
    "--model.api-key-var sk-1": "--model.api-key-var: give the name of an environment variable, not the key",
    "@": "@: name a TOML file after it",
    "@ absent.toml": "absent.toml: the config file cannot be read",
    "--help smpling": "--help smpling: no such table of settings; did you mean sampling?",
}


@pytest.mark.parametrize("words", WRONG)
def test_a_wrong_flag_gives_one_line_and_a_status(words: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert eval_main(["addition", "-m", "m", *words.split()]) == MISUSED
    out, err = capsys.readouterr()
    assert out == ""
    assert WRONG[words] in err
    assert err.startswith("vfnb eval: ")
    assert len(err.splitlines()) == 1


def test_a_taskset_that_does_not_come_first(capsys: pytest.CaptureFixture[str]) -> None:
    assert eval_main(["-n", "5", "addition"]) == MISUSED
    assert "addition: belongs to no flag; the taskset comes first" in capsys.readouterr().err


def test_no_taskset(capsys: pytest.CaptureFixture[str]) -> None:
    assert eval_main(["-m", "m"]) == MISUSED
    assert "taskset.id: required; name one, as in `vfnb eval NAME`" in capsys.readouterr().err
