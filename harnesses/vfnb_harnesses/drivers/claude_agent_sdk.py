"""claude-agent-sdk: `query`, which runs the `claude` program that the package brings along."""

from __future__ import annotations

import asyncio
import sys
from typing import Any

from claude_agent_sdk import ClaudeAgentOptions, ClaudeSDKError, ResultMessage, SystemMessage, query

from .kit import Request, Stopped, main


def options(request: Request) -> Any:
    """All tools of the program without questions, and no settings but these."""
    servers = {name: {"type": "http", "url": url} for name, url in request.mcp.items()}
    system: Any = request.system_prompt or None
    if request.settings["preset"]:
        system = {"type": "preset", "preset": "claude_code"}
        if request.system_prompt:
            system["append"] = request.system_prompt
    return ClaudeAgentOptions(
        model=request.model,
        system_prompt=system,
        mcp_servers=servers,
        strict_mcp_config=True,
        permission_mode="bypassPermissions",
        max_turns=request.max_turns,
        disallowed_tools=sorted(request.disabled),
        setting_sources=["user"] if request.settings["skills"] else [],
        skills="all" if request.settings["skills"] else None,
        resume=request.load().decode() if request.resume else None,
        env={"ANTHROPIC_BASE_URL": request.root_url, "ANTHROPIC_API_KEY": request.api_key},
        stderr=lambda line: print(line, file=sys.stderr),
    )


async def run(request: Request) -> dict[str, Any]:
    """One segment of the conversation."""
    result, lost = None, list[str]()
    try:
        async for message in query(prompt=request.prompt, options=options(request)):
            if isinstance(message, ResultMessage):
                result = message
            elif isinstance(message, SystemMessage) and message.subtype == "init":
                servers = message.data.get("mcp_servers") or ()
                lost = [server["name"] for server in servers if server.get("status") == "failed"]
    except ClaudeSDKError:  # raised after a result that tells of a failure, too
        if result is None:
            raise
    if result is None:
        raise RuntimeError("claude ended without a result")
    request.keep(result.session_id.encode())
    if result.subtype == "error_max_turns":
        raise Stopped("max_turns")
    if lost:
        return {"failure": f"it could not reach the tools of {', '.join(lost)}"}
    failure = result.result or ", ".join(result.errors or ()) or result.subtype
    return {"failure": failure} if result.is_error else {"answer": result.result}


if __name__ == "__main__":
    main(lambda request: asyncio.run(run(request)))
