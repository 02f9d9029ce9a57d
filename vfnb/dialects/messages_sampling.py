"""Sampling settings of Anthropic Messages under canonical names, and back."""

from __future__ import annotations

import logging
from collections.abc import Mapping
from typing import Any

from vfnb.dialects.base import Raws, load

__all__ = ["asked", "body", "changes"]

_log = logging.getLogger("vfnb.dialects")
_NOT_SAMPLING = frozenset({"model", "messages", "system", "tools", "stream", "metadata", "cache_control"})
_SAME = frozenset({"temperature", "top_p", "top_k", "max_tokens"})
_CHOICES = {"auto": "auto", "none": "none", "any": "required"}
_WIRE_CHOICES = {name: kind for kind, name in _CHOICES.items()}
_MOST_TOKENS = 8192
"""For a request that does not say: the API requires a number, and all of its models allow this one."""
_reported: set[str] = set()


def asked(fields: Raws) -> dict[str, Any]:
    """What the program asked for. What has no canonical name keeps its own."""
    values = {name: load(raw) for name, raw in fields.items() if name not in _NOT_SAMPLING}
    stop = values.pop("stop_sequences", None)
    if stop is not None:
        values["stop"] = stop
    output = values.get("output_config")
    if isinstance(output, dict):
        _read_output(values, output)
    choice = values.get("tool_choice")
    if isinstance(choice, dict):
        _read_choice(values, choice)
    thinking = values.get("thinking")
    if isinstance(thinking, dict) and thinking.get("type") == "disabled":
        values.setdefault("reasoning_effort", "none")
    return values


def _read_output(values: dict[str, Any], output: dict[str, Any]) -> None:
    if isinstance(output.get("effort"), str):
        values["reasoning_effort"] = output["effort"]
    form = output.get("format")
    if isinstance(form, dict) and form.get("type") == "json_schema":
        schema = {"name": "answer", "schema": form.get("schema") or {}, "strict": True}
        values["response_format"] = {"type": "json_schema", "json_schema": schema}


def _read_choice(values: dict[str, Any], choice: dict[str, Any]) -> None:
    kind = choice.get("type")
    if kind == "tool":
        values["tool_choice"] = {"name": choice.get("name")}
    elif isinstance(kind, str) and kind in _CHOICES:
        values["tool_choice"] = _CHOICES[kind]
    if choice.get("disable_parallel_tool_use") is True:
        values["parallel_tool_calls"] = False


def changes(fields: Raws, sampling: Mapping[str, Any]) -> dict[str, Any]:
    """The run's settings as top-level keys of a request that has these fields.

    Settings that the API does not have are left out, and reported once each.
    """
    given = {name: value for name, value in sampling.items() if value is not None and name != "extra_body"}
    if not given:
        return {}
    values = {name: given.pop(name) for name in list(given) if name in _SAME}
    stop = given.pop("stop", None)
    if stop is not None:
        values["stop_sequences"] = [stop] if isinstance(stop, str) else stop
    _write_output(values, given, fields)
    _write_choice(values, given, fields)
    for name in given:
        _report(name)
    return values


def _write_output(values: dict[str, Any], given: dict[str, Any], fields: Raws) -> None:
    effort, form = given.pop("reasoning_effort", None), given.pop("response_format", None)
    if effort == "none":
        values["thinking"] = {"type": "disabled"}
        effort = None
    output: dict[str, Any] = {}
    if effort is not None:
        output["effort"] = "low" if effort == "minimal" else effort
    schema = form.get("json_schema") if isinstance(form, dict) else None
    if isinstance(schema, dict) and isinstance(schema.get("schema"), dict):
        output["format"] = {"type": "json_schema", "schema": schema["schema"]}
    elif isinstance(form, dict) and form.get("type") != "text":
        _report("response_format")
    if output:
        old = load(fields["output_config"]) if "output_config" in fields else None
        values["output_config"] = {**(old if isinstance(old, dict) else {}), **output}


def _write_choice(values: dict[str, Any], given: dict[str, Any], fields: Raws) -> None:
    choice, parallel = given.pop("tool_choice", None), given.pop("parallel_tool_calls", None)
    if choice is None and parallel is None:
        return
    old = load(fields["tool_choice"]) if "tool_choice" in fields else None
    data: dict[str, Any] = dict(old) if isinstance(old, dict) else {"type": "auto"}
    if isinstance(choice, dict):
        data = {"type": "tool", "name": choice.get("name")}
    elif choice is not None:
        data = {"type": _WIRE_CHOICES.get(str(choice), "auto")}
    if parallel is not None and data.get("type") != "none":
        data["disable_parallel_tool_use"] = not parallel
    values["tool_choice"] = data


def _report(name: str) -> None:
    if name not in _reported:
        _reported.add(name)
        _log.warning(
            "sampling setting %r is not sent: Anthropic Messages has no such key. If this server knows it, put it "
            "into extra_body",
            name,
        )


def body(sampling: Mapping[str, Any], *, tools: bool) -> dict[str, Any]:
    """The settings of a request that is written anew.

    Args:
        tools: the request offers tools; without them there is nothing to choose.
    """
    skipped = () if tools else ("tool_choice", "parallel_tool_calls")
    given = {name: value for name, value in sampling.items() if name not in skipped}
    values = changes({}, given)
    values.setdefault("max_tokens", _MOST_TOKENS)
    if "effort" in values.get("output_config", {}):
        values.setdefault("thinking", {"type": "adaptive"})
    return values | dict(sampling.get("extra_body") or {})
