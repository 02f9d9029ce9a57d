"""The relay: calls go to a model server, as the program wrote them or translated to what the server speaks."""

from __future__ import annotations

import asyncio
import logging
import os
import random
from functools import partial
from typing import Any
from urllib.parse import urlsplit

from vfnb.clients import address, failures
from vfnb.clients.attempt import Target, attempt
from vfnb.clients.base import ModelClient, ModelRequest, Reply
from vfnb.clients.connection import Connection
from vfnb.clients.counting import outgoing_count
from vfnb.clients.limits import endpoint
from vfnb.clients.outgoing import Outgoing, outgoing
from vfnb.clients.price import Price, price_of
from vfnb.clients.translated import Translator
from vfnb.dialects import Dialect, get
from vfnb.errors import (
    ConfigError,
    ModelError,
    UpstreamConnection,
    UpstreamMalformed,
    UpstreamRateLimited,
    UpstreamRejected,
    UpstreamServerError,
    UpstreamTimeout,
)

__all__ = ["Relay"]

_log = logging.getLogger("vfnb.clients")
_LONGEST_WAIT = 120.0
_NO_ROUTE = (404, 405, 501)
_SPEAKS_ANOTHER = (
    "if the server does not speak {}, say what it speaks: vf.Relay(..., dialect=...) or model.dialect"
)
_RETRIED = (UpstreamConnection, UpstreamRateLimited, UpstreamServerError, UpstreamMalformed)


class Relay(ModelClient):
    """Passes calls on, changing only the model, the credentials and what the run overrides.

    With `dialect=`, calls of programs that speak another one are translated, there and back, streams as they
    come; what cannot be carried is on the call's record (`dropped`) or refused, see `docs/translation.md`.

    Args:
        model: name that the upstream knows; the program's own name if empty.
        base_url: root of the server, with or without `/v1`; `OPENAI_BASE_URL` if not given, with `dialect=` that
            dialect's variable (`ANTHROPIC_BASE_URL` for `messages`, `GOOGLE_GEMINI_BASE_URL` for `gemini`).
        dialect: what the server speaks: `chat`, `responses`, `messages`, `gemini` or another that can write
            requests. None: whatever the program speaks.
        api_key_var: name of the environment variable with the key. It is read at each call and never kept.
            `""` is `OPENAI_API_KEY`, with `dialect=` that dialect's (`ANTHROPIC_API_KEY`, `GEMINI_API_KEY`).
            None for a server without keys; a server on this machine needs none.
        headers: more headers; a value `env:NAME` is read from the environment at each call.
        max_concurrency: most calls at once. This and the next two are shared by all clients of this process
            with the same server, key variable and model.
        rpm: most calls per minute.
        tpm: most tokens per minute (4 bytes a token, corrected by the reported usage).
        price: US dollars per million `(prompt, completion)` or `(prompt, completion, cached)` tokens, for
            upstreams that report no cost.
        timeout: longest silence of the upstream, in seconds.
        max_retries: how often a call is tried again after a lost connection, a 429, a 5xx or an unreadable
            answer, as long as nothing of an answer came.
        ask_usage: ask streams for usage when the program did not, and keep it from the program. Without it such
            calls have no token counts, and token limits cannot see them.
        retry_wait: seconds before the first retry; doubled for each further one. `Retry-After` wins.
    """

    def __init__(
        self,
        model: str = "",
        *,
        base_url: str | None = None,
        dialect: str | None = None,
        api_key_var: str | None = "",
        headers: dict[str, str] | None = None,
        max_concurrency: int | None = None,
        rpm: int | None = None,
        tpm: int | None = None,
        price: Price | tuple[float, ...] | None = None,
        timeout: float = 600.0,
        max_retries: int = 2,
        retry_wait: float = 0.5,
        ask_usage: bool = False,
    ) -> None:
        for name, value in (("max_concurrency", max_concurrency), ("rpm", rpm), ("tpm", tpm)):
            if value is not None and value < 1:
                raise ConfigError(f"{name}={value}: it must be at least 1, or None for no limit")
        if base_url is not None and urlsplit(base_url).scheme not in ("http", "https"):
            raise ConfigError(f"base_url={base_url!r} must start with http:// or https://")
        if api_key_var and not api_key_var.isidentifier():
            raise ConfigError("api_key_var is the name of an environment variable, not the key itself")
        self.name = model
        self._dialect = None if dialect is None else _upstream(dialect)
        speaks = self._dialect or get("chat")
        self._base_url_var = speaks.base_url_var
        api_key_var = speaks.api_key_var if api_key_var == "" else api_key_var
        self.price = price_of(price)
        self._base_url = base_url
        self._key_var = api_key_var
        self._headers = dict(headers or {})
        self._timeout = timeout
        self._bounds = {"max_concurrency": max_concurrency, "rpm": rpm, "tpm": tpm}
        self._max_retries = max_retries
        self._retry_wait = retry_wait
        self._ask_usage = ask_usage
        self._told: set[str] = set()
        self._connection = Connection(timeout)
        self._endpoint = endpoint(self.base_url, api_key_var, model)
        self._endpoint.configure(max_concurrency, rpm, tpm)

    @property
    def base_url(self) -> str | None:
        """The server's root as given or as in the environment now."""
        return self._base_url or os.environ.get(self._base_url_var) or None

    @property
    def dialect(self) -> str | None:
        """What the server speaks; None if it speaks what the program does."""
        return None if self._dialect is None else self._dialect.name

    def identity(self) -> dict[str, Any]:
        data = {
            "kind": "relay",
            "model": self.name,
            "base_url": address.public_url(self.base_url),
            "headers": address.public_headers(self._headers),
        }
        return data if self._dialect is None else data | {"dialect": self.dialect}

    def settings(self) -> dict[str, Any]:
        price = self.price
        return {
            "name": self.name,
            "base_url": address.public_url(self.base_url),
            "dialect": self.dialect,
            "api_key_var": self._key_var,
            "headers": address.public_headers(self._headers),
            **self._bounds,
            "price": [number for number in price if number is not None] if price else None,
            "timeout": self._timeout,
            "max_retries": self._max_retries,
            "retry_wait": self._retry_wait,
            "ask_usage": self._ask_usage,
        }

    def __repr__(self) -> str:
        where = address.public_url(self.base_url)
        speaks = "" if self._dialect is None else f", dialect={self.dialect!r}"
        return f"Relay({self.name!r}, base_url={where!r}{speaks}, api_key_var={self._key_var!r})"

    def check(self) -> None:
        address.read_key(self._key_var, self._root())
        address.resolve_headers(self._headers)

    def _root(self) -> str:
        root = self.base_url
        if root is None:
            raise ConfigError(
                f"no server for model {self.name!r}: pass base_url= to vf.Relay or set {self._base_url_var}"
            )
        return root

    async def probe(self, timeout: float = 5.0) -> None:
        root = self._root()
        speaks = self._dialect or get("chat")
        url = address.endpoint_url(root, speaks.models_path)
        key = address.read_key(self._key_var, root)
        headers = address.resolve_headers(self._headers) | (speaks.auth(key) if key else {})
        shown = address.public_url(url) or url
        try:
            async with asyncio.timeout(timeout):
                answer = await self._connection.send("GET", url, headers)
                try:
                    body = (await answer.read())[:2000]
                    status = answer.status
                finally:
                    answer.release()
        except (TimeoutError, OSError, ValueError) as error:
            raise failures.from_exception(error, shown, started=False) from error
        if status in (401, 403) or status >= 500:
            text = body.decode("utf-8", "replace")[:300]
            text = address.struck(text, address.secrets_of(root, key, headers))
            kind = UpstreamServerError if status >= 500 else UpstreamRejected
            raise kind(f"{shown} answered {status}: {text} (key variable: {self._key_var})", status=status)

    async def close(self) -> None:
        await self._connection.close()

    async def call(self, request: ModelRequest) -> Reply:
        if self._dialect is None or not self._foreign(request):
            try:
                return await self._call(request, outgoing(request, self.name, ask_usage=self._ask_usage))
            except UpstreamRejected as error:
                if self._dialect is None and _no_such_route(error):
                    error.args = (f"{error}; {_SPEAKS_ANOTHER.format(request.dialect.name)}",)
                raise
        translator = Translator(request, self._dialect, self.name)
        self._tell(request.dialect.name, translator.dropped)
        try:
            return translator.back(await self._call(translator.request, translator.outgoing))
        except ModelError as error:
            error.body = b""  # it has the form of the other dialect; the message has its words
            raise

    def _foreign(self, request: ModelRequest) -> bool:
        return self._dialect is not None and self._dialect.name != request.dialect.name

    def _tell(self, program: str, dropped: list[str]) -> None:
        """Report what cannot be carried, once."""
        new = [what for what in dropped if what not in self._told]
        self._told.update(new)
        if new:
            text = "not carried from %s to %s: %s. docs/translation.md says what is"
            _log.warning(text, program, self.dialect, ", ".join(new))

    async def _call(self, request: ModelRequest, call: Outgoing) -> Reply:
        failed: list[ModelError] = []
        while True:
            try:
                reply = await self._try(request, call)
            except _RETRIED as error:
                failed.append(error)
                wait = self._wait(error, len(failed))
                if wait is None or _too_late(request.deadline, wait):
                    raise
                if isinstance(error, UpstreamRateLimited):
                    self._endpoint.pause(wait)
                else:
                    await asyncio.sleep(wait)
            else:
                reply.failed = failed
                return reply

    def _wait(self, error: ModelError, tried: int) -> float | None:
        """Seconds until the next try, None if there is none."""
        if tried > self._max_retries:
            return None
        wait = (
            self._retry_wait * 2 ** (tried - 1) * random.uniform(0.8, 1.2)
        )  # calls that fell together spread
        told = getattr(error, "retry_after", None)
        if told is not None:
            wait = told
        return wait if wait <= _LONGEST_WAIT else None

    def _target(self, request: ModelRequest, path: str) -> Target:
        root = self._root()
        url = address.endpoint_url(root, path)
        key = address.read_key(self._key_var, root)
        own = address.resolve_headers(self._headers)
        headers = {**request.dialect.headers, **request.headers, **own}
        if key:
            headers |= request.dialect.auth(key)
        secrets = partial(address.secrets_of, root, key, own)
        return Target(url, address.public_url(url) or url, headers, secrets)

    async def count(self, request: ModelRequest) -> int | bytes:
        """The upstream's count, an estimate if it has no route for that or speaks another dialect."""
        if self._foreign(request):
            return await super().count(request)
        target = self._target(request, request.dialect.count_path)
        try:
            async with asyncio.timeout_at(request.deadline):
                body = outgoing_count(request, self.name)
                answer = await self._connection.send("POST", target.url, target.headers, body)
                try:
                    body = await answer.read()
                    status, headers = answer.status, answer.headers
                finally:
                    answer.release()
        except (TimeoutError, OSError, ValueError) as error:
            raise failures.from_exception(error, target.shown, started=False) from error
        if status in _NO_ROUTE:
            return await super().count(request)
        if status != 200:
            raise failures.from_status(status, body, headers, request.dialect, target.shown, target.secrets())
        return body

    async def _try(self, request: ModelRequest, call: Outgoing) -> Reply:
        target = self._target(request, request.dialect.path(call.model, request.stream))
        size = len(call.body) // 4
        try:
            permit = self._endpoint.try_acquire(size)
            if permit is None:
                async with asyncio.timeout_at(request.deadline):
                    permit = await self._endpoint.acquire(size)
        except TimeoutError as error:
            text = f"{target.shown}: the call's deadline passed while it waited for the endpoint's limits"
            raise UpstreamTimeout(text) from error
        return await attempt(request, call, self._connection, permit, target)


def _upstream(name: str) -> Dialect[Any, Any]:
    dialect = get(name)
    if type(dialect).request is Dialect.request:
        dialect.request([], [], "", {}, stream=False)  # says what to define
    return dialect


def _no_such_route(error: UpstreamRejected) -> bool:
    """Whether the path was not found; a model that was not found says so in its body."""
    return error.status in (404, 405) and b"model" not in error.body.lower()


def _too_late(deadline: float | None, wait: float) -> bool:
    return deadline is not None and asyncio.get_running_loop().time() + wait >= deadline
