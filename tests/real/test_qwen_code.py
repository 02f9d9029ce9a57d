"""The real Qwen Code against a scripted model, in each of its dialects."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.errands import do, errand, errand_model, offered, skill, then
from support.scripts import asks, call
from vfnb_harnesses.qwen_code import QwenCodeConfig, QwenCodeHarness

import vfnb as vf
from vfnb.errors import ContextLengthError, UpstreamRejected

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]
SHELL = "run_shell_command"


@pytest.mark.parametrize("dialect", QwenCodeHarness.DIALECTS)
def test_an_errand_with_a_tool_of_the_task_is_one_line_until_the_second_turn(
    dialect: str, tmp_path: Path
) -> None:
    config = QwenCodeConfig(
        dialect=dialect, system_prompt="Be brief.", disabled_tools=["notebook_edit"], skills=[skill(tmp_path)]
    )
    goes_on = dialect == "chat"  # a start of the program takes seconds
    harness = then(QwenCodeHarness, config, *(["-- And now say 'bye'."] if goes_on else []))
    task = errand(system_prompt="Work ${slowly}.")
    trace = do(harness, errand_model(harness, SHELL, is_background=False), task)
    assert not trace.errors and trace.end_state == "completed"
    assert trace.reward == 1.0 and trace.metrics == {"added": 1.0}
    assert [call.dialect for call in trace.calls] == [dialect] * (3 + goes_on)  # none for its memory
    first = trace.branches[0].messages
    assert [message.role for message in first] == ["system", "user", *["assistant", "tool"] * 2, "assistant"]
    assert first[0].text.endswith("Be brief.\n\nWork ${slowly}.")
    assert first[1].text.endswith(errand().data.prompt) and "greeting" in first[1].text
    assert first[5].text == "3" and first[6].text == "Both done."
    assert {SHELL, "agent", harness.wire_name("desk", "add")} <= set(offered(trace))
    assert "notebook_edit" not in offered(trace)
    assert trace.info["program"]["printed"] == "0.24.4"
    if not goes_on:
        assert len(trace.branches) == 1
        return
    fork, second = trace.branches[1].cause, trace.branches[1].messages
    assert fork is not None and (fork.cause, fork.index) == ("history_edited", 1)
    assert [message.role for message in second[:-2]] == [message.role for message in first]
    assert second[-2].text.endswith("-- And now say 'bye'.") and trace.last_reply == "Bye."


def test_an_overflow_is_a_stop() -> None:
    trace = do(QwenCodeHarness(), vf.Scripted([ContextLengthError("maximum context length is 9 tokens")]))
    assert trace.end_state == "stopped" and trace.stop_condition == "context_length"
    assert trace.reward == 0.0 and not trace.errors


def test_a_conversation_that_it_cannot_make_short_enough_is_an_overflow_too() -> None:
    write = {"command": "echo hello > out.txt", "is_background": False}
    model = vf.Scripted(
        [
            asks(call(SHELL, write), prompt_tokens=195_000),
            "<summary>The file is written, the sum is not made.</summary>",
        ]
    )
    trace = do(QwenCodeHarness(QwenCodeConfig(context_size=200_000, dialect="messages")), model)
    assert trace.end_state == "stopped" and trace.stop_condition == "context_length"
    assert trace.calls[1].markers == {"kind": "compaction"} and trace.reward == 1.0


def test_an_error_of_the_endpoint_is_no_zero() -> None:
    trace = do(QwenCodeHarness(), vf.Scripted([UpstreamRejected("no such model", status=400)], cycle=True))
    assert trace.end_state == "error" and trace.reward is None
    assert trace.errors[0].type == "UpstreamRejected"
