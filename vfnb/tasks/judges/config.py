"""Settings of judges: whom to ask and how, apart from the evaluated agent's own."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal, Self

from pydantic import Field, field_validator, model_validator
from pydantic.json_schema import SkipJsonSchema

from vfnb.clients import ModelClient
from vfnb.clients.address import public_headers, public_url
from vfnb.types import SamplingConfig
from vfnb.utils.config import OBJECT, BaseConfig, hidden

__all__ = ["JudgeConfig", "JudgeView", "TaskJudgeConfig"]

JudgeView = Literal["last_reply", "transcript", "full_trace"]
"""What a judge sees: the last reply, the messages of the main line, or those of every branch."""


class JudgeConfig(BaseConfig):
    """Whom a judge asks and how. Nothing here depends on the evaluated agent's model or client."""

    id: str = ""
    """Which judge; `""` for one that task code calls. See `vfnb.tasks.judges.judges()` for the names."""
    name: str = ""
    """Name of its reward and in records; the id, or the class's name, if empty."""
    weight: float = 1.0
    """Factor of its reward in the sum; with 0 it is recorded only."""
    priority: float = 0
    """Higher runs first; equal ones in the order of the list. Judges run after all rewards."""
    model: str = "gpt-5-mini"
    """The name that the endpoint knows."""
    base_url: str | None = None
    """The server's root; `OPENAI_BASE_URL` if that is set, else `https://api.openai.com/v1`."""
    api_key_var: str | None = "OPENAI_API_KEY"
    """The environment variable with the key; it is read at each call and never kept. None: no key."""
    headers: dict[str, str] = {}
    """More headers; write secrets as `env:NAME`, which is read at each call."""
    sampling: SamplingConfig = SamplingConfig()
    """Sampling settings and, under `extra_body`, anything else that the endpoint takes."""
    prompt: str | None = None
    """Template in place of the judge's own; `{name}` takes a field, `{{` and `}}` are braces."""
    prompt_file: str | None = None
    """A file with that template."""
    timeout: float = Field(default=120.0, gt=0)
    """Longest time of one call with its retries, in seconds; waiting for a turn does not count."""
    retries: int = Field(default=2, ge=0)
    """Further tries, with growing pauses, after a lost connection, a 429, a 5xx or a broken answer."""
    max_concurrency: int | None = Field(default=None, ge=1)
    """Most calls at once to this endpoint and model, over all rollouts of the process; 32 if nobody says."""
    price: tuple[float, ...] | None = None
    """US dollars per million (prompt, completion) or (prompt, completion, cached) tokens."""
    client: Annotated[Any, SkipJsonSchema()] = Field(default=None, exclude=True, repr=False)
    """Python only: a model object such as `vf.Scripted(fn)` to ask in place of the endpoint."""

    @field_validator("weight")
    @classmethod
    def _finite(cls, value: float) -> float:
        if not math.isfinite(value):
            raise ValueError("the weight must be a finite number")
        return value

    @field_validator("client")
    @classmethod
    def _model_object(cls, value: Any) -> Any:
        if value is not None and not isinstance(value, ModelClient):
            raise ValueError(
                "expected a model object such as vf.Scripted(fn); a file sets model and base_url"
            )
        return value

    @field_validator("base_url")
    @classmethod
    def _plain_url(cls, value: str | None) -> str | None:
        if value is None:
            return value
        if not value.startswith(("http://", "https://")):
            raise ValueError("a URL must start with http:// or https://")
        if (public_url(value) or "").rstrip("/") != value.rstrip("/"):
            raise hidden("put user, password and key into the environment (api_key_var), not into the URL")
        return value

    @field_validator("headers")
    @classmethod
    def _no_secrets(cls, value: dict[str, str]) -> dict[str, str]:
        secret = [name for name, shown in public_headers(value).items() if shown == "***"]
        if secret:
            raise hidden(f"{secret[0]} looks like a secret; put it into the environment and write 'env:NAME'")
        return value

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.prompt is not None and self.prompt_file is not None:
            raise ValueError("set prompt or prompt_file, not both")
        if self.client is not None and not self.model.startswith(OBJECT):
            self.model = OBJECT + self.client.name  # what a saved config says: no file can name this model
        return self


class TaskJudgeConfig(JudgeConfig):
    """Settings of a judge that reads question and reference answer from the task."""

    question_field: str = ""
    """Field of the TaskData with the question; the prompt's text if empty."""
    answer_field: str = ""
    """Field of the TaskData with the reference answer, or a list of them; `""` shows none."""
    view: JudgeView = "last_reply"
    """What it sees of the rollout: `last_reply`, `transcript` (main line) or `full_trace` (every branch)."""
