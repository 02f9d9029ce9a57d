"""Canonical types to Gemini `generateContent` JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from vfnb.dialects.lenient import dumps, loads
from vfnb.types import (
    AssistantMessage,
    AudioContentPart,
    Content,
    FileContentPart,
    ImageUrlContentPart,
    Message,
    OpaqueContentPart,
    ReasoningContentPart,
    RefusalContentPart,
    Response,
    SystemMessage,
    TextContentPart,
    Tool,
    ToolCall,
    ToolMessage,
    Usage,
)

__all__ = ["contents", "event", "message", "parts", "pieces", "reply", "said", "tools", "usage"]


def contents(messages: Sequence[Message]) -> tuple[dict[str, Any] | None, list[dict[str, Any]]]:
    """`systemInstruction` (None without one) and `contents` of a prompt.

    Only leading system messages are instructions; one in mid-conversation becomes a user's turn. Neighbours
    of one role share a turn, as Google wants the roles to alternate.
    """
    start = 0
    while start < len(messages) and isinstance(messages[start], SystemMessage):
        start += 1
    told = [part for one in messages[:start] for part in parts(one.content)]
    names = {
        call.id: call.name for one in messages if isinstance(one, AssistantMessage) for call in one.tool_calls
    }
    turns: list[dict[str, Any]] = []
    for one in messages[start:]:
        turn = message(one, names)
        if turns and turns[-1]["role"] == turn["role"]:
            turns[-1]["parts"] += turn["parts"]
        else:
            turns.append(turn)
    return {"parts": told} if told else None, turns


def message(source: Message, names: dict[str, str] | None = None) -> dict[str, Any]:
    """One entry of `contents`. `names` are the tools' names by call id, for results that lack one."""
    if isinstance(source, ToolMessage):
        return {"role": "user", "parts": [_result(source, names or {})]}
    if isinstance(source, AssistantMessage):
        return {"role": "model", "parts": said(source)}
    return {"role": "user", "parts": parts(source.content) or [{"text": ""}]}


def said(source: AssistantMessage) -> list[dict[str, Any]]:
    """The parts of an answer: reasoning, text, calls."""
    found = parts(source.content)
    if source.reasoning_content and not any(part.get("thought") for part in found):
        found.insert(0, {"text": source.reasoning_content, "thought": True})
    return found + [_call(call) for call in source.tool_calls] or [{"text": ""}]


def parts(content: Content | None) -> list[dict[str, Any]]:
    """The parts of a message's content."""
    if isinstance(content, str):
        return [{"text": content}] if content else []
    return [_part(part) for part in content or []]


def _part(part: Any) -> dict[str, Any]:
    if isinstance(part, TextContentPart):
        extra = dict(part.model_extra or {})
        return {"text": part.text, **_signed(extra.pop("thought_signature", None)), **extra}
    if isinstance(part, ReasoningContentPart):
        return {"text": part.text, "thought": True, **_signed(part.signature)}
    if isinstance(part, RefusalContentPart):
        return {"text": part.refusal}
    if isinstance(part, ImageUrlContentPart):
        return _media(part.image_url.url, (part.image_url.model_extra or {}).get("mime_type") or "image/*")
    if isinstance(part, AudioContentPart):
        sound = part.input_audio
        return {"inlineData": {"mimeType": f"audio/{sound.format}", "data": sound.data}}
    if isinstance(part, FileContentPart):
        file = part.file
        kind = (file.model_extra or {}).get("mime_type")
        return _media(file.file_data or file.file_url or file.file_id or "", kind, file.filename)
    assert isinstance(part, OpaqueContentPart)
    return part.raw


def _signed(signature: str | None) -> dict[str, Any]:
    return {"thoughtSignature": signature} if signature else {}


def _media(url: str, kind: str | None, name: str | None = None) -> dict[str, Any]:
    head, comma, data = url.partition(",")
    if url.startswith("data:") and comma:
        inline = {"mimeType": head[5:].partition(";")[0], "data": data}
        return {"inlineData": inline | ({"displayName": name} if name else {})}
    return {"fileData": {"fileUri": url} | ({"mimeType": kind} if kind else {})}


def _call(call: ToolCall) -> dict[str, Any]:
    extra = dict(call.model_extra or {})
    signature = extra.pop("thought_signature", None)
    args = call.parsed
    made: dict[str, Any] = {"id": call.id} if call.id else {}
    made |= {"name": call.name, "args": args if isinstance(args, dict) else {"input": args}}
    return {"functionCall": made | extra, **_signed(signature)}


def _result(source: ToolMessage, names: dict[str, str]) -> dict[str, Any]:
    shown = source.content if isinstance(source.content, list) else []
    more = [_part(part) for part in shown if not isinstance(part, TextContentPart)]
    extra = dict(source.model_extra or {})
    name = extra.pop("name", None) or names.get(source.tool_call_id, "")
    made: dict[str, Any] = {"id": source.tool_call_id} if source.tool_call_id else {}
    made |= {"name": name, "response": _answer(source)}
    if more:
        made["parts"] = more
    return {"functionResponse": made | extra}


def _answer(source: ToolMessage) -> dict[str, Any]:
    text = source.text
    if source.is_error:
        return {"error": text}
    try:
        value = loads(text.encode()) if text[:1] == "{" else None
    except ValueError:
        value = None
    return value if isinstance(value, dict) else {"output": text}


def tools(source: list[Tool]) -> list[dict[str, Any]]:
    """The entries of `tools`."""
    functions = [_function(tool) for tool in source if tool.type == "function"]
    hosted = [tool.raw for tool in source if tool.type != "function" and tool.raw is not None]
    return ([{"functionDeclarations": functions}] if functions else []) + hosted


def _function(tool: Tool) -> dict[str, Any]:
    if tool.raw is not None:
        return tool.raw
    found: dict[str, Any] = {"name": tool.name, "description": tool.description}
    return found | ({"parametersJsonSchema": tool.parameters} if tool.parameters else {})


def usage(source: Usage) -> dict[str, Any]:
    """A `usageMetadata` object."""
    data = {
        "promptTokenCount": source.prompt_tokens,
        "candidatesTokenCount": max(0, source.completion_tokens - source.reasoning_tokens),
        "totalTokenCount": source.total_tokens,
    }
    if source.cached_tokens:
        data["cachedContentTokenCount"] = source.cached_tokens
    if source.reasoning_tokens:
        data["thoughtsTokenCount"] = source.reasoning_tokens
    return data


_FINISH = {"length": "MAX_TOKENS", "content_filter": "SAFETY", "error": "OTHER"}


def reply(
    response: Response, model: str, new: list[dict[str, Any]] | None, *, last: bool = True
) -> dict[str, Any]:
    """A `GenerateContentResponse`: the whole answer, or of a stream the parts `new`."""
    candidate: dict[str, Any] = {}
    shown = said(response.message) if new is None else new
    if shown:
        candidate["content"] = {"role": "model", "parts": shown}
    data: dict[str, Any] = {"candidates": [candidate]}
    if last:
        candidate["finishReason"] = _FINISH.get(response.finish_reason, "STOP")
        if response.usage is not None:
            data["usageMetadata"] = usage(response.usage)
    candidate["index"] = 0
    return (
        data
        | {"modelVersion": model or response.model}
        | ({"responseId": response.id} if response.id else {})
    )


def pieces(part: dict[str, Any], size: int) -> Iterator[dict[str, Any]]:
    """A part cut into pieces of `size` characters; a signature goes with the last."""
    text = part.get("text")
    if not isinstance(text, str) or len(text) <= size:
        yield part
        return
    first = {"text": "", "thought": True} if part.get("thought") else {"text": ""}
    last = (len(text) - 1) // size * size
    for start in range(0, last, size):
        yield first | {"text": text[start : start + size]}
    yield part | {"text": text[last:]}


def event(data: dict[str, Any]) -> bytes:
    """One event of a stream."""
    return b"data: " + dumps(data) + b"\r\n\r\n"
