"""Broken Messages requests."""

from __future__ import annotations

from typing import Any

import httpx
import pytest
from support.fuzz import Target, fuzz, mutant
from support.messages_bodies import BODIES
from support.rollouts import served

from vfnb.clients import Scripted


def refused(status: int, body: Any) -> bool:
    """The form of Anthropic's refusals."""
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict) or body["type"] != "error" or error.keys() != {"type", "message"}:
        return False
    return isinstance(error["message"], str) and error["type"] == "invalid_request_error"


TARGET = Target("/v1/messages?beta=true", BODIES, refused, headers={"anthropic-version": "2023-06-01"})


@pytest.mark.timeout(120)
def test_a_thousand_requests_are_answered_or_refused() -> None:
    statuses = fuzz(TARGET, 1000)
    assert statuses[200] > 100 < statuses[400]


def test_odd_requests_for_a_count_are_answered_or_refused() -> None:
    with served(Scripted(["unused"])) as rollout, httpx.Client(headers=rollout.headers, timeout=20) as http:
        for number in range(300):
            answer = http.post(f"{rollout.base_url}/v1/messages/count_tokens", content=mutant(BODIES, number))
            assert answer.status_code in (200, 400), (number, answer.text[:300])
            data = answer.json()
            assert data["input_tokens"] > 0 if answer.status_code == 200 else refused(400, data), number
        assert rollout.session.fault is None and rollout.trace.dag.calls == []


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_ten_thousand_requests_are_answered_or_refused() -> None:
    assert sum(fuzz(TARGET, 10_000, first=1000).values()) == 10_000
