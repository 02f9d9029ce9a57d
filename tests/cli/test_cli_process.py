"""The installed commands as processes: aliases, cold start, Ctrl-C."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from support.addition import add
from support.upstream import Say, Upstream

import vfnb as vf

BIN = Path(sys.executable).parent
HEAVY = ("aiohttp", "httpx", "pandas", "numpy", "plotly", "networkx", "sqlite3", "IPython", "mcp", "rich")


def call(words: Sequence[str], cwd: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*words], cwd=cwd, capture_output=True, text=True, timeout=50, check=False)


def answer(body: Any, number: int) -> str:
    return add([vf.UserMessage(content=body["messages"][-1]["content"])])


@pytest.mark.parametrize(
    "command",
    [[BIN / "vfnb", "eval"], [BIN / "vf-eval"], [BIN / "vf-run"], [sys.executable, "-m", "vfnb", "eval"]],
)
def test_the_names_of_eval(command: list[Any], tmp_path: Path) -> None:
    done = call([*map(str, command), "addition", "-m", "m", "--dry-run"], tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert 'id = "addition"' in done.stdout


def test_the_names_of_validate(tmp_path: Path) -> None:
    for command in (["vfnb", "validate"], ["vf-validate"]):
        done = call([str(BIN / command[0]), *command[1:], "addition", "-n", "1", "--only-setup"], tmp_path)
        assert (done.returncode, done.stdout) == (0, "addition: 1 tasks, 0 failed\n")


def test_a_run_as_a_process(tmp_path: Path) -> None:
    with Upstream(answer) as upstream:
        words = ["addition", "-m", "m", "-n", "2", "--model.base-url", upstream.url]
        done = call([str(BIN / "vfnb"), "eval", *words], tmp_path)
    assert done.returncode == 0, done.stderr
    assert "2 of 2 finished" in done.stdout
    assert len(list((tmp_path / "runs").iterdir())) == 1


def test_an_unknown_key_leaves_with_a_status_and_a_line(tmp_path: Path) -> None:
    done = call([str(BIN / "vfnb"), "eval", "addition", "--env.taskset.num-task", "5"], tmp_path)
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr == (
        "vfnb eval: --env.taskset.num-task: unknown flag; did you mean --env.taskset.num-tasks?\n"
    )


def test_ctrl_c_prints_one_line_and_the_same_command_goes_on(tmp_path: Path) -> None:
    def slow(body: Any, number: int) -> Say:
        return Say(text=answer(body, number), delay=0.0 if number < 3 else 30.0)

    words = [str(BIN / "vfnb"), "eval", "addition", "-n", "6", "-m", "m", "--dir", "out", "-c", "1"]
    with Upstream(slow) as upstream:
        words += ["--model.base-url", upstream.url]
        child = subprocess.Popen(
            words, cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        )
        end = time.monotonic() + 30
        while len(upstream.calls) < 4 and time.monotonic() < end:
            time.sleep(0.05)
        time.sleep(0.2)
        child.send_signal(signal.SIGINT)
        start = time.monotonic()
        out, err = child.communicate(timeout=30)
        assert time.monotonic() - start < 10
    assert child.returncode == 130
    assert out == ""
    assert err == "interrupted: 3 of 6 rollouts are done and stored in out; the same command goes on\n"
    with Upstream(answer) as upstream:
        done = call([*words[:-1], upstream.url], tmp_path)
        assert done.returncode == 0, done.stderr
        assert len(upstream.calls) == 6  # another endpoint is another experiment
    assert {trace.end_state for trace in vf.load(tmp_path / "out").traces} == {"completed"}


@pytest.mark.parametrize(
    "words", [["--help"], ["eval", "--help"], ["eval", "addition", "-m", "m", "--dry-run"]], ids=" ".join
)
def test_a_cold_start_is_cheap(words: list[str], tmp_path: Path) -> None:
    command = [sys.executable, "-c", COLD, *words]
    call(command, tmp_path)  # so that everything is compiled
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    done = call(command, tmp_path)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert done.returncode == 0
    assert done.stderr == "[]\n"
    cpu = after.ru_utime - before.ru_utime + after.ru_stime - before.ru_stime
    assert cpu < float(os.environ.get("VFNB_COLD_START_S", "3"))  # about 0.4 s on an idle machine


COLD = f"""
import sys
from vfnb.cli import main
status = main(sys.argv[1:])
print([name for name in {HEAVY!r} if name in sys.modules], file=sys.stderr)
sys.exit(status)
"""
