"""What goes with a model call: tools, sampling, usage, and the request and response that hooks see."""

from __future__ import annotations

from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field

from vfnb.types.messages import AssistantMessage, Messages
from vfnb.types.parts import Open

__all__ = ["FinishReason", "HostedResult", "Request", "Response", "SamplingConfig", "Tool", "Usage"]

FinishReason = Literal["stop", "length", "tool_calls", "content_filter", "error"]


class Tool(Open):
    """A tool offered to the model. Hosted and unknown kinds keep their raw JSON in `raw`."""

    name: str
    description: str = ""
    parameters: dict[str, Any] = {}
    type: str = "function"
    namespace: str | None = None
    strict: bool | None = None
    raw: dict[str, Any] | None = None


class Usage(BaseModel):
    """Tokens and cost of one call; the prompt includes cached tokens, the completion includes reasoning."""

    prompt_tokens: int = 0
    completion_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    cost: float | None = None
    """US dollars, from the provider or the given price; None if neither is known."""

    @property
    def total_tokens(self) -> int:
        """Prompt plus completion."""
        return self.prompt_tokens + self.completion_tokens


class SamplingConfig(BaseModel):
    """Sampling settings of a run; they override what the program asked for, None leaves its value."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    temperature: float | None = Field(default=None, ge=0)
    """0 is greedy."""
    top_p: float | None = Field(default=None, gt=0, le=1)
    """Nucleus mass."""
    top_k: int | None = None
    """Number of candidates; not every provider has it."""
    min_p: float | None = Field(default=None, ge=0, le=1)
    """Smallest probability relative to the best token."""
    max_tokens: int | None = Field(default=None, ge=1)
    """Longest completion, in tokens."""
    seed: int | None = None
    """Sampling seed, where the provider honours one."""
    stop: list[str] | None = None
    """Stop strings."""
    presence_penalty: float | None = None
    """As in the OpenAI API."""
    frequency_penalty: float | None = None
    """As in the OpenAI API."""
    repetition_penalty: float | None = None
    """As in vLLM."""
    reasoning_effort: str | None = None
    """`low`, `medium`, `high` or what the provider knows."""
    extra_body: dict[str, Any] = {}
    """Provider keys that are put into the request as they are."""

    def given(self) -> dict[str, Any]:
        """The settings that are not None, without `extra_body`."""
        data = self.model_dump(exclude_none=True)
        data.pop("extra_body", None)
        return data


class Request(BaseModel):
    """A model call as a hook sees it before it is sent."""

    messages: Messages
    tools: list[Tool] = []
    model: str = ""
    sampling: dict[str, Any] = {}


class HostedResult(BaseModel):
    """What a tool that the provider runs by itself (a web search, for example) put into a model's answer."""

    id: str
    tool: str = ""
    """Name of the tool, as the provider has it."""
    text: str = ""
    """What the model read."""
    signed: bool = False
    """The provider checks it when it comes back: it can be read and not be replaced."""


class Response(BaseModel):
    """A model's answer as a hook sees it before the harness does."""

    message: AssistantMessage
    finish_reason: FinishReason = "stop"
    usage: Usage | None = None
    id: str = ""
    model: str = ""
    hosted_results: list[HostedResult] = Field(default_factory=list)
    """Results of the provider's own tools, where the dialect has them; only hooks get them."""

    @property
    def text(self) -> str:
        """The answer's text."""
        return self.message.text
