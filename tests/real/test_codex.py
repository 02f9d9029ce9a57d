"""The real Codex, in the current version and in an old one, against a scripted model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from support.errands import do, errand, offered, skill, then
from support.forked import causes, linked, owned_once
from support.scripts import asks, call
from support.toolbox import PIXEL
from vfnb_harnesses.codex import CodexConfig, CodexHarness

import vfnb as vf
from vfnb.errors import ContextLengthError, UpstreamRejected

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]
OLD = "0.116.0"


def shell(command: str) -> vf.ToolCall:
    return call("exec_command", cmd=command)


def add(version: str) -> vf.ToolCall:
    """The task's own tool, as each version names it."""
    if version == OLD:
        return call("mcp__desk__add", a=1, b=2)
    return call("add", a=1, b=2).model_copy(update={"namespace": "mcp__desk"})


@pytest.mark.parametrize("version", [CodexHarness.VERSION, OLD])
def test_an_errand_with_a_tool_of_the_task_and_a_second_turn_is_one_line(
    version: str, tmp_path: Path
) -> None:
    config = CodexConfig(
        version=version,
        system_prompt='Be "brief".',
        disabled_tools=["web_search", "spawn_agent"],
        skills=[skill(tmp_path)],
    )
    harness = then(CodexHarness, config, "-- And now say 'bye'.")
    model = vf.Scripted(
        [
            asks(shell("echo hello > out.txt"), text="  I write.\n"),
            asks(add(version)),
            "Both done.",
            "Bye.",
        ]
    )
    trace = do(harness, model, errand(system_prompt="Work ${slowly}."))
    assert trace.end_state == "completed", trace.errors
    assert trace.reward == 1.0 and trace.metrics == {"added": 1.0}
    assert [made.dialect for made in trace.calls] == ["responses"] * 4
    assert len(trace.branches) == 1 and owned_once(trace)
    opening = [message.text for message in trace.messages[:4]]
    assert 'Be "brief".\n\nWork ${slowly}.' in opening[1] and "greeting: How to greet" in opening[1]
    assert opening[3] == errand().data.prompt
    results = [message.text for message in trace.messages if message.role == "tool"]
    assert len(results) == 2 and "3" in results[1]
    assert trace.messages[-2].text == "-- And now say 'bye'." and trace.last_reply == "Bye."
    tools = offered(trace)
    assert "exec_command" in tools and "add" in " ".join(tools)
    assert not {"web_search", "spawn_agent", "multi_agent_v1"} & set(tools)
    assert offered(trace, 3) == tools
    called = [made for message in trace.messages for made in getattr(message, "tool_calls", ())]
    assert [trace.tool_name(made) for made in called] == ["exec_command", "desk_add"]
    assert trace.info["program"]["printed"] == f"codex-cli {version}"


@pytest.mark.parametrize("version", [CodexHarness.VERSION, OLD])
def test_its_own_system_prompt_can_be_replaced_and_prompts_can_have_images(version: str) -> None:
    picture: Any = {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{PIXEL}"}}
    prompt: Any = [{"role": "user", "content": [picture, picture, {"type": "text", "text": "What is this?"}]}]

    class Talks(CodexHarness):
        async def run(self, session: Any, task: Any) -> Any:
            await super().run(session, task)
            said = [vf.UserMessage(content=[picture, {"type": "text", "text": "And this?"}])]  # type: ignore[list-item]
            return await self.resume(session, task, said)

    config = CodexConfig(version=version, system_prompt="You only look.", replace_system_prompt=True)
    model = vf.Scripted(["A dot.", "A dot."])
    trace = do(Talks(config), model, vf.Task(vf.TaskData(idx=0, prompt=prompt)))
    assert trace.end_state == "completed" and len(trace.branches) == 1, trace.errors
    assert trace.messages[0].text == "You only look."
    first, second = (trace.messages[place] for place in (3, 5))
    assert "What is this?" in first.text and first.model_dump_json().count(PIXEL) == 2
    assert "And this?" in second.text and second.model_dump_json().count(PIXEL) == 1
    assert "No such file" not in first.text + second.text


def test_its_turns_are_bounded() -> None:
    model = vf.Scripted(lambda messages: asks(shell("echo hello > out.txt")))
    trace = do(CodexHarness(CodexConfig(max_turns=2)), model)
    assert trace.end_state == "stopped" and trace.stop_condition == "max_turns"
    assert sum(made.error is None for made in trace.calls) == 2 and trace.reward == 1.0


def test_an_overflow_is_a_stop() -> None:
    model = vf.Scripted([ContextLengthError("This model's maximum context length is 9 tokens")], cycle=True)
    trace = do(CodexHarness(), model)
    assert trace.end_state == "stopped" and trace.stop_condition == "context_length"
    assert trace.reward == 0.0 and not trace.errors and len(trace.calls) == 1


def test_an_error_of_the_endpoint_is_no_zero() -> None:
    model = vf.Scripted([UpstreamRejected("no such model", status=400)], cycle=True)
    trace = do(CodexHarness(), model)
    assert trace.end_state == "error" and trace.reward is None
    assert trace.errors[0].type == "UpstreamRejected" and len(trace.calls) == 1


def test_a_stop_of_the_task_ends_it_at_once() -> None:
    class Stopped(type(errand())):  # type: ignore[misc]
        @vf.stop
        def two(self, trace: vf.Trace) -> bool:
            return len(trace.calls) >= 2

    model = vf.Scripted(lambda messages: asks(shell("echo hello > out.txt")))
    trace = do(CodexHarness(), model, Stopped(errand().data))
    assert trace.end_state == "stopped" and trace.stop_condition == "two"
    assert trace.reward == 1.0 and sum(made.error is None for made in trace.calls) == 2
    assert len(trace.calls) <= 3  # the refusal that ends it is not asked for again


@pytest.mark.parametrize("version", [CodexHarness.VERSION, OLD])
def test_a_compaction_is_told_from_its_request_and_its_summary(version: str) -> None:
    def script(messages: vf.Messages) -> Any:
        if "CONTEXT CHECKPOINT COMPACTION" in messages[-1].text:
            return "One file was written by the agent."
        if "Another language model started" in messages[-1].text:
            return "All done."
        if not any(message.role == "assistant" for message in messages):
            return asks(shell("echo hello > out.txt"), text="one")
        return asks(shell("echo again"), text="two", prompt_tokens=195_000)

    trace = do(CodexHarness(CodexConfig(version=version, compact_at=100_000)), vf.Scripted(script))
    assert trace.end_state == "completed", trace.errors
    assert trace.reward == 1.0 and trace.last_reply == "All done."
    assert causes(trace) == ["compaction"] and len(trace.calls) == 4
    ((kind, begun, told),) = linked(trace)
    assert kind == "compaction_of"
    assert all("One file was written by the agent." in message.text for message in (begun, told))
    assert owned_once(trace)


@pytest.mark.parametrize("version", [CodexHarness.VERSION, OLD])
def test_a_subagent_is_a_branch_of_its_own(version: str) -> None:
    def agents(name: str, **arguments: Any) -> vf.ToolCall:
        made = call(name, arguments)
        return made if version == OLD else made.model_copy(update={"namespace": "multi_agent_v1"})

    def script(messages: vf.Messages) -> Any:
        said = [message for message in messages if message.role == "assistant"]
        if "Write the file" in messages[3].text:
            return "The file is there." if said else asks(shell("echo hello > out.txt"), text="child")
        if not said:
            return asks(agents("spawn_agent", message="Write the file out.txt, please."))
        if len(said) == 1:
            child = json.loads(messages[-1].text)["agent_id"]
            return asks(agents("wait_agent", targets=[child], ids=[child], timeout_ms=30_000))
        return "All done."

    trace = do(CodexHarness(CodexConfig(version=version)), vf.Scripted(script))
    assert trace.end_state == "completed", trace.errors
    assert trace.reward == 1.0 and trace.last_reply == "All done."
    assert causes(trace) == ["subagent"] and len(trace.calls) >= 5  # one more where its notice comes late
    (task, by, asker), (back, answer, heard) = linked(trace)
    assert (task, back) == ("spawned_by", "returned_to")
    assert [made.name for made in asker.tool_calls] == ["spawn_agent"]
    assert answer.text == "The file is there." and answer.text in heard.text
    assert by.text == "Write the file out.txt, please." and heard.role == "tool"
    assert owned_once(trace)
