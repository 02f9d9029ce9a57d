"""Real agent programs run again on their recorded replies: in another box, with times and ids of their own."""

from __future__ import annotations

from typing import Any

import pytest
from support.errands import do, errand, errand_model, note
from support.scripts import asks, call
from vfnb_harnesses.claude_code import ClaudeCodeHarness
from vfnb_harnesses.codex import CodexHarness
from vfnb_harnesses.mini_swe_agent import MiniSWEAgentHarness
from vfnb_harnesses.pi import PiHarness

import vfnb as vf

pytestmark = [pytest.mark.real, pytest.mark.timeout(240)]

WRITE = "echo hello > out.txt"
SUBMIT = "echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT"


def model(harness: Any) -> vf.Scripted:
    """What writes the file with this program's shell tool."""
    if isinstance(harness, CodexHarness):
        return vf.Scripted([asks(call("exec_command", cmd=WRITE)), "Done."])
    if isinstance(harness, MiniSWEAgentHarness):
        return vf.Scripted([asks(call("bash", command=WRITE)), asks(call("bash", command=SUBMIT))])
    if isinstance(harness, ClaudeCodeHarness):
        return errand_model(harness, "Bash", description="writes")
    return errand_model(harness, "bash")


@pytest.mark.parametrize("kind", [CodexHarness, ClaudeCodeHarness, MiniSWEAgentHarness, PiHarness])
def test_a_program_does_the_same_again_without_a_model(kind: Any) -> None:
    task = note() if kind in (CodexHarness, MiniSWEAgentHarness) else errand()
    first = do(kind(), model(kind()), task)
    assert first.reward == 1.0, first.errors
    replay = vf.Replay(first)
    again = do(kind(), replay, task)
    assert not replay.differences, replay.differences
    assert again.reward == 1.0 and again.end_state == "completed"
    report = replay.report()
    assert report["calls"].tolist() == report["replayed"].tolist() and all(c.replayed for c in again.calls)


def test_a_program_that_is_told_other_words_differs_there() -> None:
    first = do(PiHarness(), model(PiHarness()))
    replay = vf.Replay(first)
    again = do(PiHarness(), replay, errand(prompt='Write "hello" into out.txt, please.'))
    assert again.reward is None and again.end_state == "error"
    assert replay.differences[0].asked.endswith("please.")
