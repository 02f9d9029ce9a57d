"""Inspect's messages in our own form: attachments put back, pooled inputs looked up, each converted once."""

from __future__ import annotations

import json
from typing import Any

from vfnb.exchange.imports.build import Lost, Said, said
from vfnb.exchange.imports.fields import BadField, get, message, need

__all__ = ["Pool"]

_ATTACHMENT = "attachment://"


class Pool:
    """The messages of one sample."""

    def __init__(self, record: dict[str, Any], lost: Lost) -> None:
        self.attachments = get(record, "attachments", dict, {})
        data = get(record, "events_data", dict, {})
        self.pooled = get(data, "messages", list, [], "events_data")
        self.lost = lost
        self._known: dict[str, tuple[Any, Said]] = {}

    def resolved(self, value: Any) -> Any:
        """A value with its attachments in place."""
        if isinstance(value, str):
            if not value.startswith(_ATTACHMENT):
                return value
            return self.attachments.get(value.removeprefix(_ATTACHMENT), value)
        if isinstance(value, dict):
            return {key: self.resolved(entry) for key, entry in value.items()}
        return [self.resolved(entry) for entry in value] if isinstance(value, list) else value

    def history(self, event: dict[str, Any], path: str) -> list[Said]:
        """The input of a model event, given in place or as ranges of the pool.

        Raises:
            BadField: a range or a message is not what it should be.
        """
        found = [
            self.said(one, f"{path}.input[{at}]")
            for at, one in enumerate(get(event, "input", list, [], path))
        ]
        for at, pair in enumerate(get(event, "input_refs", list, [], path)):
            where = f"{path}.input_refs[{at}]"
            if not (isinstance(pair, list) and len(pair) == 2 and all(isinstance(one, int) for one in pair)):
                raise BadField(where, f"is {pair!r:.40}, expected two numbers")
            begin, end = pair
            if not 0 <= begin <= end <= len(self.pooled):
                raise BadField(where, f"is {pair}, but the pool has {len(self.pooled)} messages")
            found += [
                self.said(self.pooled[one], f"events_data.messages[{one}]") for one in range(begin, end)
            ]
        return found

    def said(self, record: Any, path: str) -> Said:
        """One message.

        Raises:
            BadField: it is none.
        """
        if not isinstance(record, dict):
            raise BadField(path, "is no object")
        id = record.get("id")
        known = self._known.get(id) if isinstance(id, str) else None
        if known is not None and known[0] == record:
            return known[1]
        made = said(message(self._message(self.resolved(record), path), path))
        if isinstance(id, str):
            self._known[id] = record, made
        return made

    def _message(self, record: dict[str, Any], path: str) -> dict[str, Any]:
        role = need(record, "role", str, path)
        content = record.get("content")
        parts = content if isinstance(content, list) else []
        if role != "assistant":
            made: dict[str, Any] = {"role": role, "content": self._content(content, path)}
            if role == "tool":
                made["tool_call_id"] = get(record, "tool_call_id", str, "", path)
                error = record.get("error")
                if isinstance(error, dict):
                    made |= {"is_error": True, "content": made["content"] or str(error.get("message") or "")}
            return made
        reasoning = [part for part in parts if isinstance(part, dict) and part.get("type") == "reasoning"]
        signed = [part for part in reasoning if part.get("signature") or part.get("redacted")]
        kept = [part for part in parts if signed or part not in reasoning]
        body = self._content(kept if isinstance(content, list) else content, path)
        calls = get(record, "tool_calls", list, [], path)
        return {
            "role": role,
            "content": body or None,
            "reasoning_content": None
            if signed
            else "\n".join(str(one.get("reasoning", "")) for one in reasoning) or None,
            "tool_calls": [_tool_call(call, f"{path}.tool_calls[{at}]") for at, call in enumerate(calls)],
        }

    def _content(self, content: Any, path: str) -> Any:
        if content is None or isinstance(content, str):
            return content or ""
        if not isinstance(content, list):
            raise BadField(f"{path}.content", "is neither a string nor a list of parts")
        if len(content) == 1 and isinstance(content[0], dict) and content[0].get("type") == "text":
            return need(content[0], "text", str, f"{path}.content[0]")
        return [self._part(part, f"{path}.content[{at}]") for at, part in enumerate(content)]

    def _part(self, part: Any, path: str) -> dict[str, Any]:
        if not isinstance(part, dict):
            raise BadField(path, "is no object")
        kind = need(part, "type", str, path)
        if kind == "text":
            return {"type": "text", "text": need(part, "text", str, path)}
        if kind == "reasoning":
            return {
                "type": "reasoning",
                "text": get(part, "reasoning", str, "", path) if not part.get("redacted") else "",
                "signature": part.get("signature"),
                "encrypted": part.get("reasoning") if part.get("redacted") else None,
            }
        if kind == "image":
            source = {"url": need(part, "image", str, path), "detail": part.get("detail")}
            return {"type": "image_url", "image_url": source}
        self.lost.add(f"parts of kind {kind} as such (their JSON is kept)")
        return {"type": "opaque", "raw": part}


def _tool_call(call: Any, path: str) -> dict[str, Any]:
    if not isinstance(call, dict):
        raise BadField(path, "is no object")
    name = call.get("function")
    if isinstance(name, dict):  # as the provider has it
        call, name = {**call, **name}, name.get("name")
    arguments = call.get("arguments")
    return {
        "id": need(call, "id", str, path),
        "name": str(name or ""),
        "arguments": arguments
        if isinstance(arguments, str)
        else json.dumps(arguments or {}, ensure_ascii=False),
    }
