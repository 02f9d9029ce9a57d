"""ChatML with tools that its template does not have: offered in the system message, called in the reply's text.

The form of the calls is that of the Hermes models, https://github.com/NousResearch/Hermes-Function-Calling, which
many open models follow: `<tool_call>{"name": ..., "arguments": {...}}</tool_call>`.
"""

from __future__ import annotations

import json
from typing import Any

from vfnb.clients.chatml import ChatML, Parsed
from vfnb.clients.jinja import read_calls

__all__ = ["Hermes"]

_INTRODUCTION = """# Tools

These functions can be called, one JSON object a line:
<tools>
{tools}
</tools>

To call one, write its name and its arguments as a JSON object between tags; its result comes with the next message:
<tool_call>
{{"name": "NAME", "arguments": {{"ARGUMENT": "VALUE"}}}}
</tool_call>"""


class Hermes(ChatML):
    """ChatML whose tools and calls are plain text, for templates without them. Arguments as for `ChatML`."""

    def _offer(self, system: str | None, tools: Any) -> str | None:
        if not tools:
            return system
        told = _INTRODUCTION.format(tools="\n".join(_json(tool) for tool in tools))
        return f"{system}\n\n{told}" if system else told

    def _text(self, message: dict[str, Any]) -> str:
        calls = [_written(call["function"]) for call in message.get("tool_calls", ())]
        text = super()._text({**message, "tool_calls": None})
        return "\n".join([text, *calls] if text else calls or [""])

    def parse_response(self, token_ids: list[int], **keys: Any) -> Parsed:
        """Text and calls of a completion."""
        text, calls = read_calls(super().parse_response(token_ids, **keys).content)
        return Parsed(text, tool_calls=calls)


def _written(function: dict[str, Any]) -> str:
    return f"<tool_call>\n{_json(function)}\n</tool_call>"


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
