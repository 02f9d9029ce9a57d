"""The OpenAI Agents SDK: `Runner.run` with one agent."""

from __future__ import annotations

from typing import ClassVar

from vfnb.agents import HarnessSession
from vfnb.installs import PyPI, Recipe
from vfnb_harnesses.driven import DrivenConfig, DrivenProgram

__all__ = ["OpenAIAgentsHarness"]


class OpenAIAgentsHarness(DrivenProgram[DrivenConfig]):
    """An agent with our shell and file tools and the task's MCP servers; it keeps its session in a file."""

    NAME: ClassVar[str] = "openai_agents"
    VERSION: ClassVar[str] = "0.24.0"
    TESTED: ClassVar[bool] = True
    DIALECTS: ClassVar[tuple[str, ...]] = ("responses", "chat")
    DRIVER: ClassVar[str] = "openai_agents"
    SUPPORTS_MCP: ClassVar[bool] = True
    SUPPORTS_RESUME: ClassVar[bool] = True
    TOOL_NAME: ClassVar[str] = "mcp_{server}__{tool}"
    REWRITES: ClassVar[str] = "chat: reasoning of earlier replies is dropped"

    def recipe(self) -> Recipe:
        return PyPI((f"openai-agents=={self.version}", "openai>=3,<4", "mcp>=2,<3"), self.version)

    def environment(self, session: HarnessSession) -> dict[str, str]:
        return {"OPENAI_AGENTS_DISABLE_TRACING": "1"}
