"""The real Terminus 2 in a tmux terminal, against a scripted model."""

from __future__ import annotations

import json
import shutil
from typing import Any

import pytest
from support.engines import need
from support.errands import note, side_by_side, skill
from support.forked import causes, owned_once
from vfnb_harnesses.terminus_2 import Terminus2Config, Terminus2Harness

import vfnb as vf
from vfnb.errors import ContextLengthError, UpstreamRejected

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


def types(
    *lines: str, done: bool = False, reasoning: str | None = None, words: int = 2
) -> vf.AssistantMessage:
    """A reply that types lines into the terminal."""
    commands = [{"keystrokes": line + "\n", "duration": 1.0} for line in lines]
    said = {"analysis": "Look. " * words, "plan": "I do.", "commands": commands, "task_complete": done}
    return vf.AssistantMessage(content=f" {json.dumps(said, indent=1)}\n", reasoning_content=reasoning)


WRITE = types("echo hello > out.txt", "command -v python3; env | grep -c API_KEY", reasoning="Hm. ")


def compacts(messages: vf.Messages) -> vf.AssistantMessage | str:
    """A first reply that fills the context, and what is asked for the summary."""
    asked = messages[-1].text
    if "hand off your work" in asked:
        return "A file was written."
    if "picking up work" in asked:
        return "Which file?"
    if "has a few questions" in asked:
        return "It is out.txt."
    if "Here are the answers" in asked or "Are you sure" in asked:
        return types(done=True)
    return types("echo hello > out.txt", words=2500)


@pytest.fixture(scope="module")
def traces(tmp_path_factory: pytest.TempPathFactory) -> dict[str, vf.Trace]:
    """All rollouts of these tests, made at the same time: the program takes long to start."""
    need(shutil.which("tmux"), "tmux", "apt-get install --no-install-recommends tmux")
    too_long = ContextLengthError("This model's maximum context length is 9 tokens")
    gone = UpstreamRejected("no such account", status=401)
    kind, settings = Terminus2Harness, Terminus2Config
    skills = [skill(tmp_path_factory.mktemp("skills"))]
    rollouts: dict[str, Any] = {
        "errand": (
            kind(settings(system_prompt="Be brief.", skills=skills)),
            vf.Scripted([WRITE, "No JSON. ", types(done=True), types(done=True)]),
            note(),
        ),
        "responses": (
            kind(settings(dialect="responses", max_turns=2)),
            vf.Scripted(lambda messages: WRITE),
            note(),
        ),
        "summary": (kind(settings(context=10_500)), vf.Scripted(compacts), note()),
        "overflow": (kind(), vf.Scripted([WRITE, too_long]), note()),
        "error": (kind(), vf.Scripted([gone], cycle=True), note()),
    }
    return dict(zip(rollouts, side_by_side(*rollouts.values()), strict=True))


def test_an_errand_with_a_reply_that_cannot_be_read_is_one_line(traces: dict[str, vf.Trace]) -> None:
    trace = traces["errand"]
    assert trace.end_state == "completed", trace.errors
    assert trace.reward == 1.0 and len(trace.branches) == 1
    assert trace.info["program"]["printed"] == "0.25.0"
    opening = trace.messages[0].text
    assert 'Be brief.\n\nWrite "hello" into out.txt.' in opening and "greeting" in opening
    screen, error, confirm = (message.text for message in trace.messages[2::2])
    assert f"\n{shutil.which('python3')}\n0\n" in screen  # the box's own PATH, and no key
    assert "No valid JSON" in error and "Are you sure" in confirm
    assert trace.messages[1].reasoning_content == "Hm. "
    assert not trace.branches[0].dropped_reasoning


def test_in_responses_it_goes_on_by_id_and_its_turns_are_counted_by_the_server(
    traces: dict[str, vf.Trace],
) -> None:
    trace = traces["responses"]
    assert trace.end_state == "stopped" and trace.stop_condition == "max_turns"
    assert trace.reward == 1.0 and len(trace.branches) == 1 and len(trace.messages) == 4
    assert {made.dialect for made in trace.calls} == {"responses"}


def test_with_a_context_it_summarises_and_says_so(traces: dict[str, vf.Trace]) -> None:
    trace = traces["summary"]
    assert trace.end_state == "completed", trace.errors
    assert trace.reward == 1.0 and len(trace.calls) == 6
    assert causes(trace) == ["compaction"] * 2 and owned_once(trace)


def test_an_overflow_is_a_stop(traces: dict[str, vf.Trace]) -> None:
    trace = traces["overflow"]
    assert trace.end_state == "stopped" and trace.stop_condition == "context_length"
    assert trace.reward == 1.0


def test_an_error_of_the_endpoint_is_no_zero(traces: dict[str, vf.Trace]) -> None:
    trace = traces["error"]
    assert trace.end_state == "error" and trace.reward is None
    assert trace.errors[0].type == "UpstreamRejected"
