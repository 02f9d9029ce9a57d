"""`%load_ext vfnb` in a real IPython shell."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from IPython.core.error import UsageError
from IPython.core.interactiveshell import InteractiveShell

import vfnb as vf
from vfnb.utils.source import code_hash


@pytest.fixture
def shell() -> Iterator[InteractiveShell]:
    InteractiveShell.clear_instance()
    made: Any = InteractiveShell.instance()
    made.history_manager.enabled = False
    made.run_cell("%load_ext vfnb\nimport vfnb as vf")
    yield made
    made.history_manager.end_session()
    InteractiveShell.clear_instance()


def run(shell: InteractiveShell, cell: str) -> Any:
    result: Any = shell.run_cell(cell)
    result.raise_error()
    return result.result


def task_cell(folder: Path) -> str:
    return f"""
class Echo(vf.Task[vf.TaskData]):
    @vf.reward
    def said(self, trace: vf.Trace) -> float:
        return float("yes" in trace.last_reply)

tasks = [Echo(vf.TaskData(idx=i, prompt=f"Say {{i}}")) for i in range(3)]
model = vf.Scripted(lambda messages: "yes " + messages[-1].text)
run = vf.evaluate(tasks, model=model, harness=loud, dir={str(folder / "run")!r}).wait(quiet=True)
"""


LOUD = '''%%harness loud
note = """several
lines"""
reply = await session.complete(task.prompt + "!" + note[-5:])
return reply.text.upper()
'''


def test_a_harness_cell_is_a_harness(shell: InteractiveShell, tmp_path: Path) -> None:
    run(shell, LOUD)
    run(shell, task_cell(tmp_path))
    made: vf.Run = shell.user_ns["run"]
    assert not made.summary.errors
    assert [trace.last_reply for trace in made.traces] == [f"YES SAY {i}!LINES" for i in range(3)]
    first = code_hash(shell.user_ns["loud"].function)
    run(shell, LOUD)
    assert first is not None and code_hash(shell.user_ns["loud"].function) == first
    run(shell, LOUD.replace("upper", "lower"))
    assert code_hash(shell.user_ns["loud"].function) != first


def test_a_reward_cell_scores_the_newest_finished_run(shell: InteractiveShell, tmp_path: Path) -> None:
    told = run(shell, "%%reward short\nreturn 1.0 / len(trace.last_reply)\n")
    assert "no finished run" in told
    run(shell, LOUD)
    run(shell, task_cell(tmp_path))
    made: vf.Run = shell.user_ns["run"]
    before = made.rewards["reward"].tolist()
    run(shell, "%%reward short --weight 2\nreturn 1.0 / len(trace.last_reply + task.prompt[:0])\n")
    lengths = [len(trace.last_reply) for trace in made.traces]
    assert sorted(made.rewards["short"]) == pytest.approx(sorted(1 / length for length in lengths))
    assert made.rewards["reward"].tolist() != before
    named = run(shell, "%%reward other --on run\nreturn 0.5\n")
    assert set(made.rewards["other"]) == {0.5} and named is not None


def test_vf_lists_the_runs(
    shell: InteractiveShell, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    run(shell, "%vf")
    assert "no runs" in capsys.readouterr().out
    run(shell, LOUD)
    run(shell, task_cell(tmp_path))
    run(shell, "%vf")
    assert "run: Run(run: finished, 3 of 3" in capsys.readouterr().out
    run(shell, "%vf run")
    assert "3 of 3" in capsys.readouterr().out


@pytest.mark.parametrize(
    ("cell", "told"),
    [
        ("%%harness\nreturn 1", "usage"),
        ("%%harness not-a-name\nreturn 1", "usage"),
        ("%%harness x\n# nothing", "empty"),
        ("%%reward x --weight much\nreturn 1", "not a number"),
        ("%%reward x --on nothing\nreturn 1", "no run 'nothing'"),
        ("%%reward x --wait 1\nreturn 1", "usage"),
        ("%%reward x'\nreturn 1", "No closing quotation"),
        ("%%reward class\nreturn 1", "usage"),
        ("%vf nothing", "no 'nothing'"),
    ],
)
def test_a_wrong_line_says_what_is_right(shell: InteractiveShell, cell: str, told: str) -> None:
    with pytest.raises(UsageError, match=told):
        run(shell, cell)


def test_a_mistake_in_the_cell_is_pythons_own(shell: InteractiveShell) -> None:
    with pytest.raises(SyntaxError):
        run(shell, "%%harness x\nreturn (1")


def test_odd_white_space_stays_in_the_cell(shell: InteractiveShell) -> None:
    run(shell, '%%reward odd\nx = \'a\u2028b\'\ny = """two\nlines"""\n\x0c\nreturn float(len(x + y))\n')
    assert shell.user_ns["odd"](None) == 12.0
