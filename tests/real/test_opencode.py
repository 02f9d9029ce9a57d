"""The real opencode against a scripted model. It starts slowly: one run for many facts."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.errands import (
    PICTURE,
    Strewn,
    do,
    errand,
    errand_model,
    offered,
    pictured,
    pictures,
    skill,
    then,
)
from vfnb_harnesses.opencode import OpencodeConfig, OpencodeHarness

import vfnb as vf
from vfnb.errors import ContextLengthError

pytestmark = [pytest.mark.real, pytest.mark.timeout(400)]


def test_an_errand_with_a_tool_of_the_task_and_a_second_turn_is_one_line(tmp_path: Path) -> None:
    config = OpencodeConfig(
        system_prompt="Be brief.", disabled_tools=["webfetch"], skills=[skill(tmp_path)], output_size=7000
    )
    harness = then(OpencodeHarness, config, "-- And now say 'bye'.")
    model = errand_model(harness, "bash", description="writes")
    trace = do(harness, model, errand(system_prompt="Work ${slowly}."))
    assert not trace.errors and trace.end_state == "completed"
    assert trace.reward == 1.0 and trace.metrics == {"added": 1.0}
    assert len(trace.calls) == 4  # none for a title
    assert len(trace.branches) == 1
    roles = [message.role for message in trace.messages]
    assert roles == ["system", "user", *["assistant", "tool"] * 2, "assistant", "user", "assistant"]
    system, prompt = trace.messages[:2]
    assert "Be brief.\n\nWork ${slowly}." in system.text and "greeting" in system.text
    assert prompt.text == errand().data.prompt
    assert trace.messages[5].text == "3"
    assert trace.messages[7].text == "-- And now say 'bye'."
    assert trace.last_reply == "Bye."
    assert {"bash", "task", harness.wire_name("desk", "add")} <= set(offered(trace))
    assert "webfetch" not in offered(trace)
    assert trace.info["program"]["printed"] == "1.18.33"


def test_images_of_the_prompt_reach_the_model_and_settings_in_the_task_s_folder_and_above_do_not() -> None:
    task = Strewn(pictured().data)
    trace = do(OpencodeHarness(OpencodeConfig(dialect="responses")), vf.Scripted(["A dot."]), task)
    assert not trace.errors and trace.last_reply == "A dot."
    assert [call.dialect for call in trace.calls] == ["responses"]
    assert pictures(trace.messages[1]) == [PICTURE]
    assert "LEAK" not in trace.messages[0].text


def test_an_overflow_is_a_stop_after_the_program_has_tried_to_compact() -> None:
    model = vf.Scripted([ContextLengthError("This model's maximum context length is 9 tokens")], cycle=True)
    trace = do(OpencodeHarness(OpencodeConfig(dialect="messages")), model)
    assert trace.end_state == "stopped" and trace.stop_condition == "context_length"
    assert trace.reward == 0.0 and not trace.errors
