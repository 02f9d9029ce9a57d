"""A client of MCP servers over streamable HTTP, by hand: initialize, tools/list, tools/call."""

from __future__ import annotations

import http.client
import itertools
import json

from .wire import Failed, send
from .words import bounded

TYPE_CHECKING = False  # importing typing would cost start time
if TYPE_CHECKING:
    from collections.abc import Iterator
    from typing import Any

__all__ = ["Server", "content", "messages"]

PROTOCOL = "2025-06-18"  # revision of MCP that is spoken


class Server:
    """An MCP server over streamable HTTP. Every call raises Failed if it does not answer as it should."""

    def __init__(self, name: str, url: str, seconds: float) -> None:
        self.name, self.url, self.seconds = name, url, seconds
        self.headers = {"Accept": "application/json, text/event-stream"}
        self.numbers = itertools.count(1)
        about = {"name": "vfnb", "version": "1"}
        hello = {"protocolVersion": PROTOCOL, "capabilities": {}, "clientInfo": about}
        self.headers["MCP-Protocol-Version"] = self.ask("initialize", hello).get("protocolVersion", PROTOCOL)
        self.post({"jsonrpc": "2.0", "method": "notifications/initialized"}).read()

    def post(self, message: object) -> http.client.HTTPResponse:
        try:
            response = send(self.url, message, self.headers, self.seconds)
        except (OSError, http.client.HTTPException) as error:
            raise Failed(
                f"the tool server {self.name!r} does not answer: {error or type(error).__name__}"
            ) from error
        if response.status >= 300:
            text = response.read(500).decode(errors="replace")
            raise Failed(f"the tool server {self.name!r} answered {response.status}: {text}")
        return response

    def ask(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        number = next(self.numbers)
        response = self.post({"jsonrpc": "2.0", "id": number, "method": method, "params": params})
        session = response.getheader("Mcp-Session-Id")
        if session:
            self.headers["Mcp-Session-Id"] = session
        try:
            answer = next((found for found in messages(response) if found.get("id") == number), None)
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise Failed(
                f"the tool server {self.name!r} broke off: {error or type(error).__name__}"
            ) from error
        finally:
            response.close()
        if answer is None or "error" in answer:
            told = (answer or {}).get("error", {}).get("message", "the answer ended early")
            raise Failed(f"the tool server {self.name!r} refused {method}: {told}")
        result: dict[str, Any] = answer.get("result", {})
        return result

    def tools(self) -> Iterator[str]:
        """The names of its tools, page by page."""
        page: dict[str, Any] = {}
        while True:
            found = self.ask("tools/list", page)
            yield from (tool["name"] for tool in found.get("tools", ()))
            if not found.get("nextCursor"):
                return
            page = {"cursor": found["nextCursor"]}

    def close(self) -> None:
        if "Mcp-Session-Id" in self.headers:
            try:
                send(self.url, None, self.headers, 5, "DELETE").read()
            except (OSError, http.client.HTTPException):
                return  # it forgets the session by itself


def messages(response: http.client.HTTPResponse) -> Iterator[dict[str, Any]]:
    """The JSON-RPC messages of an answer: one JSON document, or a stream of events."""
    if "event-stream" not in response.getheader("Content-Type", ""):
        yield json.loads(response.read())
        return
    data: list[bytes] = []
    for line in response:
        if line.startswith(b"data:"):
            data.append(line[5:].strip())
        elif not line.strip() and data:
            yield json.loads(b"\n".join(data))
            data = []
    if data:
        yield json.loads(b"\n".join(data))


def content(result: dict[str, Any], limit: int) -> str | list[dict[str, Any]]:
    """An MCP tool result as the content of a Chat message: text, or parts if there is more than text."""
    parts = [_part(part) for part in result.get("content", ())]
    if any(part["type"] != "text" for part in parts):
        return [
            part | {"text": bounded(part["text"], limit)} if part["type"] == "text" else part
            for part in parts
        ]
    text = bounded("\n".join(part["text"] for part in parts), limit)
    return f"Error: {text}" if result.get("isError") and not text.startswith("Error") else text


def _part(part: dict[str, Any]) -> dict[str, Any]:
    kind, mime = part.get("type"), part.get("mimeType") or ""
    if kind == "image":
        return {
            "type": "image_url",
            "image_url": {"url": f"data:{mime or 'image/png'};base64,{part['data']}"},
        }
    if kind == "audio":
        form = mime.rpartition("/")[2].removeprefix("x-")
        return {"type": "input_audio", "input_audio": {"data": part["data"], "format": form}}
    text = part.get("text") if kind == "text" else part.get("resource", {}).get("text")
    return {"type": "text", "text": json.dumps(part) if text is None else text}
