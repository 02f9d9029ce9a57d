"""The real pi against a scripted model, in each of its dialects."""

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
from vfnb_harnesses.pi import PiConfig, PiHarness

import vfnb as vf
from vfnb.errors import ContextLengthError, UpstreamRejected

pytestmark = [pytest.mark.real, pytest.mark.timeout(240)]


@pytest.mark.parametrize("dialect", PiHarness.DIALECTS)
def test_an_errand_with_a_tool_of_the_task_and_a_second_turn_is_one_line(
    dialect: str, tmp_path: Path
) -> None:
    config = PiConfig(
        dialect=dialect, system_prompt="Be brief.", disabled_tools=["edit"], skills=[skill(tmp_path)]
    )
    harness = then(PiHarness, config, "-- And now say 'bye'.")
    prompt = "@all: write it.\n\n - then add 1 and 2"
    task = errand(prompt=prompt, system_prompt="Work ${slowly}.")
    trace = do(harness, errand_model(harness, "bash"), task)
    assert not trace.errors and trace.end_state == "completed"
    assert trace.reward == 1.0 and trace.metrics == {"added": 1.0}
    assert [call.dialect for call in trace.calls] == [dialect] * 4
    assert len(trace.branches) == 1
    roles = [message.role for message in trace.messages]
    assert roles == ["system", "user", *["assistant", "tool"] * 2, "assistant", "user", "assistant"]
    assert "Be brief.\n\nWork ${slowly}." in trace.messages[0].text and "greeting" in trace.messages[0].text
    assert trace.messages[1].text == prompt
    assert trace.messages[5].text == "3"
    assert trace.messages[7].text == "-- And now say 'bye'."
    assert trace.last_reply == "Bye."
    desk = [harness.wire_name("desk", tool) for tool in ("add", "fail", "recite", "draw")]
    assert offered(trace) == ["read", "bash", "write", *desk]
    assert trace.info["program"]["printed"] == "1.6.0"


@pytest.mark.parametrize("dialect", PiHarness.DIALECTS)
def test_an_overflow_is_a_stop_although_the_program_exits_with_0(dialect: str) -> None:
    model = vf.Scripted([ContextLengthError("This model's maximum context length is 9 tokens")])
    trace = do(PiHarness(PiConfig(dialect=dialect)), model)
    assert trace.end_state == "stopped" and trace.stop_condition == "context_length"
    assert trace.reward == 0.0 and not trace.errors


def test_an_error_of_the_endpoint_is_no_zero() -> None:
    trace = do(PiHarness(), vf.Scripted([UpstreamRejected("no such model", status=400)], cycle=True))
    assert trace.end_state == "error" and trace.reward is None
    assert trace.errors[0].type == "UpstreamRejected"


def test_images_of_the_prompt_stay_in_the_history() -> None:
    trace = do(then(PiHarness, PiConfig(), "And now?"), vf.Scripted(["A dot.", "Still a dot."]), pictured())
    assert len(trace.branches) == 1 and trace.last_reply == "Still a dot."
    assert pictures(trace.messages[1]) == [PICTURE]


def test_files_of_the_task_and_above_it_are_no_instructions() -> None:
    trace = do(PiHarness(), vf.Scripted(["Done."]), Strewn(errand().data))
    assert "LEAK" not in trace.messages[0].text


def test_turns_are_counted_by_the_server() -> None:
    harness = PiHarness(PiConfig(max_turns=2))
    trace = do(harness, errand_model(harness, "bash"))
    assert trace.stop_condition == "max_turns" and len([call for call in trace.calls if not call.error]) == 2
    assert trace.reward == 1.0
