"""HTTP connections of one client: kept alive, without a limit of their own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING
from urllib.parse import urlsplit
from urllib.request import getproxies, proxy_bypass

from vfnb.clients.wire import Answer
from vfnb.clients.wires import Wires

if TYPE_CHECKING:
    from vfnb.clients.proxied import Proxied

__all__ = ["Connection"]


class Connection:
    """Sends requests on the running loop, through a proxy where the environment names one.

    Args:
        timeout: longest silence while reading, in seconds.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._loop: asyncio.AbstractEventLoop | None = None
        self._wires: Wires | None = None
        self._proxied: Proxied | None = None
        self._direct: dict[str, bool] = {}

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes = b"") -> Answer:
        """Start a request; its answer is read with `head`, `read` or `readany` and must be released.

        Raises:
            BadUrl, NoConnection, Silent, Lost, Garbled: it could not be sent.
        """
        loop = asyncio.get_running_loop()
        if self._loop is not loop:
            self._loop, self._wires, self._proxied, self._direct = loop, None, None, {}
        direct = self._direct.get(url)
        if direct is None:
            direct = self._direct[url] = _direct(url)
        if direct:
            if self._wires is None:
                self._wires = Wires(self._timeout)
            return await self._wires.send(method, url, headers, body)
        if self._proxied is None:
            from vfnb.clients.proxied import Proxied

            self._proxied = Proxied(self._timeout)
        return await self._proxied.send(method, url, headers, body)

    @property
    def open(self) -> int:
        """Open connections, without those to a proxy."""
        return 0 if self._wires is None else len(self._wires)

    async def close(self) -> None:
        """Close all connections."""
        wires, self._wires = self._wires, None
        proxied, self._proxied = self._proxied, None
        if self._loop is not asyncio.get_running_loop():
            return
        if wires is not None:
            await wires.close()
        if proxied is not None:
            await proxied.close()


def _direct(url: str) -> bool:
    """Whether no proxy of the environment is meant for this URL."""
    parts = urlsplit(url)
    return parts.scheme not in getproxies() or bool(proxy_bypass(parts.hostname or ""))
