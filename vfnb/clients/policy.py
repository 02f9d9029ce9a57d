"""Which settings a token client samples with: the run's win, the program's fill in, none is dropped in silence."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping
from typing import Any

from vfnb.clients.engines.base import TokenSampling
from vfnb.errors import UpstreamRejected

__all__ = ["Policy", "policy"]

_NUMBERS = ("max_tokens", "temperature", "top_p", "top_k", "min_p", "seed")
# fmt: off
_HARMLESS = frozenset({
    "audio", "client_metadata", "container", "context_management", "include", "logprobs", "metadata", "modalities",
    "n", "parallel_tool_calls", "prediction", "prompt_cache_key", "prompt_cache_retention", "reasoning",
    "reasoning_effort", "reasoning_summary", "safety_identifier", "service_tier", "store", "text_verbosity",
    "thinking", "top_logprobs", "truncation", "user", "verbosity", "web_search_options",
})
# fmt: on
"""What does not change the tokens that this engine samples."""
_NEUTRAL: dict[str, tuple[Any, ...]] = {
    "frequency_penalty": (0, None),
    "presence_penalty": (0, None),
    "repetition_penalty": (1, None),
    "logit_bias": ({}, None),
    "response_format": ({"type": "text"}, None),
    "tool_choice": ("auto", "none", None),
}
"""Values that change nothing."""


_RULES: dict[str, tuple[str, Callable[[Any], bool]]] = {
    "max_tokens": ("a whole number of at least 1", lambda value: _whole(value) and value >= 1),
    "temperature": (
        "0, or a number from 1e-3 to 100",
        lambda value: _real(value) and (value == 0 or 1e-3 <= value <= 100),
    ),
    "top_p": ("a number above 0 and at most 1", lambda value: _real(value) and 0 < value <= 1),
    "top_k": ("a whole number", lambda value: _whole(value)),
    "min_p": ("a number from 0 to 1", lambda value: _real(value) and 0 <= value <= 1),
    "seed": ("a whole number", lambda value: _whole(value)),
    "stop": (
        "a list of texts, none of them empty",
        lambda value: isinstance(value, list) and all(isinstance(text, str) and text for text in value),
    ),
}


def _whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _real(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _checked(name: str, value: Any) -> None:
    told, right = _RULES[name]
    if not right(value):
        raise UpstreamRejected(f"{name}={value!r} must be {told}", status=400)


class Policy:
    """What one call is sampled with."""

    def __init__(
        self, sampling: TokenSampling, *, calls: bool, sent: dict[str, Any], left: list[str]
    ) -> None:
        self.sampling = sampling
        self.calls = calls
        """Whether tools may be called."""
        self.sent = sent
        """The settings as recorded."""
        self.left = left
        """Settings that have no effect here."""


def policy(
    asked: Mapping[str, Any],
    run: Mapping[str, Any],
    *,
    stop_ids: tuple[int, ...],
    supports: Collection[str],
    status: int,
    seeds: bool = True,
) -> Policy:
    """Merge the run's settings over the program's.

    Args:
        asked: the program's, under canonical names.
        run: the run's; `extra_body` holds keys of the engine's own.
        stop_ids: tokens that end a turn.
        supports: further names that the engine honours.
        status: HTTP status of a refusal, one that the program does not retry.
        seeds: whether the engine may be sent seeds.

    Raises:
        UpstreamRejected: a setting that would change the answer, and that this engine cannot honour.
    """
    own = dict(run.get("extra_body") or {})
    values = dict(asked) | {
        name: value for name, value in run.items() if name != "extra_body" and value is not None
    }
    sent: dict[str, Any] = {"temperature": 1.0, "top_p": 1.0}
    extra: dict[str, Any] = {}
    left: list[str] = []
    for name, value in values.items():
        if value is None:
            continue
        if name in _RULES:
            _checked(name, value)
            if name == "seed" and not seeds:
                left.append(name)
            else:
                sent[name] = value
        elif name in _NEUTRAL and any(value == neutral for neutral in _NEUTRAL[name]):
            continue
        elif name in supports:
            extra[name] = value
        elif name in _HARMLESS:
            left.append(name)
        else:
            raise UpstreamRejected(
                f"the setting {name}={value!r} is not supported by this model: leave it out, or relay to a server "
                "that has it",
                status=status,
            )
    sampling = TokenSampling(
        **{name: sent[name] for name in _NUMBERS if name in sent},
        stop=tuple(sent.get("stop") or ()),
        stop_token_ids=stop_ids,
        extra=extra | own,
    )
    calls = values.get("tool_choice") != "none"
    return Policy(sampling, calls=calls, sent=sent | extra | own, left=left)
