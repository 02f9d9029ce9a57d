"""openai-agents: `Runner.run` with an agent that has the shell and file tools and the task's MCP servers."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from typing import Any

from agents import (
    Agent,
    FunctionTool,
    MaxTurnsExceeded,
    ModelBehaviorError,
    OpenAIChatCompletionsModel,
    OpenAIResponsesModel,
    Runner,
    SQLiteSession,
    set_tracing_disabled,
)
from agents.mcp import MCPServerStreamableHttp
from openai import AsyncOpenAI

from .kit import Request, Stopped, Tool, main

UNLIMITED = 1_000_000  # turns


def function_tool(tool: Tool) -> Any:
    """One of our tools as one of the library's."""

    async def invoke(_context: Any, given: str) -> str:
        return await asyncio.to_thread(tool, given)

    return FunctionTool(tool.name, tool.description, tool.schema, invoke, strict_json_schema=False)


async def run(request: Request) -> dict[str, Any]:
    """One segment of the conversation."""
    set_tracing_disabled(True)
    client = AsyncOpenAI(base_url=request.base_url, api_key=request.api_key)
    kinds = {"chat": OpenAIChatCompletionsModel, "responses": OpenAIResponsesModel}
    model = kinds[request.dialect](request.model, client)
    async with AsyncExitStack() as stack:
        servers = [
            await stack.enter_async_context(
                MCPServerStreamableHttp(
                    params={"url": url, "timeout": 60},
                    name=name,
                    cache_tools_list=True,
                    client_session_timeout_seconds=request.tool_timeout,
                )
            )
            for name, url in request.mcp.items()
        ]
        agent = Agent(
            name="agent",
            instructions=request.system_prompt or None,
            model=model,
            tools=[function_tool(tool) for tool in request.tools()],
            mcp_servers=servers,
            mcp_config={"include_server_in_tool_names": True},
        )
        session = SQLiteSession("rollout", str(request.state))
        try:
            result = await Runner.run(
                agent, request.prompt, session=session, max_turns=request.max_turns or UNLIMITED
            )
        except MaxTurnsExceeded as error:
            raise Stopped("max_turns") from error
        except ModelBehaviorError as error:  # such as a call of a tool that is not there
            raise Stopped("model_behavior") from error
    return {"answer": str(result.final_output)}


if __name__ == "__main__":
    main(lambda request: asyncio.run(run(request)))
