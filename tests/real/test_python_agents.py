"""Agent libraries, each in its own environment, against a scripted model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.errands import do, errand, errand_model, note, offered, side_by_side, skill, then
from support.forked import causes
from support.scripts import asks, call
from vfnb_harnesses.claude_agent_sdk import ClaudeAgentSDKConfig, ClaudeAgentSDKHarness
from vfnb_harnesses.driven import DrivenProgram
from vfnb_harnesses.langgraph import LangGraphHarness
from vfnb_harnesses.openai_agents import OpenAIAgentsHarness
from vfnb_harnesses.pydantic_ai import PydanticAIConfig, PydanticAIHarness
from vfnb_harnesses.smolagents import SmolAgentsConfig, SmolAgentsHarness

import vfnb as vf
from vfnb.errors import ContextLengthError, UpstreamRejected

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

GOING_ON: list[type[DrivenProgram[Any]]] = [OpenAIAgentsHarness, PydanticAIHarness, LangGraphHarness]
LIBRARIES = [*GOING_ON, SmolAgentsHarness, ClaudeAgentSDKHarness]


def shell(kind: type[DrivenProgram[Any]]) -> vf.Response:
    """A reply that writes the file by the library's shell tool."""
    command = "echo hello > out.txt"
    if kind is ClaudeAgentSDKHarness:
        return asks(call("Bash", command=command, description="a step"))
    return asks(call("bash", command=command))


@pytest.mark.parametrize("kind", GOING_ON, ids=lambda kind: kind.NAME)
def test_an_errand_with_a_tool_of_the_task_and_a_second_turn_is_one_line(kind: Any) -> None:
    rollouts: list[Any] = []
    for dialect in kind.DIALECTS:
        config = kind.config_type()(dialect=dialect, system_prompt="Be brief.", disabled_tools=["edit"])
        harness = then(kind, config, "-- And now say 'bye'.")
        rollouts.append((harness, errand_model(harness, "bash"), errand(system_prompt="Work ${slowly}.")))
    for dialect, trace in zip(kind.DIALECTS, side_by_side(*rollouts), strict=True):
        assert trace.end_state == "completed", trace.errors
        assert trace.reward == 1.0 and trace.metrics == {"added": 1.0}
        assert [made.dialect for made in trace.calls] == [dialect] * 4
        assert len(trace.branches) == 1
        roles = [message.role for message in trace.messages]
        assert roles == ["system", "user", *["assistant", "tool"] * 2, "assistant", "user", "assistant"]
        assert trace.messages[0].text == "Be brief.\n\nWork ${slowly}."
        assert trace.messages[1].text == errand().data.prompt
        assert trace.messages[5].text == "3"
        assert trace.messages[7].text == "-- And now say 'bye'."
        assert trace.answer == "Bye."
        names = {kind().wire_name("desk", tool) for tool in ("add", "fail", "recite", "draw")}
        assert set(offered(trace)) == {"bash", "read", "write", *names}
        assert trace.info["program"]["printed"] == kind.VERSION


def test_pydantic_ai_moves_reasoning_outside_of_chat() -> None:
    thoughtful = vf.AssistantMessage(
        content="I write.",
        reasoning_content="Hm.",
        tool_calls=[call("bash", command="echo hello > out.txt")],
    )
    kinds = PydanticAIHarness.DIALECTS
    traces = side_by_side(
        *(
            (PydanticAIHarness(PydanticAIConfig(dialect=dialect)), vf.Scripted([thoughtful, "Done."]), note())
            for dialect in kinds
        )
    )
    assert [trace.end_state for trace in traces] == ["completed"] * 3
    assert [causes(trace) for trace in traces] == [[], ["history_edited"], ["history_edited"]]


def test_smolagents_rewrites_every_reply_of_tool_calls_and_of_code() -> None:
    config = SmolAgentsConfig(system_prompt="Be brief.", disabled_tools=["edit"])
    calls = [
        asks(call("bash", command="echo hello > out.txt")),
        asks(call("desk_add", a=1, b=2)),
        asks(call("final_answer", answer="Both done.")),
    ]
    code = "<code>\nprint(bash('echo hello > out.txt'))\n</code>"
    end = "<code>\nfinal_answer(desk_add(a=1, b=2))\n</code>"
    by_calls, by_code = side_by_side(
        (SmolAgentsHarness(config), vf.Scripted(calls), errand()),
        (SmolAgentsHarness(SmolAgentsConfig(code=True)), vf.Scripted([f"I write.\n{code}", end]), errand()),
    )
    for trace in (by_calls, by_code):
        assert trace.end_state == "completed", trace.errors
        assert trace.reward == 1.0 and trace.metrics == {"added": 1.0}
        forks = [(branch.cause.cause, branch.cause.detail) for branch in trace.branches if branch.cause]
        assert forks == [("history_edited", "reply_rewritten")] * (len(trace.calls) - 1)
    assert by_calls.answer == "Both done." and by_code.answer == "3"
    assert "Be brief." in by_calls.messages[0].text
    assert by_calls.messages[-2].text == "Observation:\n3"
    names = {f"desk_{tool}" for tool in ("add", "fail", "recite", "draw")}
    assert set(offered(by_calls)) == {"bash", "read", "write", "final_answer", *names}
    assert offered(by_code) == []


def test_the_claude_agent_sdk_does_an_errand_in_one_line(tmp_path: Path) -> None:
    config = ClaudeAgentSDKConfig(
        system_prompt="Be brief.", disabled_tools=["WebFetch"], skills=[skill(tmp_path)]
    )
    harness = then(ClaudeAgentSDKHarness, config, "-- And now say 'bye'.")
    model = errand_model(harness, "Bash", description="writes")
    trace = do(harness, model, errand(system_prompt="Work ${slowly}."))
    assert trace.end_state == "completed", trace.errors
    assert trace.reward == 1.0 and trace.metrics == {"added": 1.0} and trace.answer == "Bye."
    assert [made.dialect for made in trace.calls] == ["messages"] * 4
    assert len(trace.branches) == 1
    assert trace.messages[0].text.endswith("Be brief.\n\nWork ${slowly}.")
    assert any("greeting" in message.text for message in trace.messages[:4])
    assert {"Bash", "mcp__desk__add"} <= set(offered(trace)) and "WebFetch" not in offered(trace)


def test_a_library_that_gives_up_on_the_model_is_a_stop() -> None:
    def model() -> vf.Scripted:
        return vf.Scripted([shell(OpenAIAgentsHarness), asks(call("no_such_tool"))])

    config = PydanticAIConfig(retries=0)
    for trace in side_by_side(
        (OpenAIAgentsHarness(), model(), note()), (PydanticAIHarness(config), model(), note())
    ):
        assert (trace.end_state, trace.stop_condition) == ("stopped", "model_behavior"), trace.errors
        assert trace.reward == 1.0


def each(script: Callable[[Any], vf.Scripted], **settings: Any) -> dict[str, vf.Trace]:
    """A rollout of each library, by its name."""
    traces = side_by_side(
        *((kind(kind.config_type()(**settings)), script(kind), note()) for kind in LIBRARIES)
    )
    return {kind.NAME: trace for kind, trace in zip(LIBRARIES, traces, strict=True)}


def test_turns_are_bounded() -> None:
    for name, trace in each(lambda kind: vf.Scripted(lambda messages: shell(kind)), max_turns=2).items():
        assert (trace.end_state, trace.stop_condition) == ("stopped", "max_turns"), (name, trace.errors)
        asked = 3 if name == "smolagents" else 2  # it asks once more, for an answer
        assert sum(made.error is None for made in trace.calls) == asked and trace.reward == 1.0, name


def test_an_overflow_is_a_stop() -> None:
    too_long = ContextLengthError("This model's maximum context length is 9 tokens")
    for name, trace in each(lambda kind: vf.Scripted([shell(kind), *[too_long] * 9])).items():
        assert (trace.end_state, trace.stop_condition) == ("stopped", "context_length"), (name, trace.errors)
        assert trace.reward == 1.0, name


def test_an_error_of_the_endpoint_is_no_zero() -> None:
    gone = UpstreamRejected("no such model", status=404)
    for name, trace in each(lambda kind: vf.Scripted([gone], cycle=True)).items():
        assert trace.end_state == "error" and trace.reward is None, name
        assert trace.errors[0].type == "UpstreamRejected", name
