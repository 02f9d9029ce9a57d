"""langgraph: the prebuilt ReAct graph with the shell and file tools and the task's MCP servers."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from langchain_core.messages import messages_from_dict, messages_to_dict
from langchain_core.tools import StructuredTool
from langgraph.prebuilt import create_react_agent

from .kit import Request, Tool, main

UNLIMITED = 1_000_000  # steps of the graph: our server counts the turns


def model(request: Request) -> Any:
    """The chat model of the dialect."""
    if request.dialect == "messages":
        from langchain_anthropic import ChatAnthropic

        return ChatAnthropic(model_name=request.model, base_url=request.root_url, api_key=request.api_key)
    from langchain_openai import ChatOpenAI

    return ChatOpenAI(
        model=request.model,
        base_url=request.base_url,
        api_key=request.api_key,
        use_responses_api=request.dialect == "responses",
    )


def function_tool(tool: Tool) -> Any:
    """One of our tools as one of the library's."""

    def work(**values: Any) -> str:
        return tool(values)

    return StructuredTool(name=tool.name, description=tool.description, args_schema=tool.schema, func=work)


async def server_tools(request: Request) -> list[Any]:
    """The tools of the task."""
    if not request.mcp:
        return []
    from datetime import timedelta

    from langchain_mcp_adapters.client import MultiServerMCPClient

    wait = timedelta(seconds=request.tool_timeout)
    links = {
        name: {"transport": "streamable_http", "url": url, "timeout": wait, "sse_read_timeout": wait}
        for name, url in request.mcp.items()
    }
    return list(await MultiServerMCPClient(links, tool_name_prefix=True).get_tools())


async def run(request: Request) -> dict[str, Any]:
    """One segment of the conversation; the text of its last message is the answer."""
    tools = [function_tool(tool) for tool in request.tools()] + await server_tools(request)
    agent: Any = create_react_agent(model(request), tools, prompt=request.system_prompt or None)
    history: list[Any] = messages_from_dict(json.loads(request.load())) if request.resume else []
    asked = {"messages": [*history, ("user", request.prompt)]}
    state = await agent.ainvoke(asked, {"recursion_limit": UNLIMITED})
    request.keep(json.dumps(messages_to_dict(state["messages"])).encode())
    return {"answer": str(state["messages"][-1].text)}


if __name__ == "__main__":
    main(lambda request: asyncio.run(run(request)))
