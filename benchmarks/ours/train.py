"""Calls through the token client: request bytes to recorded tokens, CPU times in ms.

    python -m benchmarks.ours.train URL FOLDER

`http_*` with a server that answers at once at URL, `direct_*` with such an engine in this process. FOLDER has the
tokenizer.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

import vfnb as vf
from benchmarks.ours.common import new_trace
from benchmarks.program import COMPLETION, SIZES, Program, figures
from vfnb import loops
from vfnb.clients.engines import Generation, TokenEngine, TokenSampling
from vfnb.clients.engines.tokenizer import load_tokenizer
from vfnb.dialects import get
from vfnb.interception import Session
from vfnb.interception.sink import Collected
from vfnb.utils.collector import calm


class Ready(TokenEngine):
    """Answers at once with the same tokens."""

    model, renderer, max_model_len = "mock", "qwen3", 200_000

    def __init__(self, folder: Path) -> None:
        self._tokenizer = load_tokenizer(folder)
        self._ids = np.array(self._tokenizer.encode_template(COMPLETION), np.int32)
        self._logprobs = np.full(len(self._ids), -0.25, np.float32)

    def identity(self) -> dict[str, Any]:
        return {"kind": "ready"}

    def tokenizer(self) -> Any:
        return self._tokenizer

    async def generate(self, prompt_ids: Any, sampling: TokenSampling) -> Generation:
        return Generation(self._ids, self._logprobs, "stop")

    async def score(self, token_ids: Any) -> Any:
        raise NotImplementedError


async def measure(engine: TokenEngine) -> list[tuple[int, float]]:
    """Prompt tokens and CPU ms of each call of one rollout."""
    session = Session(new_trace(), vf.TrainClient(engine))
    program, calls, tokens = Program(), [], 0
    while tokens < max(SIZES.values()) * 1.02:
        body, sink = program.body(), Collected()
        start = time.process_time()
        await session.handle(get("chat"), body, {}, sink)
        spent = time.process_time() - start
        if sink.status != 200:
            raise RuntimeError(f"status {sink.status}: {sink.body[:300]!r}")
        tokens = program.hear(json.loads(sink.body))
        calls.append((tokens, 1000 * spent))
    (branch,) = session.trace.branches
    assert len(branch.token_ids) > tokens
    return calls


async def main(url: str, folder: Path) -> dict[str, float]:
    direct = figures(await measure(Ready(folder)), "direct_")
    server = vf.VLLM("mock", url=url, tokenizer=folder, renderer="qwen3")
    return direct | figures(await measure(server), "http_")


if __name__ == "__main__":
    with calm():  # as in a run
        print(json.dumps(loops.engine().run(main(sys.argv[1], Path(sys.argv[2])))))
