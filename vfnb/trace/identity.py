"""When are two messages the same turn? Noise is dropped, signal is hashed.

The rules are those of the measured clients: cache markers move, ids come and go, argument JSON is
re-serialised, reasoning is dropped or stripped, provider state is echoed or lost. None of that is a new history.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import msgspec
from blake3 import blake3
from pydantic_core import PydanticSerializationError

from vfnb.types import (
    AssistantMessage,
    Message,
    SystemMessage,
    ToolCall,
    ToolMessage,
    UserMessage,
    message_adapter,
)
from vfnb.types.parts import OpaqueContentPart, ReasoningContentPart, TextContentPart
from vfnb.utils.long_texts import LONG, text_digest

__all__ = ["Identity", "address", "content", "decode_content", "identity", "same"]

_SIZE = 16
_NOISE = frozenset({"id", "status", "index", "annotations", "cache_control", "logprobs"})
"""Keys that say nothing to the model, at every level."""
_STATE = (
    "reasoning_details",
    "signature",
    "encrypted",
    "encrypted_content",
    "thought_signature",
    "extra_content",
)
_SILENT = _NOISE | {"signature", "encrypted_content"}
_BILLING = "x-anthropic-billing-header:"


class Identity(NamedTuple):
    """What a message is matched by.

    `key` (16 bytes) must be equal; `reasoning` and `state` (16 bytes or None for absent) are compared only
    when both sides have them.
    """

    key: bytes
    reasoning: bytes | None
    state: bytes | None


def same(a: Identity, b: Identity) -> bool:
    """Whether two messages under one parent are the same turn."""
    return (
        a.key == b.key
        and (a.reasoning is None or b.reasoning is None or a.reasoning == b.reasoning)
        and (a.state is None or b.state is None or a.state == b.state)
    )


_NONE: Mapping[int, bytes] = {}


def identity(message: Message, digests: Mapping[int, bytes] = _NONE) -> Identity:
    """The identity of a canonical message; costs one pass over its text.

    Args:
        digests: those of long texts that are known (`text_digest`), by the `id` of a string that is still there.
    """
    items: list[Any] = [message.role]
    reasoning = ""
    state: list[Any] = []
    body = message.content
    if isinstance(body, str):
        if body:
            items.append(body)
    elif body:
        for position, part in enumerate(body):
            if isinstance(part, TextContentPart):
                if position == 0 and isinstance(message, SystemMessage) and part.text.startswith(_BILLING):
                    continue
                if part.text:
                    items.append(part.text if not part.model_extra else _text(part, message))
            elif isinstance(part, ReasoningContentPart):
                reasoning += part.text
                state += [value for value in (part.signature, part.encrypted) if value]
            else:
                items.append(_clean(part.model_dump()))
                if isinstance(part, OpaqueContentPart):
                    state += _states(part.raw)
    if isinstance(message, AssistantMessage):
        reasoning = message.reasoning_content or reasoning
        for call in message.tool_calls:
            items.append(_call(call))
            if call.model_extra:
                state += _states(call.model_extra)
        if message.model_extra:
            state += _states(message.model_extra)
            audio = message.model_extra.get("audio")
            if audio:
                items.append(["audio", audio])
    else:
        if isinstance(message, ToolMessage):
            items.append(["result", message.tool_call_id, message.is_error])
        if message.model_extra:
            extra = _clean(message.model_extra)
            if extra:
                items.append(extra)
    reasoning = reasoning.rstrip()
    return Identity(
        _digest(items, digests),
        _hash(reasoning.encode("utf-8", "surrogatepass")) if reasoning else None,
        _digest(state, digests) if state else None,
    )


def content(message: Message) -> tuple[bytes, bytes]:
    """A message's content address (16 bytes) and its JSON, which loses nothing, unknown keys included."""
    try:
        if _long(message):  # the same JSON, in half the time
            raw = _json(message.__pydantic_serializer__.to_python(message))
        else:
            raw = message.__pydantic_serializer__.to_json(message)
    except (PydanticSerializationError, ValueError, OverflowError):  # lone surrogates: only escapes hold them
        raw = json.dumps(message.model_dump(mode="python"), separators=(",", ":")).encode()
    return address(raw), raw


def _long(message: Message) -> bool:
    """Whether it has a long text."""
    body = message.content
    if isinstance(body, str):
        return len(body) > LONG
    return bool(body) and any(
        isinstance(part, TextContentPart) and len(part.text) > LONG for part in body or ()
    )


def address(raw: bytes) -> bytes:
    """The content address (16 bytes) of a message's JSON."""
    return _hash(raw)


_OPENING = b'{"role":"'
_BY_ROLE: dict[bytes, Any] = {
    kind.model_fields["role"].default.encode(): kind.__pydantic_validator__.validate_json
    for kind in (SystemMessage, UserMessage, AssistantMessage, ToolMessage)
}


def decode_content(raw: bytes) -> Message:
    """The message that `content` wrote."""
    try:
        if raw.startswith(_OPENING):  # as `content` writes them: the role says which model it is
            known = _BY_ROLE.get(raw[len(_OPENING) : raw.index(b'"', len(_OPENING))])
            if known is not None:
                return known(raw)  # type: ignore[no-any-return]
        return message_adapter.validate_json(raw)
    except ValueError:
        return message_adapter.validate_python(json.loads(raw))


def _digest(items: list[Any], digests: Mapping[int, bytes]) -> bytes:
    """Hash text directly and everything else as sorted JSON, each item with its length before it."""
    parts: list[bytes] = []
    for item in items:
        if isinstance(item, str) and len(item) > LONG:
            parts += (b"t:", digests.get(id(item)) or text_digest(item))
        elif isinstance(item, str):
            raw = item.encode("utf-8", "surrogatepass")
            parts += (b"s%d:" % len(raw), raw)
        else:
            raw = _dumps(item)
            parts += (b"j%d:" % len(raw), raw)
    return _hash(b"".join(parts))


def _hash(raw: bytes) -> bytes:
    return blake3(raw).digest(_SIZE)


def _dumps(value: Any) -> bytes:
    try:
        return _sorted(value)
    except (ValueError, OverflowError):  # lone surrogates, integers of any size
        return json.dumps(value, sort_keys=True, separators=(",", ":"), default=str).encode()


def _call(call: ToolCall) -> list[Any]:
    return [call.type, call.namespace or "", call.name, call.id, _arguments(call)]


def _arguments(call: ToolCall) -> Any:
    """The parsed arguments (spacing, key order, escapes, `1.0` for `1` do not matter), else the raw string."""
    raw = call.arguments
    if call.type == "custom":
        return raw
    if not raw.strip():
        return {}
    try:
        return _arguments_of(raw)
    except (ValueError, RecursionError):
        pass  # lone surrogates and NaN, which the standard library can read
    try:
        return json.loads(raw, parse_float=_number)
    except (ValueError, RecursionError):
        return raw


def _number(text: str) -> float | int:
    value = float(text)
    return int(value) if value.is_integer() and abs(value) < 2**53 else value


_json = msgspec.json.Encoder().encode
_sorted = msgspec.json.Encoder(order="sorted", enc_hook=str).encode
_arguments_of = msgspec.json.Decoder(float_hook=_number).decode


def _text(part: TextContentPart, message: Message) -> Any:
    """A text part with extra keys: an assistant's are metadata, another's count unless they are noise."""
    extra = {} if isinstance(message, AssistantMessage) else _clean(part.model_extra or {})
    return [part.text, extra] if extra else part.text


def _clean(value: Any) -> Any:
    """A JSON value without noise keys, nulls and empty lists, at every level."""
    if isinstance(value, dict):
        cleaned = {}
        for key, item in value.items():
            if item is None or item == [] or key in _SILENT or _passthrough(key):
                continue
            cleaned[key] = _clean(item)
        return cleaned
    if isinstance(value, list):
        return [_clean(item) for item in value]
    return value


def _passthrough(key: str) -> bool:
    return "passthrough" in key or key == "metadata"


def _states(extra: dict[str, Any]) -> Iterable[Any]:
    return [extra[key] for key in _STATE if extra.get(key)]
