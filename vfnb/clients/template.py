"""The chat template of a token engine: from a request to its prompt's tokens, from a completion to what it says."""

from __future__ import annotations

import asyncio
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vfnb.clients.base import ModelRequest
from vfnb.clients.chatml import ChatML
from vfnb.clients.engines.base import TokenEngine
from vfnb.clients.hermes import Hermes
from vfnb.clients.images import collapse, images_of
from vfnb.clients.jinja import Jinja
from vfnb.clients.rendering import Offer, Prompt, plain_messages
from vfnb.errors import ConfigError, MissingExtra, UpstreamRejected
from vfnb.trace.history import TokenHistory
from vfnb.types import Message

__all__ = ["Template", "template"]

_LONG = 20_000  # characters that are worth a thread


class Template:
    """A renderer of the `renderers` package, or one with its methods.

    Args:
        renderer: `render`, `bridge_to_next_turn`, `parse_response`, `get_stop_token_ids`.
        tokenizer: the engine's.
        name: for identities.
    """

    def __init__(self, renderer: Any, tokenizer: Any, name: str) -> None:
        self._renderer, self._tokenizer = renderer, tokenizer
        self.name = name
        self._images = bool(getattr(renderer, "supports_process_multimodal", False))
        self._placeholders = {"process_multimodal": False} if self._images else {}
        self.stop_ids: tuple[int, ...] = tuple(renderer.get_stop_token_ids())
        self._lock = asyncio.Lock()

    async def prompt(self, request: ModelRequest, offer: Offer) -> Prompt:
        """The prompt's tokens. What the model saw and sampled before is taken over where the template allows it.

        Raises:
            UpstreamRejected: the messages have something that the template cannot show.
        """
        messages = request.messages()
        history = request.history()
        if history is not None and sum(len(message.text) for message in messages[-8:]) < _LONG:
            return self._make(history, messages, offer)
        return await asyncio.to_thread(self._make, history, messages, offer)

    def _make(self, history: TokenHistory | None, messages: list[Message], offer: Offer) -> Prompt:
        try:
            images = images_of(messages) if self._images else []
            prompt = self._bridged(history, messages, offer) or self._whole(messages, offer)
            prompt.images = images
            return prompt
        except (ValueError, TypeError, KeyError) as error:
            raise UpstreamRejected(
                f"the template {self.name!r} cannot show these messages: {error}", status=400
            ) from error

    def _bridged(self, history: TokenHistory | None, messages: list[Message], offer: Offer) -> Prompt | None:
        """Only what is new is rendered; None if the template writes the history anew."""
        if history is None or history.messages >= len(messages):
            return None
        known = collapse(history.ids, history.media).tolist()
        prompt_length = history.prompt_length - (
            len(history.ids) - len(known)
        )  # images stand in prompts only
        new = messages[history.messages :]
        if isinstance(self._renderer, Jinja):
            rendered = self._renderer.extend(self._plain(messages), history.messages, known, offer.plain)
        else:
            rendered = self._renderer.bridge_to_next_turn(
                known[:prompt_length],
                known[prompt_length:],
                self._plain(new),
                tools=offer.plain or None,
                **self._placeholders,
            )
        if rendered is None or rendered.token_ids[: len(known)] != known:
            return None
        return _prompt(rendered, len(new), len(known))

    def _whole(self, messages: list[Message], offer: Offer) -> Prompt:
        rendered = self._renderer.render(
            self._plain(messages), tools=offer.plain or None, add_generation_prompt=True, **self._placeholders
        )
        return _prompt(rendered, len(messages), 0)

    def _plain(self, messages: Sequence[Message]) -> list[dict[str, Any]]:
        return plain_messages(messages, images=self._images)

    def parse(self, completion: list[int]) -> tuple[Any, Callable[[int, int], str]]:
        """What a completion says (`ParsedResponse`), and the text between two of its tokens."""
        parsed = self._renderer.parse_response(completion)

        def text_of(begin: int, end: int) -> str:
            text: str = self._tokenizer.decode(completion[begin:end])
            return text

        return parsed, text_of

    def count(self, text: str) -> int:
        """Tokens of a text."""
        return len(self._tokenizer.encode(text, add_special_tokens=False)) if text else 0


def _prompt(rendered: Any, messages: int, start: int) -> Prompt:
    content: NDArray[np.bool_] | None = None
    if len(rendered.is_content) == len(rendered.token_ids):
        content = np.asarray(rendered.is_content[start:], np.bool_)
    return Prompt(rendered.token_ids, start, _spans(rendered.message_indices, messages, start), content)


def _spans(indices: list[int], messages: int, start: int) -> list[tuple[int, int]]:
    """Where each message stands in the prompt; nothing for renderers that do not say."""
    owners = np.asarray(indices[start:], np.int64)
    places = np.flatnonzero(owners >= 0)
    if not len(places):
        return []
    owned = owners[places]
    spans, end = [], start
    for message in range(messages):
        first, last = np.searchsorted(owned, [message, message + 1])
        begin = start + int(places[first]) if first < last else end
        end = start + int(places[last - 1]) + 1 if first < last else end
        spans.append((begin, end))
    return spans


def template(engine: TokenEngine, choice: Any = None) -> Template:
    """The template of an engine.

    Args:
        choice: as for `TrainClient`.

    Raises:
        ConfigError: no template fits.
        MissingExtra: the renderers package is not installed.
    """
    choice = engine.renderer if choice is None else choice
    tokenizer = engine.tokenizer()
    if choice == "jinja":
        warnings.warn(_LOUD.format(engine.model), stacklevel=2)
        return Template(Jinja(tokenizer, engine.stop_ids()), tokenizer, "jinja")
    if choice in ("chatml", "hermes"):
        made = (ChatML if choice == "chatml" else Hermes)(tokenizer, engine.default_system)
        return Template(made, tokenizer, choice)
    if hasattr(choice, "bridge_to_next_turn"):
        return Template(choice, tokenizer, type(choice).__name__)
    if choice is None:
        raise ConfigError(
            f"no renderer is known for the model {engine.model!r}; name one, e.g. renderer='qwen3', 'chatml' "
            "(no tools), 'hermes' (ChatML, tools as text) or 'jinja' (the model's own template, run as text)"
        )
    return _from_package(tokenizer, choice, engine.model)


_LOUD = (
    "renderer='jinja' runs the chat template of {} as text: message spans are not recorded, and thinking and tool "
    "calls are read as <think> and <tool_call>; a renderer made for the model is exact"
)


def _from_package(tokenizer: Any, choice: Any, model: str) -> Template:
    try:
        import renderers
    except ImportError as error:
        raise MissingExtra("a token client needs the renderers package: pip install 'vfnb[train]'") from error
    try:
        config = renderers.config_from_name(choice) if isinstance(choice, str) else choice
    except Exception as error:
        raise ConfigError(f"there is no renderer {choice!r}: {error}") from error
    try:
        return Template(renderers.create_renderer(tokenizer, config), tokenizer, config.name)
    except Exception as error:  # each family fails in its own way
        raise ConfigError(f"renderer={choice!r} does not fit the model {model!r}: {error}") from error
