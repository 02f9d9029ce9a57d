"""What vLLM answers, in its several shapes, as a `Generation`.

Shapes: `/inference/v1/generate` of vLLM 0.31 (`token: "token_id:5"`) and 0.32 (`token_id: 5`), of prime-rl's server
(routed experts as a dict), `/v1/completions` with token ids, and the objects of an engine in this process.
"""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vfnb.clients.engines.base import Generation, Media
from vfnb.errors import UpstreamMalformed

__all__ = [
    "prompt_scores",
    "read_completion",
    "read_generate",
    "read_output",
    "read_prompt_logprobs",
    "top_gap",
]

_NO_EVIDENCE = -9999.0
"""What vLLM writes where it has no log-probability."""
_DTYPES = ("uint8", "uint16", "uint32", "int16", "int32", "int64")


def read_output(output: Any) -> Generation:
    """Of a `RequestOutput` of vLLM."""
    (choice,) = output.outputs
    ids = np.asarray(choice.token_ids, np.int32)
    rows = choice.logprobs
    if rows is None or len(rows) != len(ids):
        raise _malformed(f"{0 if rows is None else len(rows)} log-probabilities for {len(ids)} tokens")
    logprobs = [
        row[token].logprob if token in row else None
        for row, token in zip(rows, choice.token_ids, strict=True)
    ]
    experts = getattr(choice, "routed_experts", None)
    mask = getattr(choice, "sampling_mask", None)
    return Generation(
        ids,
        _floats(logprobs),
        _finish(choice.finish_reason),
        cached_tokens=int(output.num_cached_tokens or 0),
        kept_tokens=None if mask is None else _kept(mask.token_ids, len(ids)),
        routed_experts=None if experts is None else np.asarray(experts),
    )


def read_generate(data: Any) -> Generation:
    """Of a reply of `/inference/v1/generate`.

    Raises:
        UpstreamMalformed: ids, log-probabilities or their pairing are not what the protocol says.
    """
    choice = _choice(data)
    ids = _ids(choice.get("token_ids"))
    logprobs = choice.get("logprobs")
    content = logprobs.get("content") if isinstance(logprobs, Mapping) else None
    if not isinstance(content, list):
        raise _malformed("no logprobs.content")
    if len(content) != len(ids):
        raise _malformed(f"{len(content)} log-probabilities for {len(ids)} tokens")
    values = [
        _paired(entry, token, place) for place, (entry, token) in enumerate(zip(content, ids, strict=True))
    ]
    return _generation(data, choice, ids, values)


def read_completion(data: Any) -> Generation:
    """Of a reply of `/v1/completions` that was asked for token ids.

    Raises:
        UpstreamMalformed: as above.
    """
    choice = _choice(data)
    if choice.get("token_ids") is None:
        raise _malformed("no token_ids; /v1/completions gives them from vLLM 0.10.2 on")
    ids = _ids(choice["token_ids"])
    logprobs = choice.get("logprobs")
    values = logprobs.get("token_logprobs") if isinstance(logprobs, Mapping) else None
    if not isinstance(values, list) or len(values) != len(ids):
        raise _malformed(
            f"{len(values) if isinstance(values, list) else 0} log-probabilities for {len(ids)} tokens"
        )
    return _generation(data, choice, ids, values)


def _generation(data: Any, choice: Mapping[str, Any], ids: list[int], values: list[Any]) -> Generation:
    prompt = data.get("prompt_token_ids") or choice.get("prompt_token_ids")
    usage = data.get("usage") or {}
    details = usage.get("prompt_tokens_details") or {}
    mask = choice.get("sampling_mask")
    experts, start = _experts(choice.get("routed_experts"))
    return Generation(
        np.asarray(ids, np.int32),
        _floats(values),
        _finish(choice.get("finish_reason")),
        prompt_ids=None if prompt is None else np.asarray(_ids(prompt), np.int32),
        cached_tokens=int(details.get("cached_tokens") or 0),
        kept_tokens=None if mask is None else _kept(mask, len(ids)),
        routed_experts=experts,
        experts_start=start,
        media=_media(data.get("mm_placeholders")),
    )


def _choice(data: Any) -> Mapping[str, Any]:
    choices = data.get("choices") if isinstance(data, Mapping) else None
    if not isinstance(choices, list) or len(choices) != 1 or not isinstance(choices[0], Mapping):
        raise _malformed("not exactly one choice")
    found: Mapping[str, Any] = choices[0]
    return found


def _ids(value: Any) -> list[int]:
    if not isinstance(value, list) or not all(type(token) is int and token >= 0 for token in value):
        raise _malformed("token_ids are no list of token ids")
    return value


def _paired(entry: Any, token: int, place: int) -> Any:
    """The log-probability of one entry, which must be about this token."""
    if not isinstance(entry, Mapping):
        raise _malformed(f"logprobs.content[{place}] is no object")
    named = entry["token_id"] if "token_id" in entry else entry.get("token")
    if named not in (token, f"token_id:{token}"):
        raise _malformed(f"logprobs.content[{place}] is about {named!r}, the token is {token}")
    return entry.get("logprob")


def _floats(values: Sequence[Any]) -> NDArray[np.float32]:
    for place, value in enumerate(values):
        if isinstance(value, bool) or not isinstance(value, int | float) or value == _NO_EVIDENCE:
            raise _malformed(f"the log-probability of token {place} of the answer is {value!r}")
    return np.asarray(values, np.float32)


def _finish(reason: Any) -> str:
    if reason not in ("stop", "length"):
        raise _malformed(f"finish_reason {reason!r}; the request was ended from outside")
    found: str = reason
    return found


def _kept(lists: Any, count: int) -> tuple[NDArray[np.int32], NDArray[np.int32]]:
    """A sampling mask (the tokens that top_k, top_p, min_p left, per position) as ids and counts."""
    if not isinstance(lists, Sequence) or len(lists) != count:
        size = len(lists) if isinstance(lists, Sequence) else 0
        raise _malformed(f"a sampling mask of {size} rows for {count} tokens")
    counts = np.array([len(row) for row in lists], np.int32)
    ids = np.array([token for row in lists for token in row], np.int32)
    return ids, counts


def _experts(value: Any) -> tuple[NDArray[Any] | None, int]:
    """Routed experts, [k, layers, top_k], and their first position: base64 of an .npy file, or prime-rl's dict."""
    if value is None:
        return None, 0
    try:
        if isinstance(value, str):
            return np.load(io.BytesIO(base64.b64decode(value, validate=True)), allow_pickle=False), 0
        dtype = str(value["dtype"]).removeprefix("torch.")
        if dtype not in _DTYPES:
            raise ValueError(f"dtype {dtype!r}")
        raw = np.frombuffer(base64.b64decode(value["data"], validate=True), np.dtype(dtype))
        return raw.reshape([int(size) for size in value["shape"]]), int(value.get("start") or 0)
    except (ValueError, KeyError, TypeError, EOFError) as error:
        raise _malformed(f"routed_experts cannot be read: {error}") from error


def _media(placeholders: Any) -> list[Media]:
    """Where images and the like stand in the expanded prompt, in order."""
    if not isinstance(placeholders, Mapping):
        return []
    kinds = {"image": 1, "video": 2, "audio": 3}
    found = [
        Media(int(entry["offset"]), int(entry["offset"]) + int(entry["length"]), kinds.get(kind, 0))
        for kind, entries in placeholders.items()
        for entry in entries
    ]
    return sorted(found)


def read_prompt_logprobs(data: Any, token_ids: Sequence[int]) -> NDArray[np.float32]:
    """Of a reply of either route that was asked for `prompt_logprobs`."""
    if not isinstance(data, Mapping):
        raise _malformed("no JSON object")
    rows = data.get("prompt_logprobs") or _choice(data).get("prompt_logprobs")
    return prompt_scores(rows, token_ids)


def prompt_scores(rows: Any, token_ids: Sequence[int]) -> NDArray[np.float32]:
    """float32[n] of the rows of a prompt: each a mapping from token id to its log-probability, the first None."""
    count = len(token_ids)
    if not isinstance(rows, Sequence) or len(rows) != count:
        raise _malformed(
            f"{len(rows) if isinstance(rows, Sequence) else 0} prompt log-probabilities for {count} tokens"
        )
    scores = np.zeros(count, np.float32)
    for place in range(1, count):
        token, row = int(token_ids[place]), rows[place]
        entry = None if row is None else row.get(token, row.get(str(token)))
        value = entry.get("logprob") if isinstance(entry, Mapping) else getattr(entry, "logprob", None)
        if not isinstance(value, int | float):
            raise _malformed(f"no log-probability of token {place} of the prompt")
        scores[place] = value
    return scores


def top_gap(data: Any) -> float:
    """Of a reply with the two likeliest tokens: how far their log-probabilities are apart."""
    logprobs = _choice(data).get("logprobs") or {}
    if "content" in logprobs:
        values = [entry.get("logprob") for entry in logprobs["content"][0].get("top_logprobs", [])]
    else:
        values = list((logprobs.get("top_logprobs") or [{}])[0].values())
    best = sorted((value for value in values if isinstance(value, int | float)), reverse=True)
    return best[0] - best[1] if len(best) > 1 else 0.0


def _malformed(what: str) -> UpstreamMalformed:
    return UpstreamMalformed(f"vLLM's answer cannot be used: {what}", status=200)
