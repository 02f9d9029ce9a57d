"""A Jupyter-native research SDK for agentic RL and evaluation: `import vfnb as vf`.

Public names load on first use, so the import itself is light.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from vfnb import errors as errors
    from vfnb.agents import Agent as Agent
    from vfnb.agents import Harness as Harness
    from vfnb.agents import HarnessConfig as HarnessConfig
    from vfnb.agents import HarnessSession as HarnessSession
    from vfnb.agents import Timeouts as Timeouts
    from vfnb.agents import harness as harness
    from vfnb.agents import make_agent as make_agent

__version__ = "0.1.0"

_ROOMS: dict[str, tuple[str, ...]] = {
    "vfnb.types": (
        "AssistantMessage AudioContentPart AudioSource ContentPart FileContentPart FileSource "
        "ImageUrlContentPart ImageUrlSource Message Messages OpaqueContentPart OtherMessage "
        "ReasoningContentPart RefusalContentPart Request Response SamplingConfig SystemMessage "
        "TextContentPart Tool ToolCall ToolMessage Usage UserMessage"
    ),
}
