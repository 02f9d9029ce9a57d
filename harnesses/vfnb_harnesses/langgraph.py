"""LangGraph: the prebuilt ReAct graph."""

from __future__ import annotations

from typing import ClassVar, Literal

from vfnb.agents import HarnessSession
from vfnb.installs import PyPI, Recipe
from vfnb_harnesses.driven import DrivenConfig, DrivenProgram

__all__ = ["LangGraphHarness"]


class LangGraphHarness(DrivenProgram[DrivenConfig]):
    """A ReAct agent with our shell and file tools and the task's MCP servers."""

    NAME: ClassVar[str] = "langgraph"
    VERSION: ClassVar[str] = "1.2.24"
    TESTED: ClassVar[bool] = True
    DIALECTS: ClassVar[tuple[str, ...]] = ("chat", "responses", "messages")
    DRIVER: ClassVar[str] = "langgraph"
    SUPPORTS_MCP: ClassVar[bool] = True
    SUPPORTS_RESUME: ClassVar[bool] = True
    TOOL_NAME: ClassVar[str] = "{server}_{tool}"
    MAX_TURNS: ClassVar[Literal["program", "server"]] = (
        "server"  # its own limit puts words into the model's mouth
    )
    REWRITES: ClassVar[str] = "arguments are serialised anew; chat: reasoning of earlier replies is dropped"

    def recipe(self) -> Recipe:
        models = ("langchain-openai>=1.7,<2", "langchain-anthropic>=1.7,<2")
        # before 0.3.2 the adapters took an mcp that they cannot use
        return PyPI(
            (f"langgraph=={self.version}", *models, "langchain-mcp-adapters>=0.3.2,<0.4"), self.version
        )

    def environment(self, session: HarnessSession) -> dict[str, str]:
        return {"LANGSMITH_TRACING": "false", "LANGCHAIN_TRACING_V2": "false", "PYTHONWARNINGS": "ignore"}
