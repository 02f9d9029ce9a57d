"""From what a user passes as `model=` to a client."""

from __future__ import annotations

from vfnb.clients.base import ModelClient
from vfnb.clients.engines.base import TokenEngine
from vfnb.clients.relay import Relay
from vfnb.errors import ConfigError

__all__ = ["AnyModel", "resolve_model"]

AnyModel = str | ModelClient | TokenEngine
"""What may stand for a model: a name, a client, an engine."""


def resolve_model(model: AnyModel | None) -> ModelClient:
    """A client; a name is relayed to `OPENAI_BASE_URL`, a token engine gets a `TrainClient`.

    Raises:
        ConfigError: if there is no model, or it is neither a name nor a client.
    """
    if isinstance(model, ModelClient):
        return model
    if isinstance(model, TokenEngine):
        from vfnb.clients.train import TrainClient

        return TrainClient(model)
    if isinstance(model, str) and model:
        return Relay(model)
    if model is None or model == "":
        raise ConfigError(
            "no model: pass model= a name (relayed to OPENAI_BASE_URL), vf.Relay(name, base_url=...) or "
            "vf.Scripted(fn) to try things without a model"
        )
    raise ConfigError(
        f"model= must be a name or a model object such as vf.Relay(...) or vf.Scripted(fn), not "
        f"{type(model).__name__}" + ("; wrap the function: vf.Scripted(fn)" if callable(model) else "")
    )
