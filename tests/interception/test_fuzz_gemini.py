"""Broken Gemini requests."""

from __future__ import annotations

from typing import Any

import pytest
from support.fuzz import Target, fuzz
from support.gemini_bodies import BODIES


def refusal(status: int, body: Any) -> bool:
    """Google's form."""
    error = body.get("error") if isinstance(body, dict) else None
    if not isinstance(error, dict) or error.keys() != {"code", "message", "status"}:
        return False
    return error["code"] == status and isinstance(error["message"], str) and error["status"].isupper()


PATHS = (
    "/v1beta/models/gem:generateContent",
    "/v1beta/models/gem:streamGenerateContent?alt=sse",
    "/v1beta/models/gem:streamGenerateContent",
)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("path", PATHS)
def test_hundreds_of_requests_are_answered_or_refused(path: str) -> None:
    statuses = fuzz(Target(path, BODIES, refusal), 340, first=1000 * PATHS.index(path))
    assert statuses[200] > 34 < statuses[400]


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_ten_thousand_requests_are_answered_or_refused() -> None:
    counts = [fuzz(Target(path, BODIES, refusal), 3334, first=4000) for path in PATHS]
    assert sum(sum(statuses.values()) for statuses in counts) == 10_002
