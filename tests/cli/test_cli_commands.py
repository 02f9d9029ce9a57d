"""The commands, in process: what they print, and the status they leave with."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path
from typing import Any

import pytest
from support.addition import add
from support.packages import installed
from support.upstream import Say, Upstream

import vfnb as vf
from vfnb.cli.main import FAILED, MISUSED, STOPPED, eval_main, main, validate_main

CHECKED = """
import vfnb as vf

class Data(vf.TaskData):
    gold: str

class Checked(vf.Task[Data]):
    async def setup(self, runtime: vf.Runtime) -> None:
        await runtime.write("input.txt", b"x")
        if self.data.gold == "boom":
            raise RuntimeError("no disk")

    async def validate(self, runtime: vf.Runtime) -> bool | None:
        assert await runtime.read("input.txt") == b"x"
        return {"yes": True, "no": False}.get(self.data.gold)

class CheckedConfig(vf.TasksetConfig):
    golds: list[str] = ["yes", "yes", "none"]

class CheckedTaskset(vf.Taskset[Checked, CheckedConfig]):
    def load(self):
        return [Checked(Data(prompt="?", gold=gold, name=f"t{i}")) for i, gold in enumerate(self.config.golds)]
"""


def answer(body: Any, number: int) -> str:
    return add([vf.UserMessage(content=body["messages"][-1]["content"])])


@pytest.fixture(autouse=True)
def _in_an_empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)


def test_eval_runs_and_prints_the_summary(capsys: pytest.CaptureFixture[str]) -> None:
    with Upstream(answer) as upstream:
        words = [
            "addition",
            "-m",
            "adder",
            "-n",
            "3",
            "-r",
            "2",
            "--model.base-url",
            upstream.url,
            "--dir",
            "out",
        ]
        assert eval_main(words) == 0
        out, err = capsys.readouterr()
        assert "6 of 6 finished" in out
        assert re.search(r"reward +1\b", out)
        assert "exact_match" in out
        assert err == ""
        assert len(upstream.calls) == 6
        assert {call.body["model"] for call in upstream.calls} == {"adder"}

        assert eval_main(["@", "out/config.toml"]) == 0
        assert "6 reused" in capsys.readouterr().out
        assert eval_main(["@", "out/config.toml", "-n", "4"]) == 0
        assert len(upstream.calls) == 8
        assert eval_main(["@", "out/config.toml", "--fresh", "--sampling.temperature", "0.5"]) == 0
        assert len(upstream.calls) == 16
        assert upstream.calls[-1].body["temperature"] == 0.5
    assert len(vf.load("out").traces) == 8


def test_a_dead_endpoint_is_a_failure_with_a_reason(
    capsys: pytest.CaptureFixture[str], unused_port: int
) -> None:
    url = f"http://127.0.0.1:{unused_port}"
    words = ["addition", "-m", "m", "-n", "2", "--model.base-url", url, "--model.max-retries", "0"]
    assert eval_main(words) == FAILED
    out, err = capsys.readouterr()
    assert "2 failed" in out
    assert err.startswith("vfnb eval: no rollout succeeded: UpstreamConnection: ")
    assert str(unused_port) in err


def test_some_failures_are_in_the_summary_and_no_failed_command(capsys: pytest.CaptureFixture[str]) -> None:
    def some(body: Any, number: int) -> Say | str:
        return Say(status=400, raw=b'{"error": {"message": "bad"}}') if number == 0 else answer(body, number)

    with Upstream(some) as upstream:
        assert eval_main(["addition", "-m", "m", "-n", "3", "--model.base-url", upstream.url]) == 0
    assert "1 failed" in capsys.readouterr().out


def test_a_used_up_budget_stops_with_its_own_status(capsys: pytest.CaptureFixture[str]) -> None:
    with Upstream(answer) as upstream:
        words = ["addition", "-m", "m", "-n", "9", "-c", "1", "--model.base-url", upstream.url]
        assert eval_main([*words, "--max-tokens", "25"]) == STOPPED
        assert "max_tokens=25 is used up" in capsys.readouterr().out
        assert eval_main([*words, "--max-tokens", "9999"]) == 0
        assert "9 of 9 finished" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["addition", "--taskset.num-tasks", "0"], "load() gave no tasks"),
        (["addition", "--select.include.names", "absent"], "no task is left after include(names=['absent'])"),
        (["addition", "--model.api-key-var", "ABSENT_KEY"], "the environment variable ABSENT_KEY is not set"),
        (["addition", "--dir", "taken", "--no-resume"], "taken already has rollouts"),
    ],
)
def test_what_only_a_start_can_find_is_refused_too(
    words: list[str], message: str, capsys: pytest.CaptureFixture[str]
) -> None:
    if "taken" in words:
        vf.evaluate("addition", n=1, model=vf.Scripted(add), dir="taken").wait(quiet=True)
    host = "models.invalid" if "ABSENT_KEY" in words else "127.0.0.1:1"
    assert eval_main([*words, "-m", "m", "--model.base-url", f"http://{host}"]) == MISUSED
    out, err = capsys.readouterr()
    assert message in err
    assert out == ""


def test_eval_without_a_model(capsys: pytest.CaptureFixture[str]) -> None:
    assert eval_main(["addition"]) == MISUSED
    assert capsys.readouterr().err.startswith("vfnb eval: model: required; give -m NAME")


def test_dry_run_prints_a_tree_that_loads(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "addition", "-m", "m", "-n", "5", "--env.taskset.num-tasks", "7", "--dry-run"]) == 0
    text = capsys.readouterr().out
    tree = tomllib.loads(text)
    assert tree["taskset"] == {"id": "addition", "num_tasks": 7, "task": {"tolerance": 0.0}}
    assert tree["select"]["limit"] == 5
    Path("again.toml").write_text(text)
    assert main(["eval", "@", "again.toml", "--dry-run"]) == 0
    assert capsys.readouterr().out == text
    assert not Path("runs").exists()


def test_dry_run_refuses_a_dialect_that_there_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "addition", "-m", "m", "--model.dialect", "chatt", "--dry-run"]) == MISUSED
    assert "no dialect 'chatt'; known are " in capsys.readouterr().err


def test_validate_runs_setup_and_gold_checks(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with installed(tmp_path / "lib", checked_set=CHECKED):
        assert validate_main(["checked_set"]) == 0
        assert (
            capsys.readouterr().out
            == "checked_set: 3 tasks, 0 failed, 2 passed their gold check, 1 have none\n"
        )
        assert validate_main(["checked_set", "-n", "1", "--only-setup"]) == 0
        assert capsys.readouterr().out == "checked_set: 1 tasks, 0 failed\n"
        golds = ["--taskset.golds", '["yes", "no", "boom"]']
        assert validate_main(["checked_set", *golds, "--runtime", "subprocess"]) == FAILED
        assert capsys.readouterr().out.splitlines() == [
            "t1: its gold check says False",
            "t2: RuntimeError: no disk",
            "checked_set: 3 tasks, 2 failed, 1 passed their gold check, 0 have none",
        ]
        assert validate_main(["checked_set", *golds, "--only-setup"]) == FAILED


SOLVED = """
import vfnb as vf

class Solved(vf.Task):
    @vf.reward
    def right(self, trace: vf.Trace) -> float:
        return float(trace.last_reply == self.data.description)

class SolvedTaskset(vf.Taskset[Solved, vf.TasksetConfig]):
    def load(self):
        return [Solved(vf.TaskData(prompt="?", name=f"t{i}", description=text)) for i, text in enumerate(["", "x"])]
"""


def test_validate_finds_tasks_that_are_solved_untouched(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with installed(tmp_path / "lib", solved_set=SOLVED):
        assert validate_main(["solved_set"]) == FAILED
        assert capsys.readouterr().out.splitlines() == [
            "t0: untouched, it already scores 1 of 1",
            "solved_set: 2 tasks, 1 failed, 0 passed their gold check, 2 have none; untouched: 1 below full reward",
        ]
        assert validate_main(["solved_set", "--only-gold"]) == 0


def test_the_commands_of_the_tasksets_page(capsys: pytest.CaptureFixture[str]) -> None:
    assert validate_main(["addition", "-n", "1", "--only-setup"]) == 0
    assert validate_main(["addition", "--select.include.idx", "0:100"]) == 0
    assert validate_main(["addition", "-s", "--select.skip", "50", "-n", "50"]) == 0
    assert [line.split(",")[0] for line in capsys.readouterr().out.splitlines()] == [
        "addition: 1 tasks",
        "addition: 100 tasks",
        "addition: 50 tasks",
    ]


def test_validate_refuses_what_leaves_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    assert validate_main(["addition", "--select.skip", "500"]) == MISUSED
    assert capsys.readouterr().err.startswith("vfnb validate: addition: no task is left after skip(500)")


def test_help_is_short_and_grouped(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    assert len(capsys.readouterr().out.splitlines()) < 12
    assert main(["eval", "--help"]) == 0
    general = capsys.readouterr().out
    assert len(general.splitlines()) < 45
    assert all(len(line) <= 100 for line in general.splitlines())
    for word in ("-m, --model NAME", "@ FILE.toml", "--dry-run", "sampling", "temperature", "max-turns"):
        assert word in general


def test_help_of_a_taskset_lists_its_settings_with_their_documentation(
    capsys: pytest.CaptureFixture[str],
) -> None:
    assert main(["eval", "addition", "--help"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"--taskset\.num-tasks INT +How many questions\. \(100\)", out)
    assert re.search(r"--taskset\.task\.tolerance NUMBER +Largest distance", out)
    assert len(out.splitlines()) < 65
    assert main(["eval", "addition", "--harness", "program", "--help"]) == 0
    assert re.search(r"--harness\.argv LIST +The command", capsys.readouterr().out)


def test_help_of_one_table(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["eval", "--help", "model"]) == 0
    out = capsys.readouterr().out
    assert re.search(r"--model\.rpm INT +Most calls per minute\.", out)
    assert "--model.api-key-var TEXT" in out
    assert "OPENAI_API_KEY" in out


def test_other_words(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"vfnb {vf.__version__}\n"
    assert main([]) == 0
    assert main(["evla"]) == MISUSED
    assert "no command 'evla'; there are eval, validate" in capsys.readouterr().err
