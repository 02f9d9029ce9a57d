"""Broken Chat requests."""

from __future__ import annotations

import pytest
from support.chat_bodies import BODIES
from support.fuzz import Target, fuzz, openai_refusal

TARGET = Target("/v1/chat/completions", BODIES, openai_refusal)


@pytest.mark.timeout(120)
def test_a_thousand_requests_are_answered_or_refused() -> None:
    statuses = fuzz(TARGET, 1000)
    assert statuses[200] > 100 < statuses[400]


@pytest.mark.soak
@pytest.mark.timeout(900)
def test_ten_thousand_requests_are_answered_or_refused() -> None:
    assert sum(fuzz(TARGET, 10_000, first=1000).values()) == 10_000
