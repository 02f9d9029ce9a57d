"""The real Qwen Code against a scripted model, in each of its dialects."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.errands import do, errand, errand_model, offered, skill, then
from vfnb_harnesses.qwen_code import QwenCodeConfig, QwenCodeHarness

import vfnb as vf
from vfnb.errors import ContextLengthError, UpstreamRejected

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]
SHELL = "run_shell_command"


@pytest.mark.parametrize("dialect", QwenCodeHarness.DIALECTS)
def test_an_errand_with_a_tool_of_the_task_is_one_line(dialect: str, tmp_path: Path) -> None:
    config = QwenCodeConfig(
        dialect=dialect, system_prompt="Be brief.", disabled_tools=["notebook_edit"], skills=[skill(tmp_path)]
    )
    harness = QwenCodeHarness(config)
    trace = do(
        harness, errand_model(harness, SHELL, is_background=False), errand(system_prompt="Work ${slowly}.")
    )
    assert not trace.errors and trace.end_state == "completed"
    assert trace.reward == 1.0 and trace.metrics == {"added": 1.0}
    assert [call.dialect for call in trace.calls] == [dialect] * 3
    assert len(trace.branches) == 1
    system, prompt = trace.messages[:2]
    assert system.text.endswith("Be brief.\n\nWork ${slowly}.")
    assert prompt.text.endswith(errand().data.prompt) and "greeting" in prompt.text
    assert [message.text for message in trace.messages if message.role == "tool"][1] == "3"
    assert trace.last_reply == "Both done."
    assert {SHELL, "agent", harness.wire_name("desk", "add")} <= set(offered(trace))
    assert "notebook_edit" not in offered(trace)
    assert trace.info["program"]["printed"] == "0.24.4"


def test_a_second_turn_has_the_history_with_another_first_message() -> None:
    harness = then(QwenCodeHarness, QwenCodeConfig(system_prompt="Be brief."), "-- And now say 'bye'.")
    trace = do(harness, errand_model(harness, SHELL, is_background=False))
    assert not trace.errors and len(trace.calls) == 4  # none for its memory
    first, second = trace.branches
    assert second.cause is not None and second.cause.cause == "history_edited" and second.cause.index == 1
    assert [message.role for message in second.messages[:-2]] == [message.role for message in first.messages]
    assert second.messages[-2].text.endswith("-- And now say 'bye'.")
    assert trace.last_reply == "Bye."


def test_an_overflow_is_a_stop() -> None:
    trace = do(QwenCodeHarness(), vf.Scripted([ContextLengthError("maximum context length is 9 tokens")]))
    assert trace.end_state == "stopped" and trace.stop_condition == "context_length"
    assert trace.reward == 0.0 and not trace.errors


def test_an_error_of_the_endpoint_is_no_zero() -> None:
    trace = do(QwenCodeHarness(), vf.Scripted([UpstreamRejected("no such model", status=400)], cycle=True))
    assert trace.end_state == "error" and trace.reward is None
    assert trace.errors[0].type == "UpstreamRejected"
