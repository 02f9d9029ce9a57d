"""A vLLM server, or one with its routes such as prime-rl's, asked with token ids."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from vfnb.clients.address import endpoint_url, is_loopback, public_url, read_key, secrets_of
from vfnb.clients.engines.base import Generation
from vfnb.clients.engines.vllm_answer import read_completion, read_generate, read_prompt_logprobs, top_gap
from vfnb.clients.engines.vllm_request import Asked
from vfnb.clients.failures import from_status
from vfnb.dialects import get
from vfnb.errors import (
    ModelError,
    UpstreamConnection,
    UpstreamMalformed,
    UpstreamRejected,
    UpstreamServerError,
    UpstreamTimeout,
)

if TYPE_CHECKING:
    import aiohttp

__all__ = ["Server"]

_GENERATE = "/inference/v1/generate"
_COMPLETIONS = "/v1/completions"
_TRIES = 3
_WAIT_S = 0.5
_log = logging.getLogger("vfnb.clients")


class Server:
    """Routes of one server. Engine loop only.

    Args:
        url: its root, with or without `/v1`.
        model: the name that it serves; None takes the only one.
        socket: path of a Unix socket to reach it by.
        key_var: name of the environment variable with the key.
        timeout: longest wait for an answer, in seconds.
    """

    def __init__(
        self,
        url: str,
        model: str | None = None,
        *,
        socket: str | None = None,
        key_var: str | None = None,
        timeout: float = 3600.0,
    ) -> None:
        self.url, self.model = url.rstrip("/"), model
        self._socket, self._key_var, self._timeout = socket, key_var, timeout
        self._session: aiohttp.ClientSession | None = None
        self._base = ""
        """The model without an adapter."""
        self.root = ""
        """Where the server has its model from."""
        self.max_model_len: int | None = None
        self.seeds = False
        """Whether requests may have seeds of their own."""
        self._generates: bool | None = None
        self._processed: bool | None = None

    async def start(self) -> None:
        """Ask for the model, its context length and the routes.

        Raises:
            ModelError: no server, another model, or no route that takes tokens.
        """
        card = self._card(await self._get("/v1/models"))
        self.model = self._base = str(card["id"])
        self.root = str(card.get("root") or "")
        length = card.get("max_model_len")
        self.max_model_len = length if isinstance(length, int) and length > 0 else None
        self.seeds = await self._takes_seeds()
        await self._probe()

    def _card(self, data: Any) -> Mapping[str, Any]:
        cards = data.get("data") if isinstance(data, Mapping) else None
        found = {str(card.get("id")): card for card in cards or [] if isinstance(card, Mapping)}
        if self.model is not None and self.model in found:
            return found[self.model]
        if self.model is None and len(found) == 1:
            return next(iter(found.values()))
        names = ", ".join(map(repr, found)) or "none"
        raise UpstreamRejected(
            f"{public_url(self.url)} does not serve {self.model!r} but {names}; name one: vf.VLLM('NAME', url=...)"
            if self.model is not None
            else f"{public_url(self.url)} serves {names}; name one: vf.VLLM('NAME', url=...)",
            status=404,
        )

    async def _takes_seeds(self) -> bool:
        """Whether it is known not to die of a request with a seed, as a CPU does that chunks its prefills.

        Only a server in development mode tells what it runs on.
        """
        try:
            data = await self._get("/server_info")
        except ModelError:
            return False
        told = str(data.get("vllm_config", "")) if isinstance(data, Mapping) else ""
        device = re.search(r"device_config=(\w+)", told)
        return device is not None and (device[1] != "cpu" or "enable_chunked_prefill=False" in told)

    async def _probe(self) -> None:
        """Which route takes token ids."""
        body = {"model": self.model, "token_ids": [0], "sampling_params": {"max_tokens": 1, "logprobs": 1}}
        try:
            read_generate(await self._post(_GENERATE, body))
            self._generates = True
        except (UpstreamRejected, UpstreamMalformed) as error:
            if error.status not in (403, 404, 405, 501):
                raise
            self._generates = False
            read_completion(await self._post(_COMPLETIONS, self._completion([0], {"max_tokens": 1}, {})))
            _log.warning(
                "%s has no %s (%s): start it with --enable-scale-out. Until then /v1/completions is asked with "
                "token ids; images and sampling masks need the former",
                public_url(self.url),
                _GENERATE,
                error.status,
            )

    async def generate(self, prompt: Sequence[int], request: Asked, images: Sequence[str] = ()) -> Generation:
        """One completion. Cancelling it closes the connection, upon which the server aborts the request."""
        ids = np.asarray(prompt).tolist()
        if self._generates:
            body = {"model": self.model, "token_ids": ids, **request.beside}
            body["sampling_params"] = request.params | {"logprobs": 1}
            if images:
                body["content_parts"] = [{"type": "image_url", "url": url} for url in images]
                body["return_token_ids"] = True
            return read_generate(await self._post(_GENERATE, body))
        if images:
            raise UpstreamRejected(
                f"images need {_GENERATE} of the server: start it with --enable-scale-out", status=400
            )
        return read_completion(
            await self._post(_COMPLETIONS, self._completion(ids, request.params, request.beside))
        )

    def _completion(
        self, ids: list[int], params: Mapping[str, Any], beside: Mapping[str, Any]
    ) -> dict[str, Any]:
        return {
            "model": self.model,
            "prompt": ids,
            **beside,
            **params,
            "logprobs": 1,
            "return_token_ids": True,
            "add_special_tokens": False,
        }

    async def score(self, token_ids: Sequence[int]) -> NDArray[np.float32]:
        """float32[n]: log-probability of each token after those before it; 0.0 for the first."""
        ids = np.asarray(token_ids).tolist()
        params = {"max_tokens": 1, "temperature": 1.0, "prompt_logprobs": 0}
        if self._generates:
            body = {"model": self.model, "token_ids": ids, "sampling_params": params | {"logprobs": 1}}
            return read_prompt_logprobs(await self._post(_GENERATE, body), ids)
        return read_prompt_logprobs(await self._post(_COMPLETIONS, self._completion(ids, params, {})), ids)

    async def processed(self, prompts: Sequence[Sequence[int]]) -> bool:
        """Whether its log-probabilities are of the distribution that it samples from.

        By default vLLM gives those of the model before temperature. Halving the temperature doubles the gap between
        the two likeliest tokens in the former, and leaves it in the latter.
        """
        if self._processed is None:
            for prompt in prompts:
                gaps = [await self._gap(prompt, temperature) for temperature in (1.0, 0.5)]
                if gaps[0] > 0.2:
                    self._processed = gaps[1] > 1.5 * gaps[0]
                    break
            else:
                return False
        return self._processed

    async def _gap(self, prompt: Sequence[int], temperature: float) -> float:
        ids = list(map(int, prompt))
        params = {"max_tokens": 1, "temperature": temperature, "logprobs": 2}
        if self._generates:
            body = {"model": self.model, "token_ids": ids, "sampling_params": params}
            return top_gap(await self._post(_GENERATE, body))
        return top_gap(await self._post(_COMPLETIONS, self._completion(ids, params, {}) | {"logprobs": 2}))

    # weights

    async def update_weights(self, path: str) -> None:
        """Have the server take the weights of a folder that it can read: pause, update, resume, as in prime-rl."""
        await self._post("/pause", {}, missing=_NO_UPDATES)
        try:
            try:
                await self._post("/update_weights", {"weight_dir": path})
            except UpstreamRejected as error:  # vLLM's own route of this name takes tensors
                if error.status not in (400, 404, 422):
                    raise
                call = {"method": "reload_weights", "kwargs": {"weights_path": path}}
                await self._post("/collective_rpc", call, missing=_NO_UPDATES)
            await self._forget()
        finally:
            await self._post("/resume", {})

    async def load_lora(self, name: str, path: str) -> None:
        """Load an adapter that the server can read, and ask for it by its name from now on; an earlier one goes."""
        earlier = self.model
        body = {"lora_name": name, "lora_path": path}
        try:
            await self._post("/load_lora_adapter", body)
        except UpstreamRejected as error:
            if error.status not in (404, 405):
                raise
            again = {"load_inplace": True} if self.model == name else {}
            await self._post("/v1/load_lora_adapter", body | again, missing=_NO_LORA)
        self.model = name
        if earlier not in (self._base, name):
            with contextlib.suppress(UpstreamRejected):  # gone already; if it stays, nobody asks for it
                await self._post("/v1/unload_lora_adapter", {"lora_name": earlier})
        await self._forget()

    async def unload_lora(self) -> None:
        """Ask for the plain model again."""
        await self._post("/v1/unload_lora_adapter", {"lora_name": self.model}, missing=_NO_LORA)
        self.model = self._base

    async def _forget(self) -> None:
        """The key-value cache of old weights must not be gone on with; prime-rl's server sees to it by itself."""
        try:
            await self._post("/reset_prefix_cache", {})
        except UpstreamRejected as error:
            if error.status not in (404, 405):
                raise

    # transport

    async def _get(self, path: str) -> Any:
        return await self._ask("GET", path, None)

    async def _post(self, path: str, body: Mapping[str, Any], *, missing: str = "") -> Any:
        try:
            return await self._ask("POST", path, msgspec.json.encode(body))
        except UpstreamRejected as error:
            if missing and error.status in (404, 405):
                raise UpstreamRejected(
                    f"{public_url(self.url)} has no {path}: {missing}", status=404
                ) from error
            raise

    async def _ask(self, method: str, path: str, body: bytes | None) -> Any:
        """One request; lost connections and 5xx are tried again, for nothing has been recorded yet."""
        wait = _WAIT_S
        for _ in range(_TRIES - 1):
            try:
                return await self._once(method, path, body)
            except (UpstreamConnection, UpstreamServerError) as error:
                if error.status == 501:
                    raise
                await asyncio.sleep(wait)
                wait *= 2
        return await self._once(method, path, body)

    async def _once(self, method: str, path: str, body: bytes | None) -> Any:
        import aiohttp

        url = _address(self.url, path)
        key = read_key(self._key_var, self.url)
        headers = {"Content-Type": "application/json"} | ({"Authorization": f"Bearer {key}"} if key else {})
        try:
            async with self._open().request(
                method, url, data=body, headers=headers, allow_redirects=False
            ) as response:
                raw = await response.read()
                status, told = response.status, dict(response.headers)
        except TimeoutError as error:
            raise UpstreamTimeout(f"{public_url(self.url)} did not answer in time") from error
        except (aiohttp.ClientError, OSError) as error:
            raise UpstreamConnection(
                f"no answer of the vLLM server at {public_url(self.url)}: {error or type(error).__name__}"
            ) from error
        if status >= 300:
            secrets = secrets_of(self.url, key, {})
            raise from_status(status, raw, told, get("chat"), f"{public_url(self.url)}{path}", secrets)
        try:
            return msgspec.json.decode(raw) if raw else None
        except msgspec.DecodeError:
            return raw.decode("utf-8", "replace")

    def _open(self) -> aiohttp.ClientSession:
        if self._session is None or self._session.closed:
            import aiohttp

            connector: aiohttp.BaseConnector
            if self._socket is not None:
                connector = aiohttp.UnixConnector(self._socket, limit=0)
            else:
                connector = aiohttp.TCPConnector(limit=0)
            self._session = aiohttp.ClientSession(
                connector=connector,
                timeout=aiohttp.ClientTimeout(total=self._timeout, sock_connect=20),
                trust_env=self._socket is None and not is_loopback(self.url),
            )
        return self._session

    async def close(self) -> None:
        """Close the connections."""
        if self._session is not None:
            await self._session.close()
            self._session = None

    def drop(self) -> None:
        """Let go of the connections from another thread; the loop closes them."""
        session, self._session = self._session, None
        if session is not None:
            with contextlib.suppress(RuntimeError):  # the loop has ended
                session._loop.call_soon_threadsafe(lambda: asyncio.ensure_future(session.close()))


def _address(root: str, path: str) -> str:
    """Routes of the OpenAI API are below `/v1`, the others at the server's root."""
    if path.startswith("/v1/"):
        return endpoint_url(root, path)
    return endpoint_url(root.removesuffix("/v1"), path)


_NO_UPDATES = (
    "start the server with VLLM_SERVER_DEV_MODE=1 in its environment (only where nobody else can reach it), or use "
    "prime-rl's server"
)
_NO_LORA = "start the server with --enable-lora and VLLM_ALLOW_RUNTIME_LORA_UPDATING=True in its environment"
