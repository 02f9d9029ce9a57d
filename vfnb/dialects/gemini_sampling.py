"""Settings of a Gemini request under canonical names, and back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vfnb.dialects.base import Raws, load
from vfnb.dialects.gemini_decode import get

__all__ = ["asked", "body", "config"]

_NAMES = {
    "maxOutputTokens": "max_tokens",
    "temperature": "temperature",
    "topP": "top_p",
    "topK": "top_k",
    "stopSequences": "stop",
    "seed": "seed",
    "presencePenalty": "presence_penalty",
    "frequencyPenalty": "frequency_penalty",
}
_WIRE = {canonical: name for name, canonical in _NAMES.items()}
_MODES = {"AUTO": "auto", "VALIDATED": "auto", "NONE": "none", "ANY": "required"}
_CHOICES = {"auto": "AUTO", "none": "NONE", "required": "ANY"}
_BUDGETS = {"none": 0, "minimal": 512, "low": 1024, "medium": 8192, "high": 24576, "xhigh": 32768}
_OTHERS = frozenset({"responseMimeType", "responseSchema", "responseJsonSchema", "thinkingConfig"})
_NOT_SAMPLING = frozenset(
    {"model", "stream", "contents", "tools", "systemInstruction", "system_instruction", "generation_config"}
    | {"generationConfig", "toolConfig", "tool_config"}
)


def asked(fields: Raws) -> dict[str, Any]:
    """What the program asked for; keys without a canonical name keep their own."""
    values = {name: load(raw) for name, raw in fields.items() if name not in _NOT_SAMPLING}
    given = _field(fields, "generationConfig")
    rest: dict[str, Any] = given if isinstance(given, dict) else {}
    for name, value in rest.items():
        camel = _camel(name)
        if camel not in _OTHERS and value is not None:
            values[_NAMES.get(camel, name)] = value
    form = _format(given)
    if form is not None:
        values["response_format"] = form
    effort = _effort(get(given, "thinkingConfig"))
    if effort is not None:
        values["reasoning_effort"] = effort
    choice = _choice(get(_field(fields, "toolConfig"), "functionCallingConfig"))
    if choice is not None:
        values["tool_choice"] = choice
    return values


def _camel(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)


def _field(fields: Raws, name: str) -> Any:
    return get(
        {key: load(raw) for key, raw in fields.items() if key.lower().replace("_", "") == name.lower()}, name
    )


def _format(given: Any) -> dict[str, Any] | None:
    if get(given, "responseMimeType") != "application/json":
        return None
    schema = get(given, "responseJsonSchema") or get(given, "responseSchema")
    if schema is None:
        return {"type": "json_object"}
    return {"type": "json_schema", "json_schema": {"name": "response", "schema": schema}}


def _effort(thinking: Any) -> str | None:
    level, budget = get(thinking, "thinkingLevel"), get(thinking, "thinkingBudget")
    if isinstance(level, str):
        return level.lower()
    if type(budget) is not int or budget < 0:  # -1 leaves it to the model
        return None
    return next((name for name, size in _BUDGETS.items() if budget <= size), "xhigh")


def _choice(calling: Any) -> Any:
    mode = _MODES.get(str(get(calling, "mode") or "").upper())
    names = get(calling, "allowedFunctionNames")
    if mode == "required" and isinstance(names, list) and len(names) == 1:
        return {"name": names[0]}
    return mode


def config(fields: Raws, sampling: Mapping[str, Any]) -> dict[str, Any]:
    """`generationConfig` of a request with the run's settings in it, whichever case it is written in."""
    given = _field(fields, "generationConfig")
    return (dict(given) if isinstance(given, dict) else {}) | _generation(sampling)


def _generation(sampling: Mapping[str, Any]) -> dict[str, Any]:
    found = {_WIRE[name]: value for name, value in sampling.items() if name in _WIRE and value is not None}
    effort = sampling.get("reasoning_effort")
    if isinstance(effort, str) and effort in _BUDGETS:
        found["thinkingConfig"] = {"includeThoughts": effort != "none", "thinkingBudget": _BUDGETS[effort]}
    form = sampling.get("response_format")
    if isinstance(form, dict) and form.get("type") in ("json_object", "json_schema"):
        found["responseMimeType"] = "application/json"
        schema = get(form.get("json_schema"), "schema")
        if schema is not None:
            found["responseJsonSchema"] = schema
    return found


def body(sampling: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of a request that is written anew."""
    found: dict[str, Any] = {}
    generation = _generation(sampling)
    if generation:
        found["generationConfig"] = generation
    choice = sampling.get("tool_choice")
    if isinstance(choice, dict) and "name" in choice:
        calling = {"mode": "ANY", "allowedFunctionNames": [choice["name"]]}
        found["toolConfig"] = {"functionCallingConfig": calling}
    elif isinstance(choice, str) and choice in _CHOICES:
        found["toolConfig"] = {"functionCallingConfig": {"mode": _CHOICES[choice]}}
    return found | dict(sampling.get("extra_body") or {})
