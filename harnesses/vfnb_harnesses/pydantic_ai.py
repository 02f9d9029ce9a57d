"""Pydantic AI: one `Agent`."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from vfnb.agents import HarnessSession
from vfnb.installs import PyPI, Recipe
from vfnb_harnesses.driven import DrivenConfig, DrivenProgram

__all__ = ["PydanticAIConfig", "PydanticAIHarness"]


class PydanticAIConfig(DrivenConfig):
    """Settings of Pydantic AI."""

    retries: int = Field(default=10, ge=0)
    """How often in a row a tool, or an empty reply, may fail before the library gives up."""


class PydanticAIHarness(DrivenProgram[PydanticAIConfig]):
    """An agent with our shell and file tools and the task's MCP servers."""

    NAME: ClassVar[str] = "pydantic_ai"
    VERSION: ClassVar[str] = "2.68.0"
    TESTED: ClassVar[bool] = True
    DIALECTS: ClassVar[tuple[str, ...]] = ("chat", "responses", "messages")
    DRIVER: ClassVar[str] = "pydantic_ai"
    SUPPORTS_MCP: ClassVar[bool] = True
    SUPPORTS_RESUME: ClassVar[bool] = True
    TOOL_NAME: ClassVar[str] = "{server}_{tool}"
    REWRITES: ClassVar[str] = "arguments are serialised anew; responses: reasoning becomes <think> text"

    def recipe(self) -> Recipe:
        library = f"pydantic-ai-slim[openai,anthropic,mcp]=={self.version}"
        return PyPI((library, "openai>=3,<4", "anthropic>=2,<3"), self.version)

    def settings(self, session: HarnessSession) -> dict[str, Any]:
        return {"retries": self.config.retries}

    def environment(self, session: HarnessSession) -> dict[str, str]:
        return {"LOGFIRE_SEND_TO_LOGFIRE": "false"}
