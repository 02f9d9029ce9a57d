"""A chat model as a decision model: the probabilities of its first token, read from `top_logprobs`."""

from __future__ import annotations

import json
import math
from string import ascii_uppercase
from typing import Any

__all__ = ["SETTINGS", "letters", "menu", "shares"]

SETTINGS: dict[str, Any] = {"max_tokens": 1, "temperature": 1.0, "logprobs": True, "top_logprobs": 20}
"""What the request asks for; 20 is the most that OpenAI and vLLM give."""
_COVERED = 0.5  # the levels must have at least this much of the probability


def letters(count: int) -> str:
    """The names of the levels for the model: single letters are single tokens."""
    return ascii_uppercase[:count]


def menu(levels: list[str]) -> str:
    """The levels as the model sees them."""
    return "\n".join(f"{letter}: {level}" for letter, level in zip(ascii_uppercase, levels, strict=False))


def shares(body: bytes, count: int) -> list[float]:
    """The probability of each level, normalised over the levels.

    Args:
        body: a Chat Completions answer with `choices[0].logprobs.content[0].top_logprobs`.

    Raises:
        ValueError: there are no logprobs, or most of the probability lies on something else.
    """
    try:
        first = json.loads(body)["choices"][0]["logprobs"]["content"][0]
        listed = [(str(entry["token"]), float(entry["logprob"])) for entry in first["top_logprobs"]]
    except (ValueError, KeyError, IndexError, TypeError) as error:
        raise ValueError(
            "the answer has no top_logprobs; use an endpoint that gives them, or via='decision'"
        ) from error
    found = dict.fromkeys(letters(count), 0.0)
    for token, logprob in listed:
        letter = token.strip(" \n\t*\"'().:").upper()
        if letter in found:
            found[letter] += math.exp(logprob)
    covered = math.fsum(found.values())
    if not covered >= _COVERED:
        raise ValueError(f"only {covered:.0%} of the probability lies on the letters of the levels")
    return [share / covered for share in found.values()]
