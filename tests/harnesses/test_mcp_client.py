"""The MCP client of the loop program against a small server that answers in every way that the protocol has."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from vfnb_harnesses.loop_program.mcp import Server, content
from vfnb_harnesses.loop_program.wire import Failed


class Tools(BaseHTTPRequestHandler):
    """One session; two pages of tools; `how` says in which form it answers."""

    how = "json"
    seen: list[tuple[str, str | None]] = []

    def log_message(self, *args: Any) -> None:
        """Quiet."""

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        method = message["method"]
        self.seen.append((method, self.headers.get("Mcp-Session-Id")))
        if method != "initialize" and self.headers.get("Mcp-Session-Id") != "s1":
            self._plain(404, b"no such session")
        elif "id" not in message:
            self._plain(202, b"")
        elif method == "tools/call" and message["params"]["name"] == "cut":
            self._plain(200, b'data: {"jsonrpc"', "text/event-stream")
        else:
            self._answer({"jsonrpc": "2.0", "id": message["id"], **self._result(method, message["params"])})

    def do_DELETE(self) -> None:
        self.seen.append(("DELETE", self.headers.get("Mcp-Session-Id")))
        self._plain(200, b"")

    def _result(self, method: str, params: dict[str, Any]) -> dict[str, Any]:
        if method == "initialize":
            return {"result": {"protocolVersion": "2025-03-26", "capabilities": {}, "serverInfo": {}}}
        if method == "tools/list":
            page = {"tools": [{"name": "echo"}], "nextCursor": "2"}
            return {"result": {"tools": [{"name": "fail"}]} if params.get("cursor") == "2" else page}
        if params["name"] == "fail":
            return {"error": {"code": -32602, "message": "Unknown tool: fail"}}
        return {"result": {"content": [{"type": "text", "text": json.dumps(params["arguments"])}]}}

    def _answer(self, message: dict[str, Any]) -> None:
        body = json.dumps(message).encode()
        if self.how == "json":
            self._plain(200, body, "application/json", {"Mcp-Session-Id": "s1"})
            return
        note = {"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": "x"}}
        first = f"event: message\nid: 1\ndata: {json.dumps(note)}\n\n: ping\n\n".encode()
        self._plain(
            200,
            first + b"event: message\ndata: " + body + b"\n\n",
            "text/event-stream; charset=utf-8",
            {"Mcp-Session-Id": "s1"},
        )

    def _plain(
        self, status: int, body: bytes, kind: str = "text/plain", headers: dict[str, str] | None = None
    ) -> None:
        self.send_response(status)
        for name, value in {
            "Content-Type": kind,
            "Content-Length": str(len(body)),
            **(headers or {}),
        }.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)


@pytest.fixture(params=["json", "events"])
def url(request: pytest.FixtureRequest) -> Iterator[str]:
    handler = type("Handler", (Tools,), {"how": request.param, "seen": []})
    server = ThreadingHTTPServer(("127.0.0.1", 0), handler)
    thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
    thread.start()
    yield f"http://127.0.0.1:{server.server_port}/mcp?key=1"
    server.shutdown()
    thread.join()
    server.server_close()


def test_a_session_from_hello_to_goodbye(url: str) -> None:
    server = Server("calc", url, 10)
    assert server.headers["MCP-Protocol-Version"] == "2025-03-26"  # what the server chose
    assert list(server.tools()) == ["echo", "fail"]
    asked = {"name": "echo", "arguments": {"text": "ä"}}
    assert json.loads(str(content(server.ask("tools/call", asked), 100))) == {"text": "ä"}
    server.close()


def test_what_a_server_does_wrong_has_its_name(url: str) -> None:
    server = Server("calc", url, 10)
    with pytest.raises(Failed, match="'calc' refused tools/call: Unknown tool: fail"):
        server.ask("tools/call", {"name": "fail", "arguments": {}})
    with pytest.raises(Failed, match="'calc' broke off"):
        server.ask("tools/call", {"name": "cut", "arguments": {}})
    server.headers["Mcp-Session-Id"] = "other"
    with pytest.raises(Failed, match="'calc' answered 404: no such session"):
        list(server.tools())
    with pytest.raises(Failed, match="'gone' does not answer"):
        Server("gone", "http://127.0.0.1:9/mcp", 10)


def test_results_become_chat_content() -> None:
    text = {"type": "text", "text": "1"}
    assert content({"content": [text, text]}, 100) == "1\n1"
    assert content({"content": []}, 100) == ""
    assert content({"content": [text], "isError": True}, 100) == "Error: 1"
    assert content({"content": [{"type": "text", "text": "Error: x"}], "isError": True}, 100) == "Error: x"
    resource = {"type": "resource", "resource": {"uri": "a:b", "text": "inside"}}
    assert content({"content": [resource]}, 100) == "inside"
    image = {"type": "image", "data": "AAAA", "mimeType": "image/gif"}
    shown = content({"content": [text, image]}, 100)
    assert shown == [text, {"type": "image_url", "image_url": {"url": "data:image/gif;base64,AAAA"}}]
    assert "900 of 1000 characters left out" in str(
        content({"content": [{"type": "text", "text": "x" * 1000}]}, 100)
    )
