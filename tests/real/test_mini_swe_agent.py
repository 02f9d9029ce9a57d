"""The real mini-SWE-agent against a scripted model."""

from __future__ import annotations

from typing import Any

import pytest
from support.errands import note, side_by_side
from support.scripts import asks, call
from vfnb_harnesses.mini_swe_agent import MiniSWEAgentConfig, MiniSWEAgentHarness

import vfnb as vf
from vfnb.errors import ContextLengthError, UpstreamRejected

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

SYSTEM = "Mind {{ this }} and {% that %}. \U0001f600\x7f"
DONE = 'echo COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT; echo "key: $OPENAI_API_KEY."'


def write() -> vf.Response:
    """With odd spacing, which must come back as it was."""
    return asks(call("bash", '{"command":  "echo hello > out.txt" }'), text="  I write.\n")


@pytest.fixture(scope="module")
def traces() -> dict[str, vf.Trace]:
    """All rollouts of these tests, made at the same time: the program takes long to start."""
    too_long = ContextLengthError("This model's maximum context length is 9 tokens")
    gone = UpstreamRejected("no such account", status=401)
    kind, settings = MiniSWEAgentHarness, MiniSWEAgentConfig
    task = note(prompt="Write hello into out.txt {{ now }}.")
    rollouts: dict[str, Any] = {
        "errand": (
            kind(settings(system_prompt=SYSTEM)),
            vf.Scripted([write(), "No call.", asks(call("bash", command=DONE))]),
            task,
        ),
        "responses": (
            kind(settings(dialect="responses", max_turns=2)),
            vf.Scripted(lambda messages: write()),
            task,
        ),
        "never usable": (kind(), vf.Scripted(["No call."], cycle=True), task),
        "overflow": (kind(), vf.Scripted([write(), too_long]), task),
        "error": (kind(), vf.Scripted([write(), gone], cycle=True), task),
    }
    return dict(zip(rollouts, side_by_side(*rollouts.values()), strict=True))


def test_an_errand_in_which_a_reply_without_a_call_is_dropped(traces: dict[str, vf.Trace]) -> None:
    trace = traces["errand"]
    assert trace.end_state == "completed", trace.errors
    assert trace.reward == 1.0
    assert trace.answer == "key: .\n"  # the commands do not see it
    assert trace.info["program"]["printed"] == "2.4.6"
    assert trace.messages[0].text == SYSTEM
    assert "Write hello into out.txt {{ now }}." in trace.messages[1].text
    assert [branch.cause and (branch.cause.cause, branch.cause.detail) for branch in trace.branches] == [
        None,
        ("history_edited", "reply_dropped"),
    ]
    assert [message.role for message in trace.branches[0].messages][4:] == ["assistant"]
    assert "Tool call error" in trace.branches[1].messages[4].text


def test_in_responses_its_history_is_one_line_and_its_turns_are_bounded(traces: dict[str, vf.Trace]) -> None:
    trace = traces["responses"]
    assert trace.end_state == "stopped" and trace.stop_condition == "max_turns"
    assert trace.reward == 1.0 and len(trace.branches) == 1
    assert [made.dialect for made in trace.calls] == ["responses"] * 2


def test_replies_that_are_never_usable_are_a_stop_although_it_exits_with_0(
    traces: dict[str, vf.Trace],
) -> None:
    trace = traces["never usable"]
    assert trace.end_state == "stopped" and trace.stop_condition == "repeated_format_error"
    assert trace.reward == 0.0 and len(trace.calls) == 3


def test_an_overflow_is_a_stop(traces: dict[str, vf.Trace]) -> None:
    trace = traces["overflow"]
    assert trace.end_state == "stopped" and trace.stop_condition == "context_length"
    assert len(trace.calls) == 2 and trace.reward == 1.0


def test_an_error_of_the_endpoint_is_no_zero(traces: dict[str, vf.Trace]) -> None:
    trace = traces["error"]
    assert trace.end_state == "error" and trace.reward is None
    assert trace.errors[0].type == "UpstreamRejected"
