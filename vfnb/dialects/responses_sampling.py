"""Sampling settings of Responses requests under canonical names, and back."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from vfnb.dialects.base import Raws, load

__all__ = ["asked", "body", "wire"]

_log = logging.getLogger("vfnb.dialects")
_NOT_SAMPLING = frozenset(
    (
        *("model", "input", "instructions", "previous_response_id", "tools", "stream", "stream_options"),
        *("metadata", "client_metadata"),
    )
)
_ABSENT = ("top_k", "min_p", "seed", "stop", "presence_penalty", "frequency_penalty", "repetition_penalty")
_told: set[str] = set()


def asked(fields: Raws) -> dict[str, Any]:
    """What the program asked for; `reasoning.effort` and `text.format` under names of their own."""
    values = {name: load(raw) for name, raw in fields.items() if name not in _NOT_SAMPLING}
    longest = values.pop("max_output_tokens", None)
    if longest is not None:
        values["max_tokens"] = longest
    reasoning, text = values.get("reasoning"), values.get("text")
    if isinstance(reasoning, dict) and reasoning.get("effort") is not None:
        values["reasoning_effort"] = reasoning["effort"]
        _put(values, "reasoning", {key: value for key, value in reasoning.items() if key != "effort"})
    if isinstance(text, dict) and text.get("format") is not None:
        values["response_format"] = _chat_format(text["format"])
        _put(values, "text", {key: value for key, value in text.items() if key != "format"})
    choice = values.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") in ("function", "custom") and "name" in choice:
        values["tool_choice"] = {"name": choice["name"]}
    return values


def _put(values: dict[str, Any], name: str, rest: dict[str, Any]) -> None:
    if rest:
        values[name] = rest
    else:
        del values[name]


def wire(fields: Raws, sampling: Mapping[str, Any]) -> dict[str, Any]:
    """The run's settings under wire names. Those that Responses has no place for are left out, with a warning."""
    values = {name: value for name, value in sampling.items() if value is not None}
    for name in _ABSENT:
        if values.pop(name, None) is not None and name not in _told:
            _told.add(name)
            _log.warning(
                "sampling setting %r is left out: the Responses API has no such parameter. "
                "Put it into extra_body if the server takes it",
                name,
            )
    return _named(values, {name: load(fields[name]) for name in ("reasoning", "text") if name in fields})


def body(sampling: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a request that is written anew."""
    values = {name: value for name, value in sampling.items() if value is not None and name not in _ABSENT}
    more = values.pop("extra_body", {})
    return _named(values, {}) | dict(more)


def _named(values: dict[str, Any], said: dict[str, Any]) -> dict[str, Any]:
    """Canonical names to wire names; `said` is what the request has under `reasoning` and `text`."""
    values = dict(values)
    if "max_tokens" in values:
        values["max_output_tokens"] = values.pop("max_tokens")
    if "reasoning_effort" in values:
        effort = {"effort": values.pop("reasoning_effort")}
        values["reasoning"] = _object(said.get("reasoning")) | _object(values.get("reasoning")) | effort
    if "response_format" in values:
        form = {"format": _flat_format(values.pop("response_format"))}
        values["text"] = _object(said.get("text")) | _object(values.get("text")) | form
    choice = values.get("tool_choice")
    if isinstance(choice, dict) and choice.keys() == {"name"}:
        values["tool_choice"] = {"type": "function", "name": choice["name"]}
    return values


def _object(value: Any) -> dict[str, Any]:
    return value if isinstance(value, dict) else {}


def _chat_format(form: Any) -> Any:
    """`{type, name, schema, ...}` as Chat nests it."""
    if isinstance(form, dict) and form.get("type") == "json_schema":
        return {"type": "json_schema", "json_schema": {key: form[key] for key in form if key != "type"}}
    return form


def _flat_format(form: Any) -> Any:
    nested = form.get("json_schema") if isinstance(form, dict) else None
    return {"type": "json_schema", **nested} if isinstance(nested, dict) else form
