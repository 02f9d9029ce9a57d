"""The real Gemini CLI against a scripted model, and on a server that speaks another format."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.errands import do, errand, errand_model, offered, skill
from support.rollouts import served
from vfnb_harnesses.agent_program import AgentProgramConfig
from vfnb_harnesses.gemini_cli import GeminiCliHarness

import vfnb as vf
from vfnb.errors import ContextLengthError, UpstreamRejected

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]
SHELL = "run_shell_command"


def test_an_errand_with_a_tool_of_the_task_is_one_line(tmp_path: Path) -> None:
    config = AgentProgramConfig(
        system_prompt="Be brief.", disabled_tools=["google_web_search"], skills=[skill(tmp_path)]
    )
    harness = GeminiCliHarness(config)
    trace = do(harness, errand_model(harness, SHELL), errand(system_prompt="Work ${slowly}."))
    assert not trace.errors and trace.end_state == "completed"
    assert trace.reward == 1.0 and trace.metrics == {"added": 1.0}
    assert [call.dialect for call in trace.calls] == ["gemini"] * 3
    assert len(trace.branches) == 1
    told = "".join(message.text for message in trace.messages[:2])
    assert "Be brief.\n\nWork ${slowly}." in told and "greeting" in told
    assert trace.last_reply == "Both done."
    assert {SHELL, harness.wire_name("desk", "add")} <= set(offered(trace))
    assert "google_web_search" not in offered(trace)
    assert trace.info["program"]["printed"] == "0.61.0"


@pytest.mark.parametrize("dialect", ["chat", "messages"])
def test_the_same_on_a_server_of_another_format(dialect: str, monkeypatch: pytest.MonkeyPatch) -> None:
    harness = GeminiCliHarness()
    with served(errand_model(harness, SHELL)) as server:
        monkeypatch.setenv("OTHER_KEY", server.session.key)
        model = vf.Relay("mock", base_url=server.base_url, api_key_var="OTHER_KEY", dialect=dialect)
        trace = do(harness, model)
    assert not trace.errors and trace.end_state == "completed"
    assert trace.reward == 1.0 and trace.metrics == {"added": 1.0}
    assert {call.dialect for call in server.trace.calls} == {dialect}
    assert len(trace.branches) == 1 and len(server.trace.branches) == 1


def test_an_overflow_is_a_stop() -> None:
    trace = do(GeminiCliHarness(), vf.Scripted([ContextLengthError("maximum context length is 9 tokens")]))
    assert trace.end_state == "stopped" and trace.stop_condition == "context_length"
    assert trace.reward == 0.0 and not trace.errors


def test_an_error_of_the_endpoint_is_no_zero() -> None:
    trace = do(GeminiCliHarness(), vf.Scripted([UpstreamRejected("no such model", status=400)], cycle=True))
    assert trace.end_state == "error" and trace.reward is None
    assert trace.errors[0].type == "UpstreamRejected"
