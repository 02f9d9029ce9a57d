"""The ChatML template without thinking and tools, as SmolLM2 and others have it, with exact continuation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from vfnb.errors import ConfigError

__all__ = ["ChatML", "Parsed", "Rendered"]


@dataclass(slots=True)
class Rendered:
    """A prompt, in the form of the renderers package."""

    token_ids: list[int] = field(default_factory=list)
    message_indices: list[int] = field(default_factory=list)
    """The message of each token; -1 for those of none."""
    is_content: list[bool] = field(default_factory=list)

    def add(self, ids: Sequence[int], message: int, *, content: bool = False) -> None:
        """Append tokens of one message."""
        self.token_ids += ids
        self.message_indices += [message] * len(ids)
        self.is_content += [content] * len(ids)


@dataclass(slots=True)
class Parsed:
    """A completion, in the form of the renderers package."""

    content: str
    reasoning_content: str | None = None
    tool_calls: list[Any] = field(default_factory=list)


_NO_TOOLS = (
    "it has no tools; renderer='hermes' writes them into the system message, else use a model that has them, or a "
    "task without"
)


class ChatML:
    """`<|im_start|>role`, the text, `<|im_end|>`; text of a message that looks like these tokens is no token.

    Args:
        tokenizer: the model's.
        system: what stands first if the conversation has no system message.

    Raises:
        ConfigError: the tokenizer has no ChatML tokens.
    """

    def __init__(self, tokenizer: Any, system: str | None = None) -> None:
        self._tokenizer, self._system = tokenizer, system
        self._start, self._end = (self._token(name) for name in ("<|im_start|>", "<|im_end|>"))
        self._newline = self._encode("\n")

    def _token(self, name: str) -> int:
        token = self._tokenizer.convert_tokens_to_ids(name)
        if not isinstance(token, int):
            raise ConfigError(f"the tokenizer has no token {name}; ChatML is not this model's template")
        return token

    def _encode(self, text: str) -> list[int]:
        return list(self._tokenizer.encode(text, add_special_tokens=False))

    def get_stop_token_ids(self) -> list[int]:
        """The tokens that end a turn."""
        return [self._end]

    def render(
        self,
        messages: Sequence[dict[str, Any]],
        *,
        tools: Any = None,
        add_generation_prompt: bool = False,
    ) -> Rendered:
        """The tokens of a conversation.

        Raises:
            ValueError: there are tools, or parts other than text.
        """
        rendered = Rendered()
        own = bool(messages) and messages[0]["role"] == "system"
        system = self._offer(self._text(messages[0]) if own else self._system, tools)
        if system is not None:
            self._message(rendered, {"role": "system", "content": system}, 0 if own else -1)
        self._add(rendered, messages, 1 if own else 0, prompt=add_generation_prompt)
        return rendered

    def _offer(self, system: str | None, tools: Any) -> str | None:
        """The first system message with the tools that are offered."""
        if tools:
            raise ValueError(_NO_TOOLS)
        return system

    def bridge_to_next_turn(
        self,
        previous_prompt_ids: list[int],
        previous_completion_ids: list[int],
        new_messages: Sequence[dict[str, Any]],
        *,
        tools: Any = None,
    ) -> Rendered | None:
        """The known tokens, then the new messages; None if one of them is an assistant's."""
        if any(message["role"] == "assistant" for message in new_messages):
            return None
        rendered = Rendered()
        rendered.add([*previous_prompt_ids, *previous_completion_ids], -1)
        if previous_completion_ids[-1] != self._end:  # cut off: close the turn
            rendered.add([self._end], -1)
        rendered.add(self._newline, -1)
        self._add(rendered, new_messages, 0, prompt=True)
        return rendered

    def _add(
        self, rendered: Rendered, messages: Sequence[dict[str, Any]], first: int, *, prompt: bool
    ) -> None:
        for index in range(first, len(messages)):
            self._message(rendered, messages[index], index)
        if prompt:
            rendered.add([self._start, *self._encode("assistant\n")], -1)

    def _message(self, rendered: Rendered, message: dict[str, Any], index: int) -> None:
        content = self._text(message)
        rendered.add([self._start, *self._encode(f"{message['role']}\n")], index)
        rendered.add(self._encode(content), index, content=True)
        rendered.add([self._end, *self._newline], index)

    def _text(self, message: dict[str, Any]) -> str:
        """A message as the model reads it."""
        if message.get("tool_calls"):
            raise ValueError(_NO_TOOLS)
        content = message.get("content") or ""
        if not isinstance(content, str):
            raise ValueError("it takes text only")
        return content

    def parse_response(self, token_ids: list[int], **_: Any) -> Parsed:
        """All of it is text."""
        kept = token_ids[:-1] if token_ids and token_ids[-1] == self._end else token_ids
        return Parsed(self._tokenizer.decode(kept))
