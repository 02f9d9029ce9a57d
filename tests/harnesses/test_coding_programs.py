"""Codex and Claude Code: settings that are refused before any call, and how their output is read."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest
from vfnb_harnesses.agent_program import AgentProgram, Reading
from vfnb_harnesses.claude_code import ClaudeCodeConfig, ClaudeCodeHarness
from vfnb_harnesses.codex import CodexConfig, CodexHarness

import vfnb as vf
from vfnb.errors import ConfigError
from vfnb.interception.markers import MarkerReader
from vfnb.runtimes import ProgramResult, SubprocessConfig


def read(harness: AgentProgram[Any], *events: dict[str, Any], status: int = 0, stderr: str = "") -> Reading:
    """What a harness makes of these lines of output."""
    stdout = "Reading prompt from stdin...\n" + "".join(json.dumps(event) + "\n" for event in events)
    session: Any = None
    return asyncio.run(harness.read(session, ProgramResult(status, stdout, stderr, 1.0)))


@pytest.mark.parametrize("version", [None, "0.116.0"])
def test_a_tool_that_codex_cannot_do_without_is_refused(version: str | None) -> None:
    config = CodexConfig(version=version, disabled_tools=["web_search", "update_plan"])
    with pytest.raises(ConfigError, match=r"no switch for 'update_plan'; it can do without .*web_search"):
        CodexHarness(config).check(SubprocessConfig())


def test_older_versions_of_codex_have_fewer_switches() -> None:
    CodexHarness(CodexConfig(disabled_tools=["view_image"])).check(SubprocessConfig())
    with pytest.raises(ConfigError, match=r"codex 0\.116\.0 has no switch for 'view_image'"):
        CodexHarness(CodexConfig(version="0.116.0", disabled_tools=["view_image"])).check(SubprocessConfig())


def test_a_tool_that_claude_code_does_not_have_is_refused() -> None:
    rules = ["Bash(git *)", "mcp__desk__add", "WebFetch"]
    ClaudeCodeHarness(ClaudeCodeConfig(disabled_tools=rules)).check(SubprocessConfig())
    ClaudeCodeHarness(ClaudeCodeConfig(version="9.9", disabled_tools=["New"])).check(SubprocessConfig())
    with pytest.raises(ConfigError, match=r"no tool 'bash'; did you mean 'Bash'\? It has Agent, Bash"):
        ClaudeCodeHarness(ClaudeCodeConfig(disabled_tools=["bash"])).check(SubprocessConfig())


@pytest.mark.parametrize(
    "harness",
    [
        CodexHarness(CodexConfig(replace_system_prompt=True)),
        ClaudeCodeHarness(ClaudeCodeConfig(replace_system_prompt=True)),
    ],
    ids=str,
)
def test_nothing_cannot_replace_the_system_prompt(harness: AgentProgram[Any]) -> None:
    harness.check_task(vf.Task(vf.TaskData(idx=0, prompt="go", system_prompt="Be brief.")))
    with pytest.raises(ConfigError, match=r"set harness\.system_prompt"):
        harness.check_task(vf.Task(vf.TaskData(idx=0, prompt="go")))


def test_which_of_its_agents_asks_and_what_for() -> None:
    claude, codex = (MarkerReader(kind.MARKERS).read for kind in (ClaudeCodeHarness, CodexHarness))
    assert claude({"x-claude-code-session-id": "s1"}, {}) == {}
    assert claude({"x-claude-code-session-id": "s1", "x-claude-code-agent-id": "a1"}, {}) == {"agent": "a1"}
    main = {"session-id": "t1", "thread-id": "t1", "x-codex-turn-metadata": '{"request_kind":"turn"}'}
    child = {**main, "thread-id": "t2", "x-codex-parent-thread-id": "t1"}
    cut = {"x-codex-turn-metadata": '{"request_kind":"compaction"}'}
    assert codex(main, {}) == {"agent": "t1"}
    assert codex(child, {}) == {"agent": "t2", "parent": "t1"}
    assert codex(child | cut, {}) == {"kind": "compaction", "agent": "t2", "parent": "t1"}
    assert codex({"session_id": "t2", "x-openai-subagent": "collab_spawn"}, {}) == {"agent": "t2"}  # 0.116


def test_claude_code_does_not_compact_small_windows() -> None:
    with pytest.raises(ConfigError, match="40000"):
        ClaudeCodeConfig(compact_at=39_999)


def test_the_output_of_codex() -> None:
    said = [
        {"type": "item.completed", "item": {"type": "agent_message", "text": text}}
        for text in ("I look.", "Done.\u2028Really.")
    ]
    started = {"type": "thread.started", "thread_id": "t1"}
    assert read(CodexHarness(), started, *said, {"type": "turn.completed"}) == Reading(
        answer="Done.\u2028Really.", session_id="t1"
    )
    failed = {"type": "turn.failed", "error": {"message": "boom"}}
    assert read(CodexHarness(), started, failed, status=1) == Reading(failure="boom", session_id="t1")
    crash = "WARNING: x\nError: thread/start failed: calc is down\n\nStack backtrace:\n   0: <unknown>\n"
    assert read(CodexHarness(), status=1, stderr=crash).failure == "Error: thread/start failed: calc is down"
    assert read(CodexHarness(), status=-9) == Reading()


def test_the_output_of_claude_code() -> None:
    harness = ClaudeCodeHarness()
    begun = {"type": "system", "subtype": "init", "mcp_servers": [{"name": "desk", "status": "connected"}]}
    lost = {"type": "system", "subtype": "init", "mcp_servers": [{"name": "desk", "status": "failed"}]}
    good = {"type": "result", "subtype": "success", "is_error": False, "result": "Done."}
    bad = {"type": "result", "subtype": "success", "is_error": True, "result": "Prompt is too long"}
    bounded = {"type": "result", "subtype": "error_max_turns", "is_error": True}
    assert read(harness, begun, good) == Reading(answer="Done.")
    assert read(harness, begun, bad, status=1) == Reading(failure="Prompt is too long")
    assert read(harness, begun, bounded, status=1) == Reading(stop="max_turns")
    assert read(harness, lost, good).failure == "it could not reach the tools of desk"
    assert read(harness) == Reading()
