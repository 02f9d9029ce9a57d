"""pydantic-ai: `Agent.run` with the shell and file tools and the task's MCP servers as toolsets."""

from __future__ import annotations

import asyncio
from typing import Any

from pydantic_ai import (
    Agent,
    ModelMessagesTypeAdapter,
    Tool,
    UnexpectedModelBehavior,
    UsageLimitExceeded,
    UsageLimits,
)
from pydantic_ai.mcp import MCPToolset

from . import kit
from .kit import Request, Stopped, main


def model(request: Request) -> Any:
    """The model class of the dialect."""
    if request.dialect == "messages":
        from anthropic import AsyncAnthropic
        from pydantic_ai.models.anthropic import AnthropicModel
        from pydantic_ai.providers.anthropic import AnthropicProvider

        client = AsyncAnthropic(base_url=request.root_url, api_key=request.api_key)
        return AnthropicModel(request.model, provider=AnthropicProvider(anthropic_client=client))
    from pydantic_ai.models.openai import OpenAIChatModel, OpenAIResponsesModel
    from pydantic_ai.providers.openai import OpenAIProvider

    kind = OpenAIResponsesModel if request.dialect == "responses" else OpenAIChatModel
    return kind(request.model, provider=OpenAIProvider(base_url=request.base_url, api_key=request.api_key))


def function_tool(tool: kit.Tool) -> Any:
    """One of our tools as one of the library's."""

    async def work(**values: Any) -> str:
        return await asyncio.to_thread(tool, values)

    return Tool.from_schema(work, tool.name, tool.description, tool.schema)


async def run(request: Request) -> dict[str, Any]:
    """One segment of the conversation."""
    servers = [
        MCPToolset(url, read_timeout=request.tool_timeout).prefixed(name) for name, url in request.mcp.items()
    ]
    agent: Any = Agent(
        model(request),
        instructions=request.system_prompt or None,
        tools=[function_tool(tool) for tool in request.tools()],
        toolsets=servers,
        retries=request.settings["retries"],
    )
    history = ModelMessagesTypeAdapter.validate_json(request.load()) if request.resume else None
    limits = UsageLimits(request_limit=request.max_turns)
    async with agent:
        try:
            result = await agent.run(request.prompt, message_history=history, usage_limits=limits)
        except UsageLimitExceeded as error:
            raise Stopped("max_turns") from error
        except UnexpectedModelBehavior as error:  # such as too many failures in a row
            raise Stopped("model_behavior") from error
    request.keep(result.all_messages_json())
    return {"answer": str(result.output)}


if __name__ == "__main__":
    main(lambda request: asyncio.run(run(request)))
