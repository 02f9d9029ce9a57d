"""Token engines for tests: one that says what it is told, and keeps what it was asked."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

import vfnb as vf
from vfnb.clients.engines import Generation, TokenEngine, TokenSampling

__all__ = ["Told", "think"]


def think(text: str, thought: str = "hm") -> str:
    """A completion in the Qwen3 form."""
    return f"<think>\n{thought}\n</think>\n\n{text}<|im_end|>"


class Told(TokenEngine):
    """Answers with texts (special tokens in them are tokens), with token ids, or with another engine's answers.

    `asked` and `said` have the prompt and the completion of each call.
    """

    renderer = "qwen3"

    def __init__(
        self, answers: Sequence[Any] | Callable[[list[int]], Any] = (), *, limit: int = 4096
    ) -> None:
        self.model = "told"
        self.max_model_len = limit
        self.answers = answers if callable(answers) else list(answers)
        self.asked: list[list[int]] = []
        self.said: list[list[int]] = []
        self.samplings: list[TokenSampling] = []
        self.delay = 0.0
        self.cancelled = 0
        self._inner = vf.Embedded()

    def identity(self) -> dict[str, Any]:
        return {"kind": "told"}

    def tokenizer(self) -> Any:
        return self._inner.tokenizer()

    async def generate(self, prompt_ids: Any, sampling: TokenSampling) -> Generation:
        number = len(self.asked)
        self.asked.append(list(map(int, prompt_ids)))
        self.samplings.append(sampling)
        try:
            await asyncio.sleep(self.delay)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise
        answer = self.answers(self.asked[-1]) if callable(self.answers) else self.answers[number]
        if isinstance(answer, Generation):
            return answer
        ids = self.tokenizer().encode_template(answer) if isinstance(answer, str) else list(answer)
        self.said.append(ids)
        ended = ids[-1] in sampling.stop_token_ids
        logprobs = -0.125 * (1 + np.arange(len(ids), dtype=np.float32) % 7)
        return Generation(np.array(ids, np.int32), logprobs, "stop" if ended else "length")

    async def score(self, token_ids: Any) -> Any:
        return np.zeros(len(token_ids), np.float32)
