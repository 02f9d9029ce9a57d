"""Prompt templates, fences and shortened texts."""

from __future__ import annotations

import re
from collections.abc import Mapping
from string import Formatter
from typing import Any

from vfnb.errors import ConfigError
from vfnb.utils.config import nearest

__all__ = ["fenced", "placeholders", "render", "shortened", "without_thoughts"]

_TICKS = re.compile(r"`+")
_THOUGHTS = re.compile(r"<(think|thinking)>.*?</\1>", re.DOTALL | re.IGNORECASE)


def placeholders(template: str, owner: str) -> set[str]:
    """The fields that a template takes.

    Raises:
        ConfigError: it is no valid template.
    """
    try:
        names = [name for _, name, _, _ in Formatter().parse(template) if name is not None]
    except ValueError as error:
        raise ConfigError(
            f"{owner}: its prompt is no valid template: {error}; write {{{{ and }}}} for braces"
        ) from None
    return {re.split(r"[.\[]", name)[0] for name in names}


def render(template: str, fields: Mapping[str, Any], owner: str) -> str:
    """A template with its fields put in, as `str.format`; braces in values are just text.

    Raises:
        ConfigError: it takes a field that is not given, or is no valid template.
    """
    for name in sorted(placeholders(template, owner)):
        if name not in fields:
            match = nearest(name, fields)
            hint = f"did you mean {{{match}}}?" if match else f"given: {', '.join(sorted(fields)) or 'none'}"
            raise ConfigError(
                f"{owner}: its prompt takes {{{name}}}, which is not given; {hint} (write {{{{ and }}}} for braces)"
            )
    return template.format(**fields)


def fenced(text: str) -> str:
    """The text between fences that it cannot close itself."""
    longest = max((len(ticks) for ticks in _TICKS.findall(text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text}\n{fence}"


def shortened(text: str, limit: int) -> str:
    """The text, cut in the middle to about `limit` characters."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    return f"{text[:head]} [... {len(text) - limit} characters ...] {text[len(text) - (limit - head) :]}"


def without_thoughts(text: str) -> str:
    """A reply without its `<think>` parts; an unclosed one at the start hides everything up to its end."""
    text = _THOUGHTS.sub("", text)
    return re.split(r"</think(?:ing)?>", text, flags=re.IGNORECASE)[-1]
