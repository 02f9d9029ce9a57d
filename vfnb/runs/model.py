"""The `[model]` table: which model answers, and under which terms."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from pydantic import Field, field_validator

from vfnb.utils.config import OBJECT, BaseConfig, hidden

if TYPE_CHECKING:
    from vfnb.clients import ModelClient

__all__ = ["ModelConfig"]


class ModelConfig(BaseConfig):
    """A model behind a server. `model = "name"` is short for a table with only a name."""

    name: str = Field(min_length=1)
    """Name that the server knows."""
    base_url: str | None = Field(default=None, pattern="^https?://.")
    """Root of the server, with or without `/v1`; `OPENAI_BASE_URL` or the dialect's variable if not given."""
    dialect: str | None = None
    """What the server speaks: `chat`, `responses`, `messages` or `gemini`; calls of programs that speak another
    one are translated. Without it: what the program speaks."""
    api_key_var: str | None = ""
    """Name of the environment variable with the key: `OPENAI_API_KEY` or the dialect's if empty; `"null"` for a
    server without keys."""
    headers: dict[str, str] = {}
    """More headers; a value `env:NAME` is read from the environment at each call, and so never saved."""
    max_concurrency: int | None = Field(default=None, ge=1)
    """Most calls at once."""
    rpm: int | None = Field(default=None, ge=1)
    """Most calls per minute."""
    tpm: int | None = Field(default=None, ge=1)
    """Most tokens per minute."""
    price: list[float] | None = Field(default=None, min_length=2, max_length=3)
    """US dollars per million tokens: `[prompt, completion]` or `[prompt, completion, cached]`."""
    timeout: float = Field(default=600.0, gt=0)
    """Longest silence of the server, in seconds."""
    max_retries: int = Field(default=2, ge=0)
    """How often a call is tried again after a lost connection, a 429, a 5xx or an unreadable answer."""
    retry_wait: float = Field(default=0.5, ge=0)
    """Seconds before the first retry, doubled for each further one; `Retry-After` wins."""
    ask_usage: bool = False
    """Ask streams for usage when the program did not."""

    @field_validator("name")
    @classmethod
    def _loadable(cls, value: str) -> str:
        if value.startswith(OBJECT):
            raise ValueError(
                f"the model was the Python object {value.removeprefix(OBJECT)!r}, which no file can make; name "
                "another one with -m, or call vf.evaluate(model=...)"
            )
        return value

    @field_validator("api_key_var")
    @classmethod
    def _is_a_name(cls, value: str | None) -> str | None:
        if value and not value.isidentifier():
            raise hidden("give the name of an environment variable, not the key itself")
        return value

    @field_validator("headers")
    @classmethod
    def _no_gaps(cls, value: dict[str, str]) -> dict[str, str]:
        for name, text in value.items():
            if text == "***":
                raise ValueError(f"{name} was a secret and was not saved; write {name} = 'env:VARIABLE'")
        return value

    def client(self) -> ModelClient:
        """The client that this table describes.

        Raises:
            ConfigError: it cannot work.
        """
        from vfnb.clients import Relay

        settings: dict[str, Any] = {name: getattr(self, name) for name in ModelConfig.model_fields}
        price = settings.pop("price")
        return Relay(settings.pop("name"), price=tuple(price) if price else None, **settings)
