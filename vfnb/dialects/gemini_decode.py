"""Gemini `generateContent` JSON to canonical types. Keys may be in camel or in snake case, as Google takes both."""

from __future__ import annotations

import re
from typing import Any

from vfnb.dialects.faults import RequestError
from vfnb.dialects.lenient import dumps, mended
from vfnb.types import (
    AssistantMessage,
    AudioContentPart,
    AudioSource,
    FileContentPart,
    FileSource,
    FinishReason,
    ImageUrlContentPart,
    ImageUrlSource,
    Message,
    Messages,
    OpaqueContentPart,
    ReasoningContentPart,
    Response,
    SystemMessage,
    TextContentPart,
    Tool,
    ToolCall,
    ToolMessage,
    Usage,
    UserMessage,
)

__all__ = ["content", "get", "merged", "response", "system", "tools", "usage"]

_CAPITAL = re.compile("[A-Z]")
_TAKEN = frozenset(
    {
        "type",
        "role",
        "namespace",
        "arguments",
        "raw",
        "content",
        "tool_call_id",
        "is_error",
        "upstream",
        "name",
    }
)
"""Keys that no message of Google's has, and that mean something else in ours."""


def get(data: Any, name: str) -> Any:
    """The value of a key that is given in camel case; None if `data` is no object or has no such key."""
    if not isinstance(data, dict):
        return None
    found = data.get(name)
    return data.get(_snake(name)) if found is None else found


def _snake(name: str) -> str:
    return _CAPITAL.sub(lambda match: "_" + match[0].lower(), name)


def _listed(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [] if value is None else [value]


def _text(value: Any) -> str:
    return value if isinstance(value, str) else ""


def system(value: Any) -> Messages:
    """The message of `systemInstruction`: a content, or a text."""
    parts = _listed(value) if isinstance(value, str) else _listed(get(value, "parts"))
    if not parts:
        return []
    found = [_part({"text": part} if isinstance(part, str) else part) for part in parts]
    return [SystemMessage(content=_plain(found))]


def content(item: Any) -> Messages:
    """One entry of `contents`: tool results stand before what else a user's turn has.

    Raises:
        RequestError: if it is not an object.
    """
    if isinstance(item, str):
        return [UserMessage(content=item)]
    if not isinstance(item, dict):
        raise RequestError("Each entry of contents must be an object with a role and parts.")
    parts = _listed(item.get("parts"))
    if item.get("role") == "model":
        return [_assistant(parts)]
    results: list[Message] = []
    rest: list[Any] = []
    for part in parts:
        result = get(part, "functionResponse")
        if isinstance(result, dict):
            results.append(_result(result))
        else:
            rest.append(_part(part))
    if rest or not results:
        results.append(UserMessage(content=_plain(rest)))
    return results


def _plain(parts: list[Any]) -> Any:
    """One plain text as a string."""
    if not parts:
        return ""
    first = parts[0]
    alone = len(parts) == 1 and isinstance(first, TextContentPart) and not first.model_extra
    return first.text if alone else parts


def _standard(data: str) -> str:
    """Base64 in the standard alphabet: Google's clients send bytes in that of URLs."""
    return data.replace("-", "+").replace("_", "/")


def _part(part: Any) -> Any:
    """What a content part says; what no canonical type describes is kept as it is."""
    if not isinstance(part, dict):
        return OpaqueContentPart(raw={"value": part})
    text = part.get("text")
    extra = {key: value for key, value in part.items() if key not in ("text", "thought", *_TAKEN)}
    signature = extra.pop("thoughtSignature", None) or extra.pop("thought_signature", None)
    signature = _standard(signature) if isinstance(signature, str) else signature
    if isinstance(text, str) and part.get("thought") is True and not extra:
        return ReasoningContentPart(text=text, signature=signature if isinstance(signature, str) else None)
    if isinstance(text, str):
        return TextContentPart(text=text, **({"thought_signature": signature} if signature else {}), **extra)
    return _media(part) or OpaqueContentPart(raw=part)


def _media(part: dict[str, Any]) -> Any:
    inline, linked = get(part, "inlineData"), get(part, "fileData")
    kind = _text(get(inline or linked, "mimeType"))
    if len(part) != 1 or not (isinstance(inline, dict) or isinstance(linked, dict)):
        return None
    family, _, form = kind.partition("/")
    if isinstance(inline, dict):
        data = _standard(_text(inline.get("data")))
        url = f"data:{kind};base64,{data}"
        if family == "image":
            return ImageUrlContentPart(image_url=ImageUrlSource(url=url))
        if family == "audio":
            return AudioContentPart(input_audio=AudioSource(data=data, format=form))
        name = _text(get(inline, "displayName"))
        return FileContentPart(file=FileSource(file_data=url, filename=name or None))
    url = _text(get(linked, "fileUri"))
    if family == "image":
        return ImageUrlContentPart(image_url=ImageUrlSource(url=url, mime_type=kind))
    more = {"mime_type": kind} if kind else {}
    return FileContentPart(file=FileSource(file_url=url, **more))


def _assistant(parts: list[Any]) -> AssistantMessage:
    said: list[Any] = []
    calls: list[ToolCall] = []
    for part in parts:
        made = get(part, "functionCall")
        if isinstance(made, dict):
            calls.append(_call(made, part))
        else:
            said.append(_part(part))
    return AssistantMessage(content=merged(said), tool_calls=calls)


def merged(parts: list[Any]) -> Any:
    """Content parts with unsigned neighbours of one kind joined; a single plain text as a string."""
    found: list[Any] = []
    for part in parts:
        last = found[-1] if found else None
        if isinstance(part, ReasoningContentPart):
            if isinstance(last, ReasoningContentPart) and last.signature is None:
                found[-1] = ReasoningContentPart(text=mended(last.text + part.text), signature=part.signature)
                continue
        elif isinstance(part, TextContentPart) and not part.model_extra:
            if not part.text:
                continue
            if isinstance(last, TextContentPart) and not last.model_extra:
                found[-1] = TextContentPart(text=mended(last.text + part.text))
                continue
        found.append(part)
    return _plain(found) if found else None


def _call(made: dict[str, Any], part: dict[str, Any]) -> ToolCall:
    args = made.get("args")
    extra = {key: value for key, value in made.items() if key not in ("id", "args", *_TAKEN)}
    signature = get(part, "thoughtSignature")
    if signature:
        extra["thought_signature"] = _standard(signature) if isinstance(signature, str) else signature
    return ToolCall(
        id=_text(made.get("id")),
        name=_text(made.get("name")),
        arguments=dumps({} if args is None else args).decode(),
        **extra,
    )


def _result(result: dict[str, Any]) -> ToolMessage:
    """A tool's result. An object with nothing but `output` or `error` is its text, others are JSON."""
    given = result.get("response")
    failed = isinstance(given, dict) and given.keys() == {"error"}
    if isinstance(given, dict) and given.keys() in ({"output"}, {"error"}):
        value = next(iter(given.values()))
    else:
        value = {} if given is None else given
    text = value if isinstance(value, str) else dumps(value).decode()
    shown = [_part(part) for part in _listed(result.get("parts"))]
    extra = {key: entry for key, entry in result.items() if key not in ("id", "response", "parts", *_TAKEN)}
    if isinstance(result.get("name"), str):
        extra["name"] = result["name"]
    body: Any = [TextContentPart(text=text), *shown] if shown else text
    return ToolMessage(tool_call_id=_text(result.get("id")), content=body, is_error=failed, **extra)


def tools(value: Any) -> list[Tool]:
    """The entries of `tools`: functions one by one, tools of the provider as they are."""
    found = []
    for entry in _listed(value):
        declared = get(entry, "functionDeclarations")
        found += [_function(function) for function in _listed(declared) if isinstance(function, dict)]
        if isinstance(entry, dict):
            hosted = {
                k: v for k, v in entry.items() if k not in ("functionDeclarations", "function_declarations")
            }
            found += [
                Tool(name=_snake(name), type=_snake(name), raw={name: settings})
                for name, settings in hosted.items()
            ]
    return found


def _function(function: dict[str, Any]) -> Tool:
    schema = get(function, "parametersJsonSchema")
    known = function.keys() <= {"name", "description", "parametersJsonSchema", "parameters_json_schema"}
    if schema is None:
        schema = _json_schema(function.get("parameters"))
    return Tool(
        name=_text(function.get("name")),
        description=_text(function.get("description")),
        parameters=schema if isinstance(schema, dict) else {},
        raw=None if known else function,
    )


def _json_schema(value: Any) -> Any:
    """A schema of Google's OpenAPI kind as JSON schema: types in lower case, `nullable` as a type."""
    if isinstance(value, list):
        return [_json_schema(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    found = {key: _json_schema(entry) for key, entry in value.items() if key not in ("type", "nullable")}
    kind = value.get("type")
    if isinstance(kind, str):
        kind = kind.lower()
        found["type"] = [kind, "null"] if value.get("nullable") is True else kind
    elif kind is not None:
        found["type"] = _json_schema(kind)
    return found


_FINISH: dict[str, FinishReason] = {
    "STOP": "stop",
    "MAX_TOKENS": "length",
    "MALFORMED_FUNCTION_CALL": "error",
    "UNEXPECTED_TOOL_CALL": "error",
    "TOO_MANY_TOOL_CALLS": "error",
    "MALFORMED_RESPONSE": "error",
    "OTHER": "error",
}


def finish(value: Any, calls: bool) -> FinishReason:
    """The canonical reason: what Google withholds is `content_filter`, what went wrong is `error`."""
    if not isinstance(value, str) or value == "FINISH_REASON_UNSPECIFIED":
        value = "STOP"
    reason = _FINISH.get(value, "content_filter")
    return "tool_calls" if reason == "stop" and calls else reason


def usage(value: Any) -> Usage | None:
    """Token counts of `usageMetadata`; thoughts are part of the completion."""
    if not isinstance(value, dict):
        return None

    def count(name: str) -> int:
        found = get(value, name)
        return found if type(found) is int and 0 <= found < 1e15 else 0

    thoughts = count("thoughtsTokenCount")
    return Usage(
        prompt_tokens=count("promptTokenCount") + count("toolUsePromptTokenCount"),
        completion_tokens=count("candidatesTokenCount") + thoughts,
        cached_tokens=count("cachedContentTokenCount"),
        reasoning_tokens=thoughts,
    )


def response(body: dict[str, Any]) -> Response:
    """A reply, whole or put together from a stream.

    Raises:
        ValueError: if it has neither a candidate nor a reason for having none.
    """
    candidates = _listed(body.get("candidates"))
    first = candidates[0] if candidates else None
    blocked = get(get(body, "promptFeedback"), "blockReason")
    if not isinstance(first, dict) and not blocked:
        raise ValueError("not a Gemini reply: it has no candidates and no promptFeedback.blockReason")
    message = _assistant(_listed(get(get(first, "content"), "parts")))
    reason = finish(get(first, "finishReason"), bool(message.tool_calls)) if first else "content_filter"
    return Response(
        message=message,
        finish_reason=reason,
        usage=usage(get(body, "usageMetadata")),
        id=_text(get(body, "responseId")),
        model=_text(get(body, "modelVersion")),
    )
