"""A model's own chat template (Jinja) where no renderer knows it: text first, tokens then.

What the model sampled is kept: the new part of a conversation is found by rendering it with marks in the place
of the last reply. Thinking and tool calls are read in the forms of most open models, `<think>` and `<tool_call>`.
"""

from __future__ import annotations

import json
import re
import secrets
from collections.abc import Sequence
from datetime import datetime
from typing import Any

from vfnb.clients.chatml import Parsed, Rendered
from vfnb.errors import ConfigError

__all__ = ["Jinja", "read_calls"]

_THINK = re.compile(r"\s*<think>(.*?)</think>\s*", re.DOTALL)
_CALL = re.compile(r"<tool_call>(.*?)</tool_call>", re.DOTALL)


class _Call:
    """One call in a completion, in the form of the renderers package."""

    def __init__(self, whole: str, body: str) -> None:
        self.raw, self.name, self.arguments, self.token_span = whole, None, None, None
        try:
            value = json.loads(body)
        except ValueError:
            return
        if isinstance(value, dict) and isinstance(value.get("name"), str):
            self.raw, self.name, self.arguments = body, value["name"], value.get("arguments", {})


def read_calls(text: str) -> tuple[str, list[Any]]:
    """The text without its `<tool_call>{"name": ..., "arguments": ...}</tool_call>`, and these calls."""
    calls = [_Call(found[0], found[1].strip()) for found in _CALL.finditer(text)]
    return (_CALL.sub("", text).strip(), calls) if calls else (text, [])


class Jinja:
    """A chat template as text.

    Args:
        tokenizer: the model's, with `chat_template` and `encode_template`.
        stop_ids: tokens that end a turn.

    Raises:
        ConfigError: the model has no chat template, or one that is no Jinja.
    """

    def __init__(self, tokenizer: Any, stop_ids: Sequence[int]) -> None:
        from jinja2 import TemplateSyntaxError
        from jinja2.sandbox import ImmutableSandboxedEnvironment

        source = tokenizer.chat_template
        if not source:
            raise ConfigError(
                "the model has no chat template; name a renderer: vf.TrainClient(engine, renderer='chatml')"
            )
        environment = ImmutableSandboxedEnvironment(trim_blocks=True, lstrip_blocks=True)
        environment.filters["tojson"] = lambda value, **options: json.dumps(
            value, ensure_ascii=False, **options
        )
        environment.globals |= {
            "raise_exception": _refuse,
            "strftime_now": lambda form: datetime.now().strftime(form),
        }
        try:
            self._template = environment.from_string(source)
        except TemplateSyntaxError as error:
            raise ConfigError(f"the model's chat template is no valid Jinja: {error}") from error
        self._tokenizer, self._stop_ids = tokenizer, list(stop_ids)

    def get_stop_token_ids(self) -> list[int]:
        """The tokens that end a turn."""
        return self._stop_ids

    def _text(self, messages: Sequence[dict[str, Any]], tools: Any, *, prompt: bool) -> str:
        try:
            text: str = self._template.render(
                messages=list(messages),
                tools=tools or None,
                add_generation_prompt=prompt,
                eos_token=self._tokenizer.eos_token or "",
                bos_token=getattr(self._tokenizer, "bos_token", None) or "",
            )
        except Exception as error:  # a template is code of the model's maker
            raise ValueError(f"its chat template failed: {type(error).__name__}: {error}") from error
        return text

    def render(
        self, messages: Sequence[dict[str, Any]], *, tools: Any = None, add_generation_prompt: bool = False
    ) -> Rendered:
        """The tokens of a conversation.

        Raises:
            ValueError: the template refuses it.
        """
        ids = self._tokenizer.encode_template(self._text(messages, tools, prompt=add_generation_prompt))
        return Rendered(ids, [], [])

    def extend(
        self, messages: Sequence[dict[str, Any]], count: int, known: list[int], tools: Any
    ) -> Rendered | None:
        """The known tokens, then those of what follows.

        Args:
            messages: all.
            count: how many of them the known tokens hold, the model's last reply included.
            known: prompt and completion of that reply.

        Returns:
            None if the template writes earlier messages in another way now, e.g. without their thinking.
        """
        reply = messages[count - 1]
        mark, thought = (f"mark{secrets.token_hex(8)}" for _ in range(2))
        marked = {"role": "assistant", "content": mark}
        if reply.get("reasoning_content"):
            marked["reasoning_content"] = thought
        text = self._text([*messages[: count - 1], marked, *messages[count:]], tools, prompt=True)
        before, found, tail = text.partition(mark)
        if not found or ("reasoning_content" in marked and thought not in before):
            return None
        if not before.startswith(self._text(messages[: count - 1], tools, prompt=True)):
            return None
        if known[-1] in self._stop_ids:  # the model has closed its turn by itself
            closing = self._tokenizer.decode([known[-1]])
            if not tail.startswith(closing):
                return None
            tail = tail[len(closing) :]
        return Rendered([*known, *self._tokenizer.encode_template(tail)], [], [])

    def parse_response(self, token_ids: list[int], **_: Any) -> Parsed:
        """Thinking, text and calls of a completion."""
        kept = token_ids[:-1] if token_ids and token_ids[-1] in self._stop_ids else token_ids
        text: str = self._tokenizer.decode(kept)
        reasoning = None
        thinking = _THINK.match(text)
        if thinking is not None:
            reasoning, text = thinking[1].strip(), text[thinking.end() :]
        elif text.lstrip().startswith("<think>"):  # cut off while thinking
            return Parsed("", text.lstrip().removeprefix("<think>").strip())
        rest, calls = read_calls(text)
        return Parsed(rest.strip(), reasoning, calls)


def _refuse(message: str) -> None:
    raise ValueError(message)
