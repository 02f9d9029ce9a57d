"""smolagents: a `ToolCallingAgent` or a `CodeAgent`."""

from __future__ import annotations

from typing import Any, ClassVar

from vfnb.agents import HarnessSession
from vfnb.installs import PyPI, Recipe
from vfnb_harnesses.driven import DrivenConfig, DrivenProgram

__all__ = ["SmolAgentsConfig", "SmolAgentsHarness"]


class SmolAgentsConfig(DrivenConfig):
    """Settings of smolagents."""

    code: bool = False
    """Let the model act by Python code (`CodeAgent`), which sees the tools as functions; else by tool calls."""


class SmolAgentsHarness(DrivenProgram[SmolAgentsConfig]):
    """An agent with our shell and file tools and the task's MCP servers. It ends by the tool `final_answer`."""

    NAME: ClassVar[str] = "smolagents"
    VERSION: ClassVar[str] = "1.26.0"
    TESTED: ClassVar[bool] = True
    DIALECTS: ClassVar[tuple[str, ...]] = ("chat",)
    DRIVER: ClassVar[str] = "smolagents"
    SUPPORTS_MCP: ClassVar[bool] = True
    TOOL_NAME: ClassVar[str] = "{server}_{tool}"
    REWRITES: ClassVar[str] = (
        "replies become text with their calls, tool results user messages: every turn forks"
    )

    def recipe(self) -> Recipe:
        # mcpadapt knows the first mcp only
        return PyPI(
            (f"smolagents=={self.version}", "openai>=3,<4", "mcpadapt>=0.1.19,<0.2", "mcp>=1.24,<2"),
            self.version,
        )

    def settings(self, session: HarnessSession) -> dict[str, Any]:
        return {"code": self.config.code}

    def environment(self, session: HarnessSession) -> dict[str, str]:
        return {"HF_HUB_OFFLINE": "1", "PYTHONWARNINGS": "ignore"}
