"""One errand under real programs, side by side."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.errands import ready
from support.scripts import asks, call
from vfnb_harnesses.claude_code import ClaudeCodeHarness
from vfnb_harnesses.codex import CodexHarness
from vfnb_harnesses.pi import PiHarness

import vfnb as vf

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

SHELLS = {"bash": "command", "Bash": "command", "exec_command": "cmd"}
"""The shell tools of the programs, each with the argument that takes the command."""


class Write(vf.Task[vf.TaskData]):
    @vf.reward
    async def wrote(self, runtime: vf.Runtime) -> float:
        return float((await runtime.read("out.txt")).decode() == "hello\n")


def model(messages: vf.Messages, tools: Any = None) -> Any:
    """Writes the file with whatever shell it is offered, then says so."""
    if any(message.role == "tool" for message in messages):
        return "Done."
    (shell,) = SHELLS.keys() & {tool.name for tool in tools or ()}
    return asks(call(shell, {SHELLS[shell]: "echo hello > out.txt"}), text="I write.")


def test_three_programs_solve_one_errand_and_are_compared(tmp_path: Path) -> None:
    programs = [PiHarness(), CodexHarness(), ClaudeCodeHarness()]
    for program in programs:
        ready(program)
    tasks = [Write(vf.TaskData(prompt=f"Write hello into out.txt, try {i}.")) for i in range(2)]
    three = vf.compare(
        tasks, harnesses=programs, model=vf.Scripted(model), concurrency=3, dir=tmp_path / "runs"
    )
    frame = three.wait().frame().set_index("harness")
    assert list(frame.index) == ["pi", "codex", "claude_code"]
    assert list(frame.reward) == [1.0] * 3 and list(frame.errors) == [0] * 3
    assert list(frame.turns) == [2] * 3 and list(frame.tool_calls) == [1] * 3
    assert list(frame.branches) == [1] * 3 and list(frame.rewrites) == [0] * 3
    assert frame.tokens_in["pi"] < frame.tokens_in["codex"] < frame.tokens_in["claude_code"]
    assert (frame.harness_s > frame.model_s).all() and (frame.time_s >= frame.harness_s).all()
    dialects = {name: run.frame("calls").dialect.unique().tolist() for name, run in three.runs.items()}
    assert dialects == {"pi": ["chat"], "codex": ["responses"], "claude_code": ["messages"]}
