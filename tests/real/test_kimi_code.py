"""The real Kimi Code against a scripted model, in each of its dialects."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.errands import do, errand, errand_model, offered, skill, then
from vfnb_harnesses.kimi_code import KimiCodeConfig, KimiCodeHarness

import vfnb as vf
from vfnb.errors import ContextLengthError, UpstreamRejected

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


@pytest.mark.parametrize("dialect", KimiCodeHarness.DIALECTS)
def test_an_errand_with_a_tool_of_the_task_and_a_second_turn_is_one_line(
    dialect: str, tmp_path: Path
) -> None:
    config = KimiCodeConfig(
        dialect=dialect,
        system_prompt="Be brief.",
        disabled_tools=["AgentSwarm", "FetchURL"],
        skills=[skill(tmp_path)],
    )
    harness = then(KimiCodeHarness, config, "-- And now say 'bye'.")
    trace = do(harness, errand_model(harness, "Bash"), errand(system_prompt="Work ${slowly}."))
    assert not trace.errors and trace.end_state == "completed"
    assert trace.reward == 1.0 and trace.metrics == {"added": 1.0}
    assert [call.dialect for call in trace.calls] == [dialect] * 4
    assert len(trace.branches) == 1
    system, prompt = trace.messages[:2]
    assert system.text.endswith("Be brief.\n\nWork ${slowly}.") and "greeting" in system.text
    assert prompt.text.startswith(
        errand().data.prompt
    )  # in Messages its reminders are blocks of the same message
    results = [message.text for message in trace.messages if message.role == "tool"]
    assert results[1].endswith("seconds\n3")
    assert any(message.text.startswith("-- And now say 'bye'.") for message in trace.messages)
    assert trace.last_reply == "Bye."
    tools = offered(trace)
    assert {"Bash", "Agent", harness.wire_name("desk", "add")} <= set(tools)
    assert not {"AgentSwarm", "FetchURL"} & set(tools)
    assert trace.info["program"]["printed"] == "2.1.0"


def test_an_overflow_is_a_stop_after_the_program_has_tried_to_compact() -> None:
    model = vf.Scripted([ContextLengthError("This model's maximum context length is 9 tokens")], cycle=True)
    trace = do(KimiCodeHarness(), model)
    assert trace.end_state == "stopped" and trace.stop_condition == "context_length"
    assert len(trace.calls) > 1 and trace.reward == 0.0 and not trace.errors


def test_an_error_of_the_endpoint_is_no_zero() -> None:
    model = vf.Scripted([UpstreamRejected("no such model", status=400)], cycle=True)
    trace = do(KimiCodeHarness(KimiCodeConfig(dialect="messages")), model)
    assert trace.end_state == "error" and trace.reward is None
    assert trace.errors[0].type == "UpstreamRejected"
