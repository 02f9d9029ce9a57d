"""The token client: messages become token ids, an engine samples, and what it sampled becomes the program's reply.

The prompt of a call begins with the very tokens that the model saw and sampled before, wherever the template allows
it; the trace gets the ids, log-probabilities and spans of each message.
"""

from __future__ import annotations

import asyncio
import time
from typing import Any

import numpy as np

from vfnb.clients.base import ModelClient, ModelRequest, Reply
from vfnb.clients.engines.base import Generation, ImageEngine, TokenEngine
from vfnb.clients.images import expanded
from vfnb.clients.policy import Policy, policy
from vfnb.clients.rendering import Offer, Prompt, answer
from vfnb.clients.template import Template, template
from vfnb.dialects import Splitter
from vfnb.errors import ContextLengthError, UpstreamMalformed, UpstreamRejected, UpstreamTimeout
from vfnb.trace.tokens import TokenTurn
from vfnb.types import Response, Usage
from vfnb.utils.ids import new_id

__all__ = ["TrainClient"]


class TrainClient(ModelClient):
    """Answers calls of any dialect by a token engine, and records exact tokens.

    Args:
        engine: who samples, e.g. `vf.Embedded()` or `vf.VLLM(...)`.
        renderer: how messages become tokens: the name of a family that the `renderers` package has, `"chatml"`,
            `"hermes"` (ChatML, tools as text), `"jinja"` for the model's own template, or a renderer's config. None
            takes the engine's own choice.

    A call is answered as a whole; programs that asked for a stream get keepalives until then, then all events.
    """

    def __init__(self, engine: TokenEngine, renderer: Any = None) -> None:
        self.engine = engine
        self.name = engine.model
        self._renderer = renderer
        self._template: Template | None = None
        self._promised: dict[str, Any] | None = None

    @property
    def template(self) -> Template:
        """The chat template in use.

        Raises:
            ConfigError: there is none that fits the model.
        """
        if self._template is None:
            self._template = template(self.engine, self._renderer)
        return self._template

    def check(self) -> None:
        self.engine.check()
        _ = self.template

    def identity(self) -> dict[str, Any]:
        self._promised = self.engine.identity()
        return self._promised | {"renderer": self.template.name}

    def _unchanged(self) -> None:
        """The rollouts of a run are told by its model: other weights in the middle would be recorded as these."""
        if self._promised is not None and self.engine.identity() != self._promised:
            raise UpstreamRejected(
                "the engine's weights have changed since the run began; load weights between runs", status=400
            )

    async def count(self, request: ModelRequest) -> int:
        """The prompt's tokens, counted."""
        return len((await self.template.prompt(request, Offer(request.tools))).ids)

    async def close(self) -> None:
        await self.engine.release()

    def __repr__(self) -> str:
        return f"TrainClient({self.engine!r})"

    async def call(self, request: ModelRequest) -> Reply:
        if request.deadline is None:
            return await self._answer(request)
        try:
            async with asyncio.timeout_at(request.deadline):
                return await self._answer(request)
        except TimeoutError as error:
            raise UpstreamTimeout("the engine had no answer at the call's deadline") from error

    async def _answer(self, request: ModelRequest) -> Reply:
        await self.engine.start()
        self._unchanged()
        settings = self._policy(request)
        offer = Offer(request.tools)
        prompt = await self.template.prompt(request, offer)
        limit = self.engine.max_model_len
        if limit is not None and len(prompt.ids) >= limit:
            raise ContextLengthError(
                f"This model's maximum context length is {limit} tokens, the prompt has {len(prompt.ids)}.",
                status=400,
            )
        made, prompt = await self._made(request, prompt, settings)
        _check(made)
        self._unchanged()
        return Reply(
            response=self._response(request, made, offer, settings, len(prompt.ids)),
            tokens=_turn(prompt, made),
            sampling_sent=settings.sent,
            dropped=[*settings.left, *(f"tool {name}" for name in offer.left_out)],
            served_model=self.name,
            first_byte=time.time(),
        )

    async def _made(
        self, request: ModelRequest, prompt: Prompt, settings: Policy
    ) -> tuple[Generation, Prompt]:
        """The completion, and the prompt as the model saw it."""
        if not prompt.images:
            return await self.engine.generate(prompt.ids, settings.sampling), prompt
        if not isinstance(self.engine, ImageEngine):
            raise UpstreamRejected(
                f"{self.engine!r} cannot show images to its model; ask a vLLM server: vf.VLLM(url=...)",
                status=400,
            )
        made = await self.engine.generate(prompt.ids, settings.sampling, prompt.images)
        history = request.history() if prompt.start else None
        return made, expanded(prompt, made, None if history is None else history.ids)

    def _policy(self, request: ModelRequest) -> Policy:
        split = request.split or Splitter(request.dialect).split(request.body)
        return policy(
            request.dialect.sampling(split.fields),
            request.sampling,
            stop_ids=self.template.stop_ids,
            supports=self.engine.SUPPORTS,
            status=request.dialect.stop_status,
            seeds=self.engine.seeds,
        )

    def _response(
        self, request: ModelRequest, made: Generation, offer: Offer, settings: Policy, prompt_tokens: int
    ) -> Response:
        parsed, text_of = self.template.parse(made.token_ids.tolist())
        message = answer(parsed, text_of, offer, calls=settings.calls and bool(request.tools))
        finish = made.finish_reason
        usage = Usage(
            prompt_tokens=prompt_tokens,
            completion_tokens=len(made.token_ids),
            cached_tokens=made.cached_tokens,
            reasoning_tokens=self.template.count(message.reasoning_content or ""),
        )
        return Response(
            message=message,
            finish_reason="tool_calls" if message.tool_calls and finish == "stop" else finish,
            usage=usage,
            id=f"gen-{new_id()}",
            model=self.name,
        )


def _turn(prompt: Prompt, made: Generation) -> TokenTurn:
    content = prompt.content
    if content is not None:
        content = np.concatenate([content, np.ones(len(made.token_ids), np.bool_)])
    return TokenTurn(
        prompt_ids=np.asarray(prompt.ids[prompt.start :], np.int32),
        completion_ids=made.token_ids,
        logprobs=made.logprobs,
        spans=prompt.spans,
        start=prompt.start,
        content_mask=content,
        sampling_mask=made.sampling_mask,
        routed_experts=made.routed_experts,
        experts_start=made.experts_start,
        kept_tokens=made.kept_tokens,
        media=prompt.media,
    )


def _check(made: Generation) -> None:
    """What an engine must not get wrong, for nobody could see it later.

    Raises:
        UpstreamMalformed: no tokens, another number of log-probabilities, or one that is none.
    """
    count = len(made.token_ids)
    if not count:
        raise UpstreamMalformed("the engine sampled no token", status=200)
    if len(made.logprobs) != count:
        raise UpstreamMalformed(
            f"the engine gave {len(made.logprobs)} log-probabilities for {count} tokens", status=200
        )
    wrong = ~np.isfinite(made.logprobs) | (made.logprobs > 1e-3)
    if wrong.any():
        place = int(np.flatnonzero(wrong)[0])
        raise UpstreamMalformed(
            f"the engine gave the log-probability {made.logprobs[place]} for token {place} of its answer",
            status=200,
        )
