"""The Claude Agent SDK: `query` over the `claude` program that the package brings along."""

from __future__ import annotations

from typing import Any, ClassVar

from vfnb.agents import HarnessSession
from vfnb.installs import PyPI, Recipe
from vfnb.interception import Marker
from vfnb_harnesses.claude_code import QUIET, SHAPE, ClaudeCodeHarness, model_names
from vfnb_harnesses.driven import DrivenConfig, DrivenProgram
from vfnb_harnesses.program_box import box_home

__all__ = ["ClaudeAgentSDKConfig", "ClaudeAgentSDKHarness"]


class ClaudeAgentSDKConfig(DrivenConfig):
    """Settings of the Claude Agent SDK."""

    preset: bool = False
    """Use the system prompt of Claude Code, with `system_prompt` added; else the SDK's default, which has none."""


class ClaudeAgentSDKHarness(DrivenProgram[ClaudeAgentSDKConfig]):
    """Claude Code's own tools by the Python API, with the task's MCP servers."""

    NAME: ClassVar[str] = "claude_agent_sdk"
    VERSION: ClassVar[str] = "0.2.189"
    TESTED: ClassVar[bool] = True
    DIALECTS: ClassVar[tuple[str, ...]] = ("messages",)
    DRIVER: ClassVar[str] = "claude_agent_sdk"
    TOOLS: ClassVar[bool] = False
    SUPPORTS_MCP: ClassVar[bool] = True
    SUPPORTS_RESUME: ClassVar[bool] = True
    SKILLS: ClassVar[bool] = True
    REWRITES: ClassVar[str] = ClaudeCodeHarness.REWRITES
    MARKERS: ClassVar[tuple[Marker, ...]] = ClaudeCodeHarness.MARKERS

    def recipe(self) -> Recipe:
        return PyPI((f"claude-agent-sdk=={self.version}", "mcp>=2,<3"), self.version)

    def settings(self, session: HarnessSession) -> dict[str, Any]:
        return {"preset": self.config.preset, "skills": bool(self.config.skills)}

    def environment(self, session: HarnessSession) -> dict[str, str]:
        return {
            **QUIET,
            **SHAPE,
            **model_names(session.model),
            "CLAUDE_CODE_TMPDIR": f"{box_home(session.runtime)}/.claude/tmp",  # else /tmp of this machine
        }

    def files(self) -> dict[str, bytes]:
        return self.skill_files("~/.claude/skills")
