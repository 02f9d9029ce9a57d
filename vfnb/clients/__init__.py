"""Who answers a call."""

from typing import TYPE_CHECKING

from vfnb.clients.base import ModelClient, ModelRequest, Reply
from vfnb.clients.engines.base import TokenEngine
from vfnb.clients.price import Price
from vfnb.clients.relay import Relay
from vfnb.clients.resolve import AnyModel, resolve_model
from vfnb.clients.scripted import Scripted
from vfnb.utils.lazy import lazy

if TYPE_CHECKING:
    from vfnb.clients.engines import VLLM as VLLM
    from vfnb.clients.engines import Embedded as Embedded
    from vfnb.clients.replay import Replay as Replay
    from vfnb.clients.train import TrainClient as TrainClient
else:
    __getattr__ = lazy(__name__, {"engines": "Embedded VLLM", "replay": "Replay", "train": "TrainClient"})

EvalClient = Relay

__all__ = [
    "VLLM",
    "AnyModel",
    "Embedded",
    "EvalClient",
    "ModelClient",
    "ModelRequest",
    "Price",
    "Relay",
    "Replay",
    "Reply",
    "Scripted",
    "TokenEngine",
    "TrainClient",
    "resolve_model",
]
