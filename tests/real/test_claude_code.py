"""The real Claude Code against a scripted model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from support.errands import do, errand, offered, skill, then
from support.forked import causes, linked, owned_once
from support.scripts import asks, call
from support.toolbox import PIXEL
from vfnb_harnesses.claude_code import ClaudeCodeConfig, ClaudeCodeHarness

import vfnb as vf
from vfnb.errors import ContextLengthError, UpstreamRejected

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]


def bash(command: str) -> vf.ToolCall:
    return call("Bash", command=command, description="a step")


def test_an_errand_with_a_tool_of_the_task_and_a_second_turn_is_one_line(tmp_path: Path) -> None:
    config = ClaudeCodeConfig(
        system_prompt="Be brief.", disabled_tools=["WebFetch", "Agent"], skills=[skill(tmp_path)]
    )
    harness = then(ClaudeCodeHarness, config, "-- And now say 'bye'.")
    model = vf.Scripted(
        [
            asks(bash("echo hello > out.txt"), text="  I write.\n"),
            asks(call("mcp__desk__add", a=1, b=2)),
            "Both done.",
            "Bye.",
        ]
    )
    trace = do(harness, model, errand(system_prompt="Work ${slowly}."))
    assert trace.end_state == "completed", trace.errors
    assert trace.reward == 1.0 and trace.metrics == {"added": 1.0}
    assert [made.dialect for made in trace.calls] == ["messages"] * 4
    assert len(trace.branches) == 1 and owned_once(trace)
    system, prompt, around = trace.messages[:3]
    assert system.text.endswith("Be brief.\n\nWork ${slowly}.") and "billing" not in system.text
    assert prompt.text.endswith(errand().data.prompt)
    assert around.role == "system" and "greeting: How to greet" in around.text
    results = [message.text for message in trace.messages if message.role == "tool"]
    assert len(results) == 2 and "3" in results[1]
    assert trace.messages[-2].text == "-- And now say 'bye'." and trace.last_reply == "Bye."
    tools = offered(trace)
    assert {"Bash", "Read", "mcp__desk__add"} <= set(tools)
    assert not {"WebFetch", "Agent", "ToolSearch"} & set(tools)
    assert offered(trace, 3) == tools
    assert trace.info["program"]["printed"] == "2.1.332 (Claude Code)"


def test_its_own_system_prompt_can_be_replaced_and_prompts_can_have_images() -> None:
    picture: Any = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    prompt: Any = [{"role": "user", "content": [picture, picture, {"type": "text", "text": "What is this?"}]}]

    class Talks(ClaudeCodeHarness):
        async def run(self, session: Any, task: Any) -> Any:
            await super().run(session, task)
            said = [vf.UserMessage(content=[picture, {"type": "text", "text": "And this?"}])]  # type: ignore[list-item]
            return await self.resume(session, task, said)

    config = ClaudeCodeConfig(system_prompt="You only look.", replace_system_prompt=True)
    model = vf.Scripted(["A dot.", "A dot."])
    trace = do(Talks(config), model, vf.Task(vf.TaskData(idx=0, prompt=prompt)))
    assert trace.end_state == "completed" and len(trace.branches) == 1, trace.errors
    assert "You only look." in trace.messages[0].text and "security testing" not in trace.messages[0].text
    first, second = (next(m for m in trace.messages if text in m.text) for text in ("What is", "And this"))
    assert first.model_dump_json().count(PIXEL) == 2 and second.model_dump_json().count(PIXEL) == 1


def test_its_turns_are_bounded() -> None:
    model = vf.Scripted(lambda messages: asks(bash("echo hello > out.txt")))
    trace = do(ClaudeCodeHarness(ClaudeCodeConfig(max_turns=2)), model)
    assert trace.end_state == "stopped" and trace.stop_condition == "max_turns"
    assert len(trace.calls) == 2 and trace.reward == 1.0


def test_an_overflow_is_a_stop() -> None:
    model = vf.Scripted([ContextLengthError("This model's maximum context length is 9 tokens")], cycle=True)
    trace = do(ClaudeCodeHarness(), model)
    assert trace.end_state == "stopped" and trace.stop_condition == "context_length"
    assert trace.reward == 0.0 and not trace.errors


def test_an_error_of_the_endpoint_is_no_zero() -> None:
    model = vf.Scripted([UpstreamRejected("no such model", status=400)], cycle=True)
    trace = do(ClaudeCodeHarness(), model)
    assert trace.end_state == "error" and trace.reward is None
    assert trace.errors[0].type == "UpstreamRejected"


def test_a_stop_of_the_task_ends_it_at_once() -> None:
    class Stopped(type(errand())):  # type: ignore[misc]
        @vf.stop
        def two(self, trace: vf.Trace) -> bool:
            return len(trace.calls) >= 2

    model = vf.Scripted(lambda messages: asks(bash("echo hello > out.txt")))
    trace = do(ClaudeCodeHarness(), model, Stopped(errand().data))
    assert trace.end_state == "stopped" and trace.stop_condition == "two"
    assert trace.reward == 1.0 and sum(made.error is None for made in trace.calls) == 2
    assert len(trace.calls) <= 3  # the refusal that ends it is not asked for again


@pytest.mark.parametrize("window", [100_000, 60_000])
def test_a_compaction_is_told_from_its_request_and_its_summary(window: int) -> None:
    def script(messages: vf.Messages) -> Any:
        if "Respond with TEXT ONLY" in messages[-1].text:
            return (
                "<analysis>all is well</analysis>\n<summary>\nOne file was written by the agent.\n</summary>"
            )
        said = [message for message in messages if message.role == "assistant"]
        if "being continued" in messages[1].text:
            return "All done."
        if not said:
            return asks(bash("echo hello > out.txt"), text="one")
        return asks(bash("echo again"), text="two", prompt_tokens=window - 10_000)

    trace = do(ClaudeCodeHarness(ClaudeCodeConfig(compact_at=window)), vf.Scripted(script))
    assert trace.end_state == "completed", trace.errors
    assert trace.reward == 1.0 and trace.last_reply == "All done."
    assert set(causes(trace)) == {"compaction"}, causes(trace)
    again = [node for node in trace.nodes if node.message.text == "two"]
    assert [node.sampled for node in again] == [True, False]  # said again after the summary
    ((kind, begun, told),) = linked(trace)
    assert kind == "compaction_of"
    assert all("One file was written by the agent." in message.text for message in (begun, told))
    assert owned_once(trace)


@pytest.mark.parametrize("background", [True, False])
def test_a_subagent_is_a_branch_of_its_own(background: bool) -> None:
    def script(messages: vf.Messages) -> Any:
        text = "\n".join(message.text for message in messages if message.role != "assistant")
        said = [message for message in messages if message.role == "assistant"]
        if "You are an agent for Claude Code" in messages[0].text:
            return "The file is there." if said else asks(bash("echo hello > out.txt"), text="child")
        if not said:
            asked = call(
                "Agent",
                description="write",
                prompt="Write the file out.txt, please.",
                subagent_type="general-purpose",
                run_in_background=background,
            )
            return asks(asked, text="I have it written.")
        return "All done." if "The file is there." in text else "I wait."

    trace = do(ClaudeCodeHarness(), vf.Scripted(script))
    assert trace.end_state == "completed", trace.errors
    assert trace.reward == 1.0 and trace.last_reply == "All done."
    assert causes(trace) == ["subagent"]
    (task, _, asker), (back, answer, heard) = linked(trace)
    assert (task, back) == ("spawned_by", "returned_to")
    assert [made.name for made in asker.tool_calls] == ["Agent"]
    assert answer.text == "The file is there." and answer.text in heard.text
    assert heard.role == ("user" if background else "tool")
    assert owned_once(trace)
