"""An MCP server that knows nothing of vfnb: `python mcp_peer.py stdio`, or `http PORT`."""

import os
import sys

from mcp.server.mcpserver import Image, MCPServer

server = MCPServer("peer")
PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d4948445200000001000000010802000000907753de0000000c49444154789c63f8cfc0000003010100"
    "c9fe92ef0000000049454e44ae426082"
)


@server.tool()
def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


@server.tool()
def boom() -> str:
    """Fail."""
    raise ValueError("no luck")


@server.tool()
def picture() -> Image:
    """Show one pixel."""
    return Image(data=PIXEL, format="png")


@server.tool()
async def sleep(seconds: float) -> str:
    """Wait."""
    import anyio

    await anyio.sleep(seconds)
    return "awake"


@server.tool()
def big(size: int) -> str:
    """Much text."""
    return "x" * size


@server.tool()
def die() -> str:
    """End the server."""
    print("last words", file=sys.stderr, flush=True)
    os._exit(3)


if __name__ == "__main__":
    if sys.argv[1] == "stdio":
        server.run("stdio")
    else:
        server.run("streamable-http", port=int(sys.argv[2]))
