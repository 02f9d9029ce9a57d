"""Keep-alive connections of one client, by server."""

from __future__ import annotations

import asyncio
import base64
import functools
import socket
import ssl
from collections.abc import Mapping
from typing import NamedTuple
from urllib.parse import quote, unquote, urlsplit

from vfnb.clients.wire import Silent, Wire

__all__ = ["HEADERS", "BadUrl", "NoConnection", "Place", "Wires", "place"]

HEADERS = {"User-Agent": "vfnb", "Accept-Encoding": "identity", "Content-Type": "application/json"}
"""What every request says unless its own headers say otherwise."""

_CONNECT_S = 20.0
_IDLE_S = 60.0
_SAFE = "/%:@!$&'()*+,;=~?"
_PORTS = {"http": 80, "https": 443}


class NoConnection(OSError):
    """The server cannot be reached."""


class BadUrl(ValueError):
    """Not the URL of an HTTP server."""


class Place(NamedTuple):
    """A URL in the parts that a request needs."""

    origin: tuple[str, str, int]
    """Scheme, host, port."""
    line: bytes
    """What the request line says between the method and the version."""
    headers: Mapping[str, bytes]
    """The lines of every request to it, by name in lower case."""


@functools.lru_cache(256)
def place(url: str) -> Place:
    """The parts of a URL.

    Raises:
        BadUrl: it has no host, or another scheme.
    """
    try:
        parts = urlsplit(url)
        port = parts.port
        name = (parts.hostname or "").encode("idna" if not url.isascii() else "ascii").decode()
    except ValueError as error:
        raise BadUrl(f"{error}") from error
    if parts.scheme not in _PORTS or not name:
        raise BadUrl("it needs http:// or https:// and a host")
    shown = f"[{name}]" if ":" in name else name
    if port is not None and port != _PORTS[parts.scheme]:
        shown += f":{port}"
    line = quote(parts.path or "/", safe=_SAFE) + (
        f"?{quote(parts.query, safe=_SAFE)}" if parts.query else ""
    )
    headers = {name.lower(): f"{name}: {value}\r\n" for name, value in {"Host": shown, **HEADERS}.items()}
    if parts.username is not None:
        pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
        headers["authorization"] = f"Authorization: Basic {base64.b64encode(pair.encode()).decode()}\r\n"
    origin = (parts.scheme, name, port or _PORTS[parts.scheme])
    return Place(origin, line.encode(), {name: text.encode() for name, text in headers.items()})


def _tls() -> ssl.SSLContext:
    context = ssl.create_default_context()
    context.set_alpn_protocols(["http/1.1"])
    return context


class Wires:
    """Opens connections, keeps those that are idle, fails those that are silent.

    Args:
        timeout: longest silence while an answer is awaited, in seconds.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._loop = asyncio.get_running_loop()
        self._idle: dict[tuple[str, str, int], list[Wire]] = {}
        self._all: dict[Wire, tuple[str, str, int]] = {}
        self._timer: asyncio.TimerHandle | None = None
        self._tls: ssl.SSLContext | None = None

    def __len__(self) -> int:
        """Open connections."""
        return len(self._all)

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> Wire:
        """Start a request on a connection of its own.

        Raises:
            BadUrl: as `place`.
            NoConnection: the server cannot be reached.
            Silent: it does not accept the connection in time.
            ValueError: a header contains a line break.
        """
        where = place(url)
        head = _head(method, where, headers, len(body))
        wire = self._kept(where.origin) or await self._open(where.origin)
        wire.send(head, body)
        if self._timer is None:
            self._timer = self._loop.call_later(min(self._timeout, _IDLE_S), self._look)
        return wire

    def _kept(self, origin: tuple[str, str, int]) -> Wire | None:
        idle = self._idle.get(origin)
        while idle:
            wire = idle.pop()
            if not wire.transport.is_closing():
                return wire
        return None

    async def _open(self, origin: tuple[str, str, int]) -> Wire:
        scheme, host, port = origin
        make = functools.partial(Wire, self._free, self._gone)
        try:
            async with asyncio.timeout(_CONNECT_S):
                if scheme == "https" and self._tls is None:
                    self._tls = _tls()
                tls = self._tls if scheme == "https" else None
                _, wire = await self._loop.create_connection(
                    make, host, port, ssl=tls, happy_eyeballs_delay=0.25
                )
        except TimeoutError as error:
            raise Silent(f"no connection within {_CONNECT_S:g} s") from error
        except OSError as error:
            raise NoConnection(str(error)) from error
        connected = wire.transport.get_extra_info("socket")
        if connected is not None:
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        self._all[wire] = origin
        return wire

    def _free(self, wire: Wire) -> None:
        wire.heard = self._loop.time()
        self._idle.setdefault(self._all[wire], []).append(wire)

    def _gone(self, wire: Wire) -> None:
        origin = self._all.pop(wire, None)
        if origin is not None and wire in self._idle.get(origin, ()):
            self._idle[origin].remove(wire)

    def _look(self) -> None:
        """Look at all connections when the first of them can be due."""
        self._timer = None
        now = self._loop.time()
        due = now + _IDLE_S
        for wire in list(self._all):
            limit = self._timeout if wire.busy else _IDLE_S
            if wire.heard + limit > now:
                due = min(due, wire.heard + limit)
            elif wire.busy:
                wire.fail(Silent(f"nothing came for {self._timeout:g} s"))
            else:
                wire.close()
        if self._all:
            self._timer = self._loop.call_at(max(due, now + 0.01), self._look)

    async def close(self) -> None:
        """Close all connections."""
        if self._timer is not None:
            self._timer.cancel()
        wires = list(self._all)
        for wire in wires:
            wire.close()
        self._idle.clear()
        if wires:
            await asyncio.sleep(0)  # closed sockets leave the loop


def _head(method: str, where: Place, headers: Mapping[str, str], length: int) -> bytes:
    given = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    if given.count("\r") != len(headers) or given.count("\n") != len(headers):
        raise ValueError("a header contains a line break")
    own = where.headers
    if not own.keys().isdisjoint([name.lower() for name in headers]):
        names = {name.lower() for name in headers}
        own = {name: line for name, line in own.items() if name not in names}
    return b"%b %b HTTP/1.1\r\n%b%bContent-Length: %d\r\n\r\n" % (
        method.encode(),
        where.line,
        b"".join(own.values()),
        given.encode("utf-8"),
        length,
    )
