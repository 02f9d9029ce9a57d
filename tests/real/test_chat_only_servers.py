"""Real programs whose wire format the model's server does not speak: the calls are translated."""

from __future__ import annotations

from typing import Any

import pytest
from support.errands import do
from support.rollouts import served
from support.scripts import asks, call
from vfnb_harnesses.agent_program import AgentProgram
from vfnb_harnesses.claude_code import ClaudeCodeHarness
from vfnb_harnesses.codex import CodexHarness

import vfnb as vf

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


@pytest.mark.parametrize("dialect", ["chat", "gemini"])
@pytest.mark.parametrize("harness", [CodexHarness(), ClaudeCodeHarness()], ids=str)
def test_an_errand_on_a_server_that_only_speaks_this(
    harness: AgentProgram[Any], dialect: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def script(messages: vf.Messages, tools: Any = None) -> Any:
        names = {tool.name for tool in tools or ()}
        said = sum(message.role == "assistant" for message in messages)
        if said == 0 and "exec_command" in names:
            return asks(call("exec_command", cmd="echo hello > out.txt"), text="I write.")
        if said == 0:
            return asks(call("Bash", command="echo hello > out.txt", description="a step"), text="I write.")
        return asks(call("mcp__desk__add", a=1, b=2)) if said == 1 else "Both done."

    with served(vf.Scripted(script)) as server:
        monkeypatch.setenv("CHAT_ONLY_KEY", server.session.key)
        model = vf.Relay("mock", base_url=server.base_url, api_key_var="CHAT_ONLY_KEY", dialect=dialect)
        trace = do(harness, model)
    assert trace.end_state == "completed", trace.errors
    assert trace.reward == 1.0 and trace.metrics == {"added": 1.0}
    assert [made.dialect for made in trace.calls] == [harness.DIALECTS[0]] * 3
    assert {made.dialect for made in server.trace.calls} == {dialect}
    assert len(trace.branches) == 1 and trace.last_reply == "Both done."
