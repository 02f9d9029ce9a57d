"""Answers that come through a proxy of the environment; aiohttp speaks to it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import aiohttp
from aiohttp import payload

from vfnb.clients.wire import Garbled, Lost, Silent
from vfnb.clients.wires import HEADERS, BadUrl, NoConnection

__all__ = ["Proxied", "ProxiedAnswer"]


class _Body(payload.BytesPayload):
    """A body of any size, without the size warning of plain bytes: it is in memory already."""

    def __init__(self, value: bytes) -> None:
        payload.Payload.__init__(self, value, content_type="application/json")
        self._size = len(value)


class Proxied:
    """An aiohttp session that honours `HTTP_PROXY`, `HTTPS_PROXY` and `NO_PROXY`.

    Args:
        timeout: longest silence while reading, in seconds.
    """

    def __init__(self, timeout: float) -> None:
        self._session = aiohttp.ClientSession(
            connector=aiohttp.TCPConnector(limit=0, keepalive_timeout=60, ttl_dns_cache=300),
            timeout=aiohttp.ClientTimeout(total=None, sock_connect=20, sock_read=timeout),
            cookie_jar=aiohttp.DummyCookieJar(),
            headers=HEADERS,
            skip_auto_headers=("Accept",),
            trust_env=True,
            auto_decompress=False,
        )

    async def send(self, method: str, url: str, headers: Mapping[str, str], body: bytes) -> ProxiedAnswer:
        """Send a request and wait for the head of its answer; raises as `Wires.send`."""
        with _translated():
            response = await self._session.request(
                method, url, headers=headers, data=_Body(body) if body else None, allow_redirects=False
            )
        return ProxiedAnswer(response)

    async def close(self) -> None:
        """Close all connections."""
        await self._session.close()


class ProxiedAnswer:
    """An `Answer` of aiohttp."""

    def __init__(self, response: aiohttp.ClientResponse) -> None:
        self._response = response
        self.status = response.status
        self.headers: dict[str, str] = {}
        for name, value in response.headers.items():
            self.headers.setdefault(name.lower(), value)

    async def head(self) -> None:
        """It has come already."""

    async def read(self) -> bytes:
        with _translated():
            return await self._response.read()

    async def readany(self) -> bytes:
        with _translated():
            return await self._response.content.readany()

    @property
    def ended(self) -> bool:
        return self._response.content.at_eof()

    def release(self) -> None:
        if self.ended:
            self._response.release()
        else:
            self._response.close()

    def fail(self, error: Exception) -> None:
        self._response.content.set_exception(error)
        self._response.close()


@contextmanager
def _translated() -> Iterator[None]:
    """Errors of aiohttp as those of a `Wire`."""
    try:
        yield
    except TimeoutError as error:
        raise Silent(str(error) or type(error).__name__) from error
    except aiohttp.InvalidURL as error:
        raise BadUrl(str(error)) from error
    except aiohttp.ClientConnectorError as error:
        raise NoConnection(str(error)) from error
    except aiohttp.ClientResponseError as error:
        raise Garbled(str(error)) from error
    except (aiohttp.ClientError, OSError) as error:
        raise Lost(str(error) or type(error).__name__) from error
