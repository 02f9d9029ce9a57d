"""Starting a loop as a program inside the runtime."""

from __future__ import annotations

import io
import json
import sys
from pathlib import Path
from typing import Any

from vfnb.agents import HarnessSession
from vfnb.dialects import chat_encode
from vfnb.runtimes import ProgramResult
from vfnb.types import Messages, Tool
from vfnb_harnesses.loop_program.main import MAX_TURNS_STATUS
from vfnb_harnesses.settings import LoopConfig

__all__ = ["archive", "launch", "loop_request", "run_loop"]

HERE = Path(__file__).parent
REQUEST = ".vfnb-request.json"  # in the working folder; the program deletes it before it does anything else
START = "import sys; sys.path.append(sys.argv[1]); from loop_program.main import main; sys.exit(main(sys.argv[2]))"
ARCHIVE = "/tmp/vfnb-loop.zip"  # in a container


def archive() -> bytes:
    """The loop program as one zip file that Python runs from."""
    import zipfile

    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        for source in sorted((HERE / "loop_program").glob("*.py")):
            file.writestr(f"loop_program/{source.name}", source.read_bytes())
    return packed.getvalue()


async def launch(session: HarnessSession, argv: list[str], request: dict[str, Any]) -> ProgramResult:
    """Run a program that finds `request` in the file that is its last argument."""
    await session.runtime.write(REQUEST, json.dumps(request).encode())
    env = {"OPENAI_BASE_URL": session.base_url, "OPENAI_API_KEY": session.api_key}
    return await session.runtime.run([*argv, REQUEST], env)


def loop_request(
    session: HarnessSession,
    config: LoopConfig,
    history: Messages,
    *,
    tools: list[Tool],
    keep: tuple[int, int],
    local: dict[str, Any] | None = None,
    compact_at: int | None = None,
) -> dict[str, Any]:
    """What `loop_program` is told: a conversation in Chat form, tools with the MCP servers behind them, bounds.

    Args:
        tools: all that the model is offered.
        keep: how many messages at the start, and how many at the end of `history`, survive a compaction.
        local: settings of the shell and file tools, None without them.
        compact_at: as for `ToolLoop`.
    """
    return {
        "model": session.model,
        "messages": [chat_encode.message(message) for message in history],
        "tools": [chat_encode.tool(tool) for tool in tools],
        "mcp": session.mcp_servers if session.tools else {},
        "local": local,
        "keep": keep,
        "compact_at": compact_at,
        "max_turns": config.max_turns,
        "max_output": config.max_output,
        "tool_timeout": config.tool_timeout,
    }


async def run_loop(session: HarnessSession, request: dict[str, Any]) -> ProgramResult:
    """Run `loop_program` and take over what was said."""
    python, source = sys.executable, str(HERE)
    if session.runtime.IS_CONTAINER:
        python, source = "python3", ARCHIVE
        await session.runtime.write(ARCHIVE, archive())
    result = await launch(session, [python, "-I", "-S", "-c", START, source], request)
    session.conversation = list(session.trace.messages)
    if result.returncode == MAX_TURNS_STATUS:
        session.stop("max_turns")
    return result
