"""smolagents: a ToolCallingAgent or a CodeAgent with the shell and file tools and the task's MCP servers."""

from __future__ import annotations

from contextlib import ExitStack
from typing import Any

from smolagents import CodeAgent, LogLevel, MCPClient, OpenAIModel, Tool, ToolCallingAgent

from . import kit
from .kit import Request, main

UNLIMITED = 1_000_000  # steps


class OwnTool(Tool):  # type: ignore[misc]
    """One of our tools as one of the library's."""

    skip_forward_signature_validation = True
    output_type = "string"

    def __init__(self, tool: kit.Tool) -> None:
        self.name, self.description, self._work = tool.name, tool.description, tool
        needed = tool.schema["required"]
        self.inputs = {
            key: shape if key in needed else {**shape, "nullable": True}
            for key, shape in tool.schema["properties"].items()
        }
        super().__init__()

    def forward(self, *given: Any, **named: Any) -> str:
        """Run it; arguments that the model left out are None here."""
        values = {**dict(zip(self.inputs, given, strict=False)), **named}
        return self._work({key: value for key, value in values.items() if value is not None})


def server_tools(request: Request, stack: ExitStack) -> list[Any]:
    """The tools of the task, named `server_tool`."""
    tools: list[Any] = []
    for name, url in request.mcp.items():
        link = {"url": url, "transport": "streamable-http"}
        for tool in stack.enter_context(MCPClient(link, structured_output=False)):
            tool.name = f"{name}_{tool.name}"
            tools.append(tool)
    return tools


def run(request: Request) -> dict[str, Any]:
    """Solve the task."""
    model = OpenAIModel(request.model, api_base=request.base_url, api_key=request.api_key)
    kind = CodeAgent if request.settings["code"] else ToolCallingAgent
    with ExitStack() as stack:
        agent = kind(
            [*map(OwnTool, request.tools()), *server_tools(request, stack)],
            model,
            instructions=request.system_prompt or None,
            max_steps=request.max_turns or UNLIMITED,
            verbosity_level=LogLevel.OFF,
            return_full_result=True,
        )
        result = agent.run(request.prompt)
    stop = "max_turns" if result.state == "max_steps_error" else None
    return {"answer": str(result.output), "stop": stop}


if __name__ == "__main__":
    main(run)
