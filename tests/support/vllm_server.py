"""A server with vLLM's routes for tokens, in the shapes of several versions; the embedded model answers."""

from __future__ import annotations

import asyncio
import base64
import io
import json
from typing import Any

import numpy as np
from aiohttp import web

import vfnb as vf
from support.server import ThreadServer
from vfnb.clients.engines import Generation, TokenSampling

__all__ = ["PAD", "FakeVLLM"]

PAD = 720
"""The token of an image; a prompt's one becomes `image_tokens` of them."""


class FakeVLLM(ThreadServer):
    """Answers `/inference/v1/generate` and `/v1/completions` with token ids.

    Args:
        shape: of a log-probability: `"0.31"` (`token: "token_id:5"`) or `"0.32"` (`token_id: 5`).
        generate: status of the first route where it is switched off: 403 as vLLM does, 404 as older ones.
        experts: form of routed experts: `"npy"` (vLLM), `"dict"` (prime-rl), or none.
        mask: give sampling masks.
        raw: log-probabilities from before temperature.
        device: what it tells that it runs on; empty if it does not tell.
        twist: changes each answer before it is sent.
    """

    def __init__(
        self,
        *,
        shape: str = "0.31",
        generate: int = 200,
        experts: str = "",
        mask: bool = False,
        raw: bool = False,
        limit: int = 2048,
        device: str = "device_config=cuda",
        trainer: bool = False,
        twist: Any = None,
    ) -> None:
        super().__init__()
        self.shape, self.generate, self.experts, self.mask, self.raw = shape, generate, experts, mask, raw
        self.limit, self.device, self.trainer, self.twist = limit, device, trainer, twist
        self.engine = vf.Embedded()
        self.image_tokens = 5
        self.requests: list[tuple[str, Any]] = []
        self.keys: list[str | None] = []
        self.aborted = 0
        self.delay = 0.0
        self.gone = ""
        """An adapter that it has forgotten."""
        self.failures = 0
        """How many next calls fail with 500."""

    def asked(self, path: str) -> list[Any]:
        """The bodies sent to a route."""
        return [body for route, body in self.requests if route == path]

    async def handle(self, request: web.Request) -> web.StreamResponse:
        raw = await request.read()
        body = json.loads(raw) if raw else None
        self.requests.append((request.path, body))
        self.keys.append(request.headers.get("Authorization"))
        if request.path == "/v1/models":
            card = {"id": "tiny", "object": "model", "max_model_len": self.limit, "root": "/models/tiny"}
            return web.json_response({"object": "list", "data": [card]})
        if request.path == "/server_info" and self.device:
            return web.json_response({"vllm_config": f"model='tiny', {self.device}"})
        if request.path in _ADMIN:
            return self._admin(request.path, body)
        if self.failures:
            self.failures -= 1
            return _error(500, "InternalServerError", "engine trouble")
        try:
            if self.delay:
                await asyncio.sleep(self.delay)
            if request.path == "/inference/v1/generate":
                if self.generate != 200:
                    return _error(self.generate, "PermissionDeniedError", "Scale-out endpoints are disabled.")
                return await self._generate(body)
            if request.path == "/v1/completions":
                return await self._completion(body)
        except asyncio.CancelledError:
            self.aborted += 1
            raise
        return _error(404, "NotFoundError", "no such route")

    def _admin(self, path: str, body: Any) -> web.Response:
        if path == "/update_weights":
            if not self.trainer:
                return _error(400, "BadRequestError", "Missing 'update_info' in request body")
            return web.json_response({"status": "ok"})
        if path == "/load_lora_adapter" and not self.trainer:
            return _error(404, "NotFoundError", "no such route")
        if path == "/v1/unload_lora_adapter" and body["lora_name"] == self.gone:
            return _error(404, "NotFoundError", f"The lora adapter '{self.gone}' cannot be found.")
        if path == "/collective_rpc":
            assert body["method"] == "reload_weights"
        return web.json_response({"status": "ok"})

    async def _say(self, ids: list[int], params: dict[str, Any]) -> Generation:
        sampling = TokenSampling(
            max_tokens=params.get("max_tokens", 16),
            temperature=params.get("temperature", 1.0),
            top_p=params.get("top_p", 1.0),
            seed=params.get("seed"),
            stop_token_ids=tuple(params.get("stop_token_ids", ())),
        )
        made = await self.engine.generate(ids, sampling)
        if self.raw:
            scored = await self.engine.score([*ids, *made.token_ids.tolist()])
            made.logprobs = scored[len(ids) :]
        return made

    async def _generate(self, body: Any) -> web.Response:
        params, ids = body["sampling_params"], body["token_ids"]
        expanded, places = self._expand(ids, len(body.get("content_parts", ())))
        if len(expanded) >= self.limit:
            return _overflow(self.limit, len(expanded))
        made = await self._say(ids, params)
        tops = await self._tops(ids, params)
        choice: dict[str, Any] = {
            "index": 0,
            "token_ids": made.token_ids.tolist(),
            "finish_reason": made.finish_reason,
            "logprobs": {
                "content": [
                    self._entry(token, float(value)) | {"top_logprobs": [self._entry(t, v) for t, v in tops]}
                    for token, value in zip(made.token_ids.tolist(), made.logprobs, strict=True)
                ]
            },
            "routed_experts": self._routing(len(expanded) + len(made.token_ids)),
            "sampling_mask": [[token, token + 1] for token in made.token_ids.tolist()] if self.mask else None,
        }
        data: dict[str, Any] = {
            "request_id": "r",
            "choices": [choice],
            "usage": {"prompt_tokens": len(expanded)},
        }
        if body.get("return_token_ids"):
            data["prompt_token_ids"] = expanded
            data["mm_placeholders"] = {"image": places}
        if "prompt_logprobs" in params:
            data["prompt_logprobs"] = await self._scores(ids)
        return self._sent(data)

    async def _completion(self, body: Any) -> web.Response:
        ids = body["prompt"]
        if len(ids) >= self.limit:
            return _overflow(self.limit, len(ids))
        made = await self._say(ids, body)
        tops = await self._tops(ids, body)
        choice = {
            "index": 0,
            "text": "",
            "token_ids": made.token_ids.tolist() if body.get("return_token_ids") else None,
            "prompt_token_ids": ids,
            "finish_reason": made.finish_reason,
            "logprobs": {
                "token_logprobs": made.logprobs.tolist(),
                "top_logprobs": [{str(token): value for token, value in tops}],
            },
        }
        if "prompt_logprobs" in body:
            choice["prompt_logprobs"] = await self._scores(ids)
        return self._sent({"choices": [choice], "usage": {}})

    def _sent(self, data: dict[str, Any]) -> web.Response:
        if self.twist is not None:
            self.twist(data)
        return web.json_response(data)

    def _entry(self, token: int, value: float) -> dict[str, Any]:
        if self.shape == "0.32":
            return {"token_id": token, "logprob": value, "rank": 1}
        return {"token": f"token_id:{token}", "logprob": value, "bytes": None}

    async def _tops(self, ids: list[int], params: dict[str, Any]) -> list[tuple[int, float]]:
        """The two likeliest first tokens, with their log-probabilities."""
        if params.get("logprobs", 0) < 2:
            return []
        heat = 1.0 if self.raw else params.get("temperature", 1.0)
        logits = (
            self.engine.network.prefill(np.asarray(ids, np.int32), every=True)[-1].astype(np.float64) / heat
        )
        logits -= np.log(np.exp(logits - logits.max()).sum()) + logits.max()
        return [(int(token), float(logits[token])) for token in np.argsort(-logits)[:2]]

    async def _scores(self, ids: list[int]) -> list[Any]:
        scores = await self.engine.score(ids)
        rows = zip(ids[1:], scores[1:].tolist(), strict=True)
        return [None, *({str(token): {"logprob": value, "rank": 1}} for token, value in rows)]

    def _expand(self, ids: list[int], images: int) -> tuple[list[int], list[dict[str, int]]]:
        """As vLLM does: the one token that stands for an image becomes as many as the image has patches."""
        if not images:
            return ids, []
        found: list[int] = []
        places = []
        for token in ids:
            if token == PAD:
                places.append({"offset": len(found), "length": self.image_tokens})
                found += [PAD] * self.image_tokens
            else:
                found.append(token)
        assert len(places) == images, "one placeholder for each image"
        return found, places

    def _routing(self, tokens: int) -> Any:
        rows = np.arange((tokens - 1) * 4, dtype=np.uint8).reshape(tokens - 1, 2, 2)
        if self.experts == "npy":
            out = io.BytesIO()
            np.save(out, rows)
            return base64.b64encode(out.getvalue()).decode()
        if self.experts == "dict":
            data = base64.b64encode(rows.tobytes()).decode()
            return {"data": data, "shape": list(rows.shape), "start": 0, "dtype": "uint8"}
        return None


_ADMIN = (
    "/pause",
    "/resume",
    "/update_weights",
    "/collective_rpc",
    "/reset_prefix_cache",
    "/load_lora_adapter",
    "/v1/load_lora_adapter",
    "/v1/unload_lora_adapter",
)


def _error(status: int, kind: str, message: str) -> web.Response:
    return web.json_response(
        {"error": {"message": message, "type": kind, "param": None, "code": status}}, status=status
    )


def _overflow(limit: int, tokens: int) -> web.Response:
    return _error(
        400,
        "BadRequestError",
        f"This model's maximum context length is {limit} tokens. However, your request has {tokens} input tokens.",
    )
