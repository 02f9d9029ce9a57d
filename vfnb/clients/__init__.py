"""Who answers a call."""

from vfnb.clients.base import ModelClient, ModelRequest, Reply
from vfnb.clients.price import Price
from vfnb.clients.relay import Relay
from vfnb.clients.resolve import resolve_model
from vfnb.clients.scripted import Scripted

EvalClient = Relay

__all__ = [
    "EvalClient",
    "ModelClient",
    "ModelRequest",
    "Price",
    "Relay",
    "Reply",
    "Scripted",
    "resolve_model",
]
