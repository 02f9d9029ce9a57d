"""A streamable-HTTP tool server of the plain mcp SDK, in a process of its own.

    python -m benchmarks.net.mcp_bare [plain]

Prints one JSON line with its URL. `plain` leaves the SDK's defaults (sessions, event streams) as they are.
"""

from __future__ import annotations

import json
import socket
import sys

import uvicorn
from mcp.server.mcpserver import MCPServer


def main() -> None:
    server = MCPServer("bare", log_level="CRITICAL")

    @server.tool()
    def add(a: int, b: int) -> int:
        """Add two numbers."""
        return a + b

    plain = sys.argv[1:] == ["plain"]
    app = server.streamable_http_app(stateless_http=not plain, json_response=not plain)
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)  # asyncio: TCP_NODELAY
    listener.bind(("127.0.0.1", 0))
    listener.listen(1024)
    print(json.dumps({"url": f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"}), flush=True)
    config = uvicorn.Config(app, log_config=None, log_level="critical", access_log=False, ws="none")
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
