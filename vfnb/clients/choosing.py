"""Which renderer writes a model's chat template: one is taken only if its tokens are those of the template."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from typing import Any

from vfnb.clients.chatml import ChatML
from vfnb.clients.engines.model_files import model_folder
from vfnb.clients.jinja import Jinja
from vfnb.errors import ConfigError, MissingExtra

__all__ = ["choose"]

_TOOL = {
    "type": "function",
    "function": {
        "name": "look",
        "description": "Look.",
        "parameters": {"type": "object", "properties": {"at": {"type": "string"}}, "required": ["at"]},
    },
}
_CALL = {"id": "c1", "type": "function", "function": {"name": "look", "arguments": {"at": "it"}}}
_ASK = {"role": "user", "content": "What is it?"}
_SYSTEM = {"role": "system", "content": "Be brief."}
_TALK: list[dict[str, Any]] = [
    _ASK,
    {"role": "assistant", "content": "A word."},
    {"role": "user", "content": "Which?"},
]
_TOOLS: list[dict[str, Any]] = [
    _ASK,
    {"role": "assistant", "content": "", "tool_calls": [_CALL]},
    {"role": "tool", "tool_call_id": "c1", "content": "a hat"},
]


def choose(tokenizer: Any, model: str) -> tuple[Any, str | None]:
    """The renderer for a model, and the system message that its template puts in by itself.

    Args:
        tokenizer: the model's.
        model: its folder or its name on the hub.

    Raises:
        ConfigError: none fits.
        MissingExtra: the renderers package is not installed.
    """
    try:
        import renderers
        from renderers.base import MODEL_RENDERER_MAP
    except ImportError as error:
        raise MissingExtra("a token client needs the renderers package: pip install 'vfnb[train]'") from error
    if model in MODEL_RENDERER_MAP:
        return MODEL_RENDERER_MAP[model], None
    own = Jinja(tokenizer, [])
    system = _default_system(own, tokenizer)
    if _same(own, lambda: ChatML(tokenizer, system), [[_ASK], [_SYSTEM, *_TALK]]) and _ignores_tools(own):
        return "chatml", system
    for family in _families(model, sorted(set(MODEL_RENDERER_MAP.values()))):
        config = renderers.config_from_name(family)
        if _same(
            own,
            partial(renderers.create_renderer, tokenizer, config),
            [[_ASK], [_SYSTEM, *_TALK], _TOOLS],
            tools=True,
        ):
            return family, None
    raise ConfigError(
        f"no renderer writes the same tokens as the chat template of {model}; name one: renderer='qwen3' (a family "
        "of the renderers package), 'chatml' (no tools), 'hermes' (ChatML, tools as text) or 'jinja' (the template "
        "itself, run as text)"
    )


def _families(model: str, known: list[str]) -> Iterator[str]:
    """Those whose name is near the model's architecture first; there are few, and a wrong one does not pass."""
    file = model_folder(model) / "config.json"
    kind = str(json.loads(file.read_text()).get("model_type", "")) if file.is_file() else ""
    plain = kind.replace("_", "-").replace("-moe", "")
    yield from sorted(known, key=lambda name: (name != plain, not name.startswith(plain[:4]), name))


def _same(own: Jinja, make: Any, talks: list[list[dict[str, Any]]], *, tools: bool = False) -> bool:
    """Whether a renderer gives the template's tokens for some conversations, with tools and without."""
    try:
        renderer = make()
        for talk in talks:
            for offer in [None, [_TOOL]] if tools else [None]:
                if talk is _TOOLS and offer is None:
                    continue
                theirs = renderer.render(talk, tools=offer, add_generation_prompt=True).token_ids
                if list(theirs) != own.render(talk, tools=offer, add_generation_prompt=True).token_ids:
                    return False
    except Exception:  # it lacks tokens, or refuses the conversation: not this one
        return False
    return True


def _ignores_tools(own: Jinja) -> bool:
    plain = own.render([_ASK], add_generation_prompt=True)
    return own.render([_ASK], tools=[_TOOL], add_generation_prompt=True).token_ids == plain.token_ids


def _default_system(own: Jinja, tokenizer: Any) -> str | None:
    """What a ChatML template says first if there is no system message."""
    text: str = tokenizer.decode(own.render([_ASK]).token_ids)
    begin, end = "<|im_start|>system\n", "<|im_end|>\n"
    return text[len(begin) : text.index(end)] if text.startswith(begin) and end in text else None
