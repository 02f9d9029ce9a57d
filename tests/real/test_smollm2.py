"""A real instruct model on a real engine: SmolLM2-135M-Instruct on vLLM's CPU build."""

from __future__ import annotations

import json
import sys
import urllib.request
from collections.abc import Iterator
from typing import Any

import pytest
from support.engines import need
from support.paths import ROOT

sys.path.insert(0, str(ROOT / "scripts"))

import smollm2

pytestmark = [pytest.mark.real, pytest.mark.timeout(900)]


@pytest.fixture(scope="module")
def base_url() -> Iterator[str]:
    need(smollm2.is_ready(), "the vLLM environment with SmolLM2", "make smollm2")
    with smollm2.serve() as url:
        yield url


def ask(base_url: str, question: str) -> dict[str, Any]:
    body = {
        "model": smollm2.NAME,
        "messages": [{"role": "user", "content": question}],
        "temperature": 0,
        "max_tokens": 40,
    }
    request = urllib.request.Request(
        f"{base_url}/chat/completions", json.dumps(body).encode(), {"Content-Type": "application/json"}
    )
    with urllib.request.urlopen(request, timeout=120) as reply:
        answer: dict[str, Any] = json.load(reply)
    return answer


@pytest.mark.parametrize(
    ("question", "answer"), [("What is 2 + 2?", "4"), ("What is the capital of France?", "Paris")]
)
def test_it_answers_and_counts_tokens(base_url: str, question: str, answer: str) -> None:
    reply = ask(base_url, question)
    choice, usage = reply["choices"][0], reply["usage"]
    assert answer in choice["message"]["content"]
    assert choice["finish_reason"] == "stop"
    assert usage["prompt_tokens"] > len(question.split())
    assert 1 < usage["completion_tokens"] <= 40
    assert usage["total_tokens"] == usage["prompt_tokens"] + usage["completion_tokens"]
