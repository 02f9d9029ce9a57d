"""Provider wire formats to and from the canonical types."""

from vfnb.dialects.base import Changes, Dialect
from vfnb.dialects.chat import Chat
from vfnb.dialects.faults import RequestError
from vfnb.dialects.gemini import Gemini, GeminiList
from vfnb.dialects.messages import AnthropicMessages
from vfnb.dialects.parts import Split
from vfnb.dialects.reader import StreamReader
from vfnb.dialects.registry import counter, dialects, get, match
from vfnb.dialects.responses import Responses
from vfnb.dialects.split import Splitter

__all__ = [
    "AnthropicMessages",
    "Changes",
    "Chat",
    "Dialect",
    "Gemini",
    "GeminiList",
    "RequestError",
    "Responses",
    "Split",
    "Splitter",
    "StreamReader",
    "counter",
    "dialects",
    "get",
    "match",
]
