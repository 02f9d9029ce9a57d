"""The real Kimi Code against a scripted model, in each of its dialects."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.errands import do, errand, errand_model, offered, skill, then
from support.scripts import asks, call
from vfnb_harnesses.kimi_code import KimiCodeConfig, KimiCodeHarness

import vfnb as vf
from vfnb.errors import ContextLengthError, UpstreamRejected

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


@pytest.mark.parametrize("dialect", KimiCodeHarness.DIALECTS)
def test_an_errand_with_a_tool_of_the_task_is_one_line(dialect: str, tmp_path: Path) -> None:
    config = KimiCodeConfig(
        dialect=dialect,
        system_prompt="Be brief.",
        disabled_tools=["AgentSwarm", "FetchURL"],
        skills=[skill(tmp_path)],
    )
    goes_on = dialect == "responses"  # a start of the program takes seconds
    harness = then(KimiCodeHarness, config, *(["-- And now say 'bye'."] if goes_on else []))
    trace = do(harness, errand_model(harness, "Bash"), errand(system_prompt="Work ${slowly}."))
    assert not trace.errors and trace.end_state == "completed"
    assert trace.reward == 1.0 and trace.metrics == {"added": 1.0}
    assert [call.dialect for call in trace.calls] == [dialect] * (3 + goes_on)
    assert len(trace.branches) == 1
    system, prompt = trace.messages[:2]
    assert system.text.endswith("Be brief.\n\nWork ${slowly}.") and "greeting" in system.text
    assert prompt.text.startswith(
        errand().data.prompt
    )  # in Messages its reminders are blocks of the same message
    results = [message.text for message in trace.messages if message.role == "tool"]
    assert results[1].endswith("seconds\n3")
    users = [message.text for message in trace.messages if message.role == "user"]
    assert any(text.startswith("-- And now say 'bye'.") for text in users) == goes_on
    assert trace.last_reply == ("Bye." if goes_on else "Both done.")
    tools = offered(trace)
    assert {"Bash", "Agent", harness.wire_name("desk", "add")} <= set(tools)
    assert not {"AgentSwarm", "FetchURL"} & set(tools)
    assert trace.info["program"]["printed"] == "2.1.0"


def test_a_subagent_and_a_compaction_are_branches_with_their_causes() -> None:
    summary = "The file is written, the sum is not made yet."
    model = vf.Scripted(
        [
            asks(call("Agent", prompt="Count the files of this folder.", description="counts files")),
            "No files at all.",
            asks(call("Bash", command="echo hello > out.txt"), prompt_tokens=195_000),
            summary,
            "Done.",
        ]
    )
    trace = do(KimiCodeHarness(KimiCodeConfig(context_size=200_000, dialect="messages")), model)
    assert not trace.errors and trace.last_reply == "Done." and trace.reward == 1.0
    assert [branch.cause and branch.cause.cause for branch in trace.branches] == [
        None,
        "subagent",
        "compaction",
    ]
    assert sum(node.sampled for node in trace.nodes) == 5
    assert summary in trace.branches[2].messages[1].text


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
