"""Results of the tools that the provider runs (web search, code execution, remote MCP) inside an answer."""

from __future__ import annotations

from typing import Any

from vfnb.types import HostedResult, OpaqueContentPart, Response

__all__ = ["replaced", "results"]

_SEALS = ("encrypted_content", "encrypted_stdout", "encrypted_index", "signature")


def _blocks(response: Response) -> list[dict[str, Any]]:
    content = response.message.content
    if not isinstance(content, list):
        return []
    return [part.raw for part in content if isinstance(part, OpaqueContentPart)]


def _is_result(block: dict[str, Any]) -> bool:
    kind = block.get("type")
    return (
        isinstance(kind, str) and kind.endswith("_tool_result") and isinstance(block.get("tool_use_id"), str)
    )


def results(response: Response) -> list[HostedResult]:
    """The results in their order."""
    blocks = _blocks(response)
    names = {
        block["id"]: str(block.get("name", ""))
        for block in blocks
        if isinstance(block.get("id"), str) and "name" in block
    }
    return [
        HostedResult(
            id=block["tool_use_id"],
            tool=names.get(block["tool_use_id"]) or block["type"].removesuffix("_tool_result"),
            text=_text(block.get("content")),
            signed=_sealed(block.get("content")),
        )
        for block in blocks
        if _is_result(block)
    ]


def _sealed(value: Any) -> bool:
    """Whether some of it is encrypted: the provider would not know the rest again."""
    if isinstance(value, list):
        return any(_sealed(entry) for entry in value)
    if isinstance(value, dict):
        return any(value.get(key) for key in _SEALS) or any(_sealed(entry) for entry in value.values())
    return False


def _text(value: Any) -> str:
    """What a person would read of it."""
    if isinstance(value, str):
        return value
    if isinstance(value, list):
        return "\n".join(text for text in map(_text, value) if text)
    if not isinstance(value, dict):
        return ""
    if isinstance(value.get("error_code"), str):
        return str(value["error_code"])
    if "stdout" in value or "stderr" in value:
        return "".join(str(value.get(key) or "") for key in ("stdout", "stderr"))
    own = [
        value[key] for key in ("title", "url", "text", "tool_name", "data") if isinstance(value.get(key), str)
    ]
    inner = [_text(value[key]) for key in ("content", "source", "tool_references") if key in value]
    return "\n".join(text for text in [*own, *inner] if text)


def replaced(response: Response, wanted: list[HostedResult]) -> Response:
    """The answer with other texts in its results; those whose text is the same stay as they are."""
    old = {result.id: result.text for result in results(response)}
    texts = {result.id: result.text for result in wanted if old.get(result.id) != result.text}
    message = response.message
    parts: list[Any] = []
    for part in message.content if isinstance(message.content, list) else []:
        raw = part.raw if isinstance(part, OpaqueContentPart) else {}
        if _is_result(raw) and raw["tool_use_id"] in texts:
            content = _with(raw.get("content"), texts[raw["tool_use_id"]])
            part = OpaqueContentPart(raw={**raw, "content": content})
        parts.append(part)
    if not texts:
        return response
    return response.model_copy(update={"message": message.model_copy(update={"content": parts})})


def _with(content: Any, text: str) -> Any:
    """A result's content with this text in place of its own, in the form that its tool has."""
    if isinstance(content, dict):
        if "stdout" in content:
            return {**content, "stdout": text, "stderr": "", "content": []}
        inner = content.get("content")
        if isinstance(inner, dict) and inner.get("type") == "document":
            source = {"type": "text", "media_type": "text/plain", "data": text}
            return {**content, "content": {**inner, "source": source, "title": None}, "url": ""}
    return text if isinstance(content, str) else [{"type": "text", "text": text}]
