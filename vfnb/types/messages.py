"""Canonical messages: what a harness and a model said to each other, whatever dialect carried it."""

from __future__ import annotations

import json
from typing import Annotated, Any, Literal

from pydantic import Discriminator, Tag, TypeAdapter

from vfnb.types.parts import ContentPart, Open, TextContentPart

__all__ = [
    "AssistantMessage",
    "Content",
    "Message",
    "Messages",
    "OtherMessage",
    "SystemMessage",
    "ToolCall",
    "ToolMessage",
    "UserMessage",
    "message_adapter",
    "messages_adapter",
    "resolve_messages",
]

Content = str | list[ContentPart]


class ToolCall(Open):
    """One call that the model asked for.

    `arguments` is the raw string as sampled; it need not be valid JSON. `type` is `function`, `custom`
    (free text input) or a provider's own kind. Tool identity is (`type`, `namespace`, `name`).
    """

    id: str
    name: str
    arguments: str = ""
    type: str = "function"
    namespace: str | None = None

    @property
    def parsed(self) -> Any:
        """The arguments as a JSON value; `{}` if empty, the raw string if they are not valid JSON."""
        if not self.arguments.strip():
            return {}
        try:
            return json.loads(self.arguments)
        except ValueError:
            return self.arguments


class _Message(Open):
    """What all messages share."""

    @property
    def text(self) -> str:
        """The text parts, joined; `""` if there are none."""
        content = getattr(self, "content", None)
        if content is None:
            return ""
        if isinstance(content, str):
            return content
        return "".join(part.text for part in content if isinstance(part, TextContentPart))


class SystemMessage(_Message):
    """Instructions (roles `system` and `developer` of the wire)."""

    role: Literal["system"] = "system"
    content: Content


class UserMessage(_Message):
    """What the user, or the program in their name, said."""

    role: Literal["user"] = "user"
    content: Content


class AssistantMessage(_Message):
    """What the model said: reasoning, text and tool calls."""

    role: Literal["assistant"] = "assistant"
    content: Content | None = None
    reasoning_content: str | None = None
    """Plain reasoning text, None if the model or the echoing program gave none."""
    tool_calls: list[ToolCall] = []


class ToolMessage(_Message):
    """The result of one tool call."""

    role: Literal["tool"] = "tool"
    tool_call_id: str
    content: Content
    is_error: bool = False


class OtherMessage(_Message):
    """A message of a role that this version does not know; it is kept as it came."""

    role: str
    content: Content | None = None


_ROLES = {"system", "user", "assistant", "tool"}


def _role(value: Any) -> str:
    role = value.get("role") if isinstance(value, dict) else getattr(value, "role", None)
    return role if role in _ROLES else "other"


Message = Annotated[
    Annotated[SystemMessage, Tag("system")]
    | Annotated[UserMessage, Tag("user")]
    | Annotated[AssistantMessage, Tag("assistant")]
    | Annotated[ToolMessage, Tag("tool")]
    | Annotated[OtherMessage, Tag("other")],
    Discriminator(_role),
]
Messages = list[Message]

message_adapter: TypeAdapter[Message] = TypeAdapter(Message)
messages_adapter: TypeAdapter[Messages] = TypeAdapter(Messages)


def resolve_messages(prompt: str | Messages | None) -> Messages:
    """A prompt as messages: a string becomes one user message, None becomes none."""
    if prompt is None:
        return []
    if isinstance(prompt, str):
        return [UserMessage(content=prompt)]
    return list(prompt)
