"""One HTTP request at a time, and how the program fails."""

from __future__ import annotations

import http.client
import json
from urllib.parse import urlsplit

__all__ = ["Failed", "Overflow", "send"]


class Failed(Exception):
    """The program cannot go on; the message goes to standard error."""


class Overflow(Failed):
    """The prompt is longer than the model's context."""


def send(
    url: str, payload: object, headers: dict[str, str], seconds: float, method: str = "POST"
) -> http.client.HTTPResponse:
    """One HTTP request with a connection of its own. Raises OSError or http.client.HTTPException."""
    parts = urlsplit(url)
    connect = http.client.HTTPSConnection if parts.scheme == "https" else http.client.HTTPConnection
    connection = connect(parts.netloc, timeout=seconds)
    body = None if payload is None else json.dumps(payload).encode()
    path = (parts.path or "/") + (f"?{parts.query}" if parts.query else "")
    connection.request(
        method, path, body, {"Content-Type": "application/json", "Connection": "close", **headers}
    )
    return connection.getresponse()
