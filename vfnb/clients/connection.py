"""HTTP connections of one client: kept alive, without a limit of their own."""

from __future__ import annotations

import asyncio
from urllib.request import getproxies

import aiohttp
from aiohttp import payload

__all__ = ["Connection", "JsonBody"]

_HEADERS = {"Accept-Encoding": "identity", "User-Agent": "vfnb"}


class JsonBody(payload.BytesPayload):
    """A JSON body of any size, without the size warning of plain bytes: it is in memory already."""

    def __init__(self, value: bytes) -> None:
        payload.Payload.__init__(self, value, content_type="application/json")
        self._size = len(value)


class Connection:
    """One aiohttp session, made on the loop that uses it.

    Args:
        timeout: longest silence while reading, in seconds.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._session: aiohttp.ClientSession | None = None
        self._loop: asyncio.AbstractEventLoop | None = None

    def session(self) -> aiohttp.ClientSession:
        """The session of the running loop."""
        loop = asyncio.get_running_loop()
        if self._session is None or self._session.closed or self._loop is not loop:
            self._loop = loop
            self._session = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60, ttl_dns_cache=300),
                timeout=aiohttp.ClientTimeout(total=None, sock_connect=20, sock_read=self._timeout),
                headers=_HEADERS,
                cookie_jar=aiohttp.DummyCookieJar(),
                skip_auto_headers=("Accept",),
                trust_env=bool(getproxies()),
            )
        return self._session

    async def close(self) -> None:
        """Close all connections."""
        session, self._session = self._session, None
        if session is not None and self._loop is asyncio.get_running_loop():
            await session.close()
