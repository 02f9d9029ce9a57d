"""Who answers a call."""

from vfnb.clients.base import ModelClient, ModelRequest, Reply
from vfnb.clients.price import Price

__all__ = ["ModelClient", "ModelRequest", "Price", "Reply"]
