"""What a vLLM engine is asked: our sampling settings under the names of its `SamplingParams`.

Names: https://docs.vllm.ai/en/stable/api/vllm/sampling_params.html
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from vfnb.clients.engines.base import TokenSampling
from vfnb.errors import UpstreamRejected

__all__ = ["SUPPORTS", "Asked", "asked", "is_plain"]

SUPPORTS = frozenset(
    {
        "frequency_penalty",
        "presence_penalty",
        "repetition_penalty",
        "logit_bias",
        "response_format",
        "min_tokens",
    }
)
_BESIDE = ("cache_salt", "priority")
"""Keys of a request that stand beside its sampling parameters."""
_OURS = (
    "return_token_ids",
    "logprobs",
    "prompt_logprobs",
    "n",
    "detokenize",
    "output_kind",
    "stop_token_ids",
)
"""Keys that this engine sets itself, whatever the run's `extra_body` says."""


@dataclass(slots=True)
class Asked:
    """One request without its prompt."""

    params: dict[str, Any]
    """Keyword arguments of `SamplingParams`; `structured_outputs` as a dict."""
    beside: dict[str, Any] = field(default_factory=dict)


def asked(sampling: TokenSampling, room: int | None) -> Asked:
    """The request for one completion.

    Args:
        room: the most tokens that fit; None if not known.

    Raises:
        UpstreamRejected: a response format that cannot be had.
    """
    params: dict[str, Any] = {"temperature": sampling.temperature, "skip_special_tokens": False}
    limit = room if sampling.max_tokens is None else sampling.max_tokens
    if limit is not None:
        params["max_tokens"] = limit if room is None else min(limit, room)
    if sampling.top_p < 1:
        params["top_p"] = sampling.top_p
    if sampling.top_k > 0:
        params["top_k"] = sampling.top_k
    if sampling.min_p > 0:
        params["min_p"] = sampling.min_p
    if sampling.seed is not None:
        params["seed"] = sampling.seed
    if sampling.stop:
        params["stop"] = list(sampling.stop)
    params["stop_token_ids"] = list(sampling.stop_token_ids)
    extra = dict(sampling.extra)
    form = extra.pop("response_format", None)
    if form is not None:
        params["structured_outputs"] = _grammar(form)
    bias = extra.pop("logit_bias", None)
    if bias is not None:
        params["logit_bias"] = {str(token): value for token, value in bias.items()}
    beside = {name: extra.pop(name) for name in _BESIDE if name in extra}
    for name in _OURS:
        extra.pop(name, None)
    if isinstance(extra.get("top_k"), int) and extra["top_k"] <= 0:  # both mean all
        del extra["top_k"]
    return Asked(params | extra, beside)


def _grammar(form: Mapping[str, Any]) -> dict[str, Any]:
    """A `response_format` of Chat Completions as vLLM's structured outputs."""
    kind = form.get("type")
    if kind == "json_object":
        return {"json_object": True}
    schema = form.get("json_schema")
    if kind == "json_schema" and isinstance(schema, Mapping) and isinstance(schema.get("schema"), Mapping):
        return {"json": dict(schema["schema"])}
    raise UpstreamRejected(f"response_format={form!r} is neither json_object nor a JSON schema", status=400)


def is_plain(sampling: Mapping[str, Any]) -> bool:
    """Whether tokens were drawn from the model's own distribution (or taken greedily from it).

    Args:
        sampling: settings as sent, under canonical names.
    """
    if sampling.get("temperature", 1.0) not in (0, 1):
        return False
    if sampling.get("temperature", 1.0) == 0:
        cut = False  # the likeliest token is in every nucleus; its probability is given of the whole
    else:
        cut = sampling.get("top_p", 1.0) < 1 or sampling.get("top_k", 0) > 0 or sampling.get("min_p", 0) > 0
    return not cut and not (SUPPORTS - {"min_tokens"} | {"structured_outputs"}) & set(sampling)
