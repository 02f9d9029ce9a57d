"""What the tools that the provider runs put into an answer: found, and given another text."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from vfnb.dialects.lenient import dumps
from vfnb.types import AssistantMessage, HostedResult, OpaqueContentPart

__all__ = ["replaced", "results"]

Raw = dict[str, Any]


def _rows(raw: Raw, key: str, text: str) -> list[str] | None:
    """The texts of a list of results; one without text is shown as JSON."""
    rows = raw.get(key)
    if not isinstance(rows, list):
        return None
    found = []
    for row in rows:
        value = row.get(text) if isinstance(row, dict) else row
        found.append(value if isinstance(value, str) else dumps(row).decode())
    return found


def _lines(found: list[str] | None) -> str | None:
    return None if found is None else "\n".join(found)


def _search_text(raw: Raw) -> str | None:
    """Results where the server gives them, else the sources."""
    action = raw.get("action")
    sources = _rows(action, "sources", "url") if isinstance(action, dict) else None
    return _lines(_rows(raw, "results", "text") or sources)


def _search_with(raw: Raw, text: str) -> Raw:
    action = raw.get("action")
    kept = (
        {key: value for key, value in action.items() if key != "sources"}
        if isinstance(action, dict)
        else action
    )
    return {**raw, "action": kept, "results": [{"type": "text", "text": text}]}


def _files_with(raw: Raw, text: str) -> Raw:
    return {**raw, "results": [{"text": text}]}


def _code_with(raw: Raw, text: str) -> Raw:
    return {**raw, "outputs": [{"type": "logs", "logs": text}]}


def _output_text(raw: Raw) -> str | None:
    output = raw.get("output")
    return output if isinstance(output, str) or output is None else dumps(output).decode()


def _output_with(raw: Raw, text: str) -> Raw:
    return {**raw, "output": text}


_KINDS: dict[str, tuple[Callable[[Raw], str | None], Callable[[Raw, str], Raw]]] = {
    "web_search_call": (_search_text, _search_with),
    "file_search_call": (lambda raw: _lines(_rows(raw, "results", "text")), _files_with),
    "code_interpreter_call": (lambda raw: _lines(_rows(raw, "outputs", "logs")), _code_with),
    "mcp_call": (_output_text, _output_with),
    "shell_call_output": (_output_text, _output_with),
}
"""How the text of an item is read, and how it is put in."""


def _parts(message: AssistantMessage) -> list[tuple[int, Raw, str]]:
    """Position, item and text of every hosted result."""
    found = []
    for position, part in enumerate(message.content if isinstance(message.content, list) else []):
        if isinstance(part, OpaqueContentPart) and part.raw.get("type") in _KINDS:
            text = _KINDS[part.raw["type"]][0](part.raw)
            if text is not None:
                found.append((position, part.raw, text))
    return found


def _signed(raw: Raw) -> bool:
    return bool(raw.get("encrypted_content") or raw.get("signature"))


def _name(raw: Raw) -> str:
    kind = str(raw["type"])
    return (
        str(raw.get("name") or kind)
        if kind == "mcp_call"
        else kind.removesuffix("_output").removesuffix("_call")
    )


def results(message: AssistantMessage) -> list[HostedResult]:
    """The results in a turn, in order."""
    return [
        HostedResult(id=str(raw.get("id") or ""), tool=_name(raw), text=text, signed=_signed(raw))
        for _, raw, text in _parts(message)
    ]


def replaced(message: AssistantMessage, wanted: list[HostedResult]) -> AssistantMessage:
    """The turn with these texts in its results, which are as many and in the same order."""
    content: list[Any] = list(message.content or []) if isinstance(message.content, list) else []
    for (position, raw, text), result in zip(_parts(message), wanted, strict=True):
        if result.text != text:
            content[position] = OpaqueContentPart(raw=_KINDS[raw["type"]][1](raw, result.text))
    return message.model_copy(update={"content": content}) if content else message
