"""The embedded model: a small Qwen3 that runs in this process on numpy, with no download and no server.

All requests share one thread with continuous batching: each round admits what waits, then makes one step of all.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import threading
from collections import Counter, deque
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from vfnb.clients.engines.base import Generation, TokenEngine, TokenSampling
from vfnb.clients.engines.cores import one_core
from vfnb.errors import ConfigError, ContextLengthError, MissingExtra, UpstreamServerError

if TYPE_CHECKING:
    from vfnb.clients.engines.qwen3 import Cache, Qwen3

__all__ = ["Embedded"]

MODEL = Path(__file__).parent / "tiny"
Ids = NDArray[np.int32]


class Embedded(TokenEngine):
    """A small model in this process.

    Args:
        path: a folder with a Qwen3 model as Hugging Face stores it; None takes the one that comes with vfnb: 0.3 M
            parameters that call a calculator, look up words and add numbers, and err often enough to learn from.
        seed: of requests that give none. The n-th completion of a prompt is the same in every process.
        max_batch: sequences that advance together.

    Log-probabilities are those of the distribution that was sampled from: after temperature, top_k, top_p, min_p.
    """

    renderer = "qwen3"

    def __init__(self, path: str | Path | None = None, *, seed: int = 0, max_batch: int = 64) -> None:
        if max_batch < 1:
            raise ConfigError(f"max_batch={max_batch}: it must be at least 1")
        self.path = MODEL if path is None else Path(path)
        self.model = "vfnb-tiny" if path is None else self.path.name
        self.seed, self.max_batch = seed, max_batch
        self._network: Qwen3 | None = None
        self._tokenizer: Any = None
        self._lock = threading.Condition()
        self._waiting: deque[_Request] = deque()
        self._thread: threading.Thread | None = None
        self._closing = False
        self._asked: Counter[bytes] = Counter()
        self._digest: str | None = None

    def check(self) -> None:
        if not (self.path / "config.json").is_file():
            raise ConfigError(f"{self.path} has no config.json; give a folder with a Qwen3 model")
        self.tokenizer()

    def identity(self) -> dict[str, Any]:
        return {"kind": "embedded", "model": self.model, "weights": self.weights_digest, "seed": self.seed}

    @property
    def weights_digest(self) -> str:
        """SHA-256 of the weights in use, 32 hex digits."""
        if self._digest is None:
            found = hashlib.sha256()
            for name, array in sorted(self.network.weights.items()):
                found.update(name.encode())
                found.update(np.ascontiguousarray(array).data)
            self._digest = found.hexdigest()[:32]
        return self._digest

    @property
    def network(self) -> Qwen3:
        """The network, loaded at the first look."""
        if self._network is None:
            from vfnb.clients.engines.qwen3 import Qwen3
            from vfnb.clients.engines.weights import read_folder

            self._network = Qwen3(*read_folder(self.path))
            self.max_model_len = self._network.limit
        return self._network

    def tokenizer(self) -> Any:
        """The tokenizer of the folder.

        Raises:
            MissingExtra: the tokenizers package is not installed.
        """
        if self._tokenizer is None:
            from vfnb.clients.engines.tokenizer import load_tokenizer

            self._tokenizer = load_tokenizer(self.path)
        return self._tokenizer

    def load(self, weights: str | Path | Mapping[str, Any]) -> None:
        """Take other weights from now on, between two steps: a folder, or a state dict of tensors or arrays.

        Sequences in flight go on with them.

        Raises:
            ConfigError: they do not fit the model; the old ones stay.
        """
        from vfnb.clients.engines.weights import as_arrays, read_folder

        arrays = as_arrays(weights) if isinstance(weights, Mapping) else read_folder(Path(weights))[1]
        with self._lock:
            self.network.load(arrays)
            self._digest = None

    def module(self) -> Any:
        """The network in PyTorch with the weights in use, to train; `load(module.state_dict())` takes it back.

        Raises:
            MissingExtra: torch is not installed.
        """
        try:
            import torch

            from vfnb.clients.engines.training.network import Qwen3Module
        except ImportError as error:
            raise MissingExtra("training needs PyTorch: pip install torch") from error
        module = Qwen3Module(json.loads((self.path / "config.json").read_text()))
        module.load_state_dict({name: torch.tensor(array) for name, array in self.network.weights.items()})
        return module

    async def generate(self, prompt_ids: Sequence[int] | Ids, sampling: TokenSampling) -> Generation:
        network = self.network
        prompt = _checked(prompt_ids, network.vocab)
        room = network.limit - len(prompt)
        if room < 1:
            raise ContextLengthError(
                f"This model's maximum context length is {network.limit} tokens, the prompt has {len(prompt)}.",
                status=400,
            )
        limit = room if sampling.max_tokens is None else min(sampling.max_tokens, room)
        return await self._submit(_Request(prompt, sampling, limit, self._random(prompt, sampling)))

    def _random(self, prompt: Ids, sampling: TokenSampling) -> np.random.Generator:
        if sampling.seed is not None:
            return np.random.default_rng(abs(sampling.seed))
        key = hashlib.blake2b(prompt.tobytes(), digest_size=16).digest()
        self._asked[key] += 1
        return np.random.default_rng([abs(self.seed), self._asked[key], int.from_bytes(key, "little")])

    async def score(self, token_ids: Sequence[int] | Ids) -> NDArray[np.float32]:
        network = self.network
        ids = _checked(token_ids, network.vocab)
        if len(ids) > network.limit:
            raise ContextLengthError(
                f"This model's maximum context length is {network.limit} tokens, these are {len(ids)}.",
                status=400,
            )
        return await asyncio.to_thread(_score, network, ids)

    # the thread

    async def _submit(self, request: _Request) -> Generation:
        request.loop = asyncio.get_running_loop()
        request.done = request.loop.create_future()
        with self._lock:
            self._closing = False
            self._waiting.append(request)
            if self._thread is None:
                self._thread = threading.Thread(target=self._serve, name="vfnb-embedded", daemon=True)
                self._thread.start()
            self._lock.notify_all()
        try:
            return await request.done
        except asyncio.CancelledError:
            request.cancelled = True
            raise

    def _serve(self) -> None:
        running: list[_Request] = []
        cache: Cache | None = None
        while True:
            with self._lock:
                while not self._waiting and not running:
                    if self._closing:
                        self._thread = None
                        self._lock.notify_all()
                        return
                    self._lock.wait()
                free = self.max_batch - len(running)
                admitted = [self._waiting.popleft() for _ in range(min(len(self._waiting), free))]
            try:
                cache = cache or self.network.cache(self.max_batch)
                with one_core() if self.network.small else nullcontext():
                    self._round(running, admitted, cache)
            except Exception as error:  # whoever waits must hear of it
                for request in (*running, *admitted):
                    request.fail(error)
                running.clear()

    def _round(self, running: list[_Request], admitted: list[_Request], cache: Cache) -> None:
        """Prefill what is new, then one step of all."""
        for request in admitted:
            if not request.cancelled:
                with self._lock:
                    logits = self.network.prefill(request.prompt, cache, len(running))
                running.append(request)
                self._take(request, logits)
        self._leave(running, cache)
        if not running:
            return
        ids = np.array([request.ids[-1] for request in running], np.int32)
        positions = np.array([request.length - 1 for request in running], np.int64)
        with self._lock:
            logits = self.network.step(ids, positions, cache)
        for request, row in zip(running, logits, strict=True):
            self._take(request, row)
        self._leave(running, cache)

    def _take(self, request: _Request, logits: NDArray[np.float32]) -> None:
        """One token more for a request. What is wrong with it is its own trouble, and not the batch's."""
        sampling = request.sampling
        try:
            token, logprob = sample(logits, sampling, request.random)
            request.ids.append(token)
            request.logprobs.append(logprob)
            said = bool(sampling.stop) and self._said(request)
        except Exception as error:
            request.fail(error)
            request.cancelled = True
            return
        if said or token in sampling.stop_token_ids:
            request.finish = "stop"
        elif len(request.ids) >= request.limit:
            request.finish = "length"

    def _said(self, request: _Request) -> bool:
        longest = max(map(len, request.sampling.stop))
        tail: str = self.tokenizer().decode(request.ids[-longest - 8 :])
        return any(text in tail for text in request.sampling.stop)

    def _leave(self, running: list[_Request], cache: Cache) -> None:
        """Let go of those that are done; the last one moves into the gap."""
        for slot in reversed(range(len(running))):
            request = running[slot]
            if request.finish or request.cancelled:
                request.deliver()
                last = running.pop()
                if slot < len(running):
                    running[slot] = last
                    cache.move(len(running), slot)

    async def close(self) -> None:
        """End the thread, unless somebody else uses the engine."""
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        with self._lock:
            if self._waiting or self._thread is None:
                return
            self._closing = True
            self._lock.notify_all()
            self._lock.wait_for(lambda: self._thread is None or not self._closing, timeout=5.0)

    def __repr__(self) -> str:
        return f"Embedded({self.model!r})"


@dataclass(slots=True, eq=False)
class _Request:
    prompt: Ids
    sampling: TokenSampling
    limit: int
    random: np.random.Generator
    ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    finish: str = ""
    cancelled: bool = False
    loop: asyncio.AbstractEventLoop | None = None
    done: asyncio.Future[Generation] | None = None

    @property
    def length(self) -> int:
        return len(self.prompt) + len(self.ids)

    def deliver(self) -> None:
        answer = Generation(np.array(self.ids, np.int32), np.array(self.logprobs, np.float32), self.finish)
        self._settle(lambda done: done.set_result(answer))

    def fail(self, error: Exception) -> None:
        told = UpstreamServerError(f"the embedded engine failed: {type(error).__name__}: {error}")
        self._settle(lambda done: done.set_exception(told))

    def _settle(self, then: Any) -> None:
        done, loop = self.done, self.loop
        if done is None or loop is None or loop.is_closed():
            return
        loop.call_soon_threadsafe(lambda: None if done.done() else then(done))


def sample(
    logits: NDArray[np.float32], sampling: TokenSampling, random: np.random.Generator
) -> tuple[int, float]:
    """One token and its log-probability under the distribution that it was drawn from.

    Args:
        logits: float32[vocab].
    """
    if sampling.temperature == 0:
        token = int(logits.argmax())
        return token, float(logits[token] - _logsumexp(logits))
    scaled = logits.astype(np.float64) / sampling.temperature
    logprobs = scaled - _logsumexp(scaled)
    kept = _kept(logprobs, sampling)
    if kept is not None:
        logprobs = np.where(kept, logprobs, -np.inf)
        logprobs -= _logsumexp(logprobs)
    sums = np.cumsum(np.exp(logprobs))
    token = min(int(np.searchsorted(sums, random.random() * sums[-1], side="right")), len(sums) - 1)
    return token, float(logprobs[token])


def _kept(logprobs: NDArray[np.float64], sampling: TokenSampling) -> NDArray[np.bool_] | None:
    """Which tokens top_k, top_p and min_p leave; None for all."""
    if sampling.top_k <= 0 and sampling.top_p >= 1 and sampling.min_p <= 0:
        return None
    order = np.argsort(-logprobs, kind="stable")
    kept = np.ones(len(order), np.bool_)
    if sampling.top_k > 0:
        kept[order[sampling.top_k :]] = False
    if sampling.top_p < 1:
        before = np.cumsum(np.exp(logprobs[order])) - np.exp(logprobs[order])
        kept[order[before >= sampling.top_p]] = False
    if sampling.min_p > 0:
        kept &= logprobs >= logprobs.max() + np.log(sampling.min_p)
    return kept


def _logsumexp(values: NDArray[Any]) -> Any:
    top = values.max()
    return top + np.log(np.exp(values - top).sum())


def _score(network: Qwen3, ids: Ids) -> NDArray[np.float32]:
    scores = np.zeros(len(ids), np.float32)
    if len(ids) > 1:
        with one_core() if network.small else nullcontext():
            logits = network.prefill(ids[:-1], every=True)
        top = logits.max(axis=-1, keepdims=True)
        norm = top[:, 0] + np.log(np.exp(logits - top).sum(axis=-1))
        scores[1:] = logits[np.arange(len(ids) - 1), ids[1:]] - norm
    return scores


def _checked(token_ids: Sequence[int] | Ids, vocab: int) -> Ids:
    ids = np.asarray(token_ids, np.int32).reshape(-1)
    if not len(ids):
        raise ConfigError("the prompt has no tokens")
    if ids.min() < 0 or ids.max() >= vocab:
        raise ConfigError(f"a token id is outside the vocabulary of {vocab}; use this model's own tokenizer")
    return ids
