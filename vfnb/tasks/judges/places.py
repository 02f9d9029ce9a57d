"""Where judges are asked: one client and one queue per endpoint, shared by all rollouts of the process."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from vfnb.clients import ModelClient, Relay
from vfnb.clients.address import public_url
from vfnb.clients.limits import Endpoint
from vfnb.errors import ConfigError
from vfnb.utils.config import OBJECT

if TYPE_CHECKING:
    from vfnb.tasks.judges.config import JudgeConfig

__all__ = ["MAX_CONCURRENCY", "Place", "close_idle", "place_of"]

MAX_CONCURRENCY = 32
"""Calls at once to one endpoint and model, if no judge says otherwise."""
_OPENAI = "https://api.openai.com/v1"


@dataclass(frozen=True)
class Place:
    """An endpoint."""

    client: ModelClient
    queue: Endpoint
    """Who may call now."""
    shown: str
    """How messages and records name it."""


_places: dict[Hashable, Place] = {}
_queues: dict[Hashable, Endpoint] = {}
_objects: WeakKeyDictionary[ModelClient, Endpoint] = WeakKeyDictionary()


def place_of(config: JudgeConfig, client: ModelClient | None = None) -> Place:
    """The endpoint of a config, or a model object in its place.

    Raises:
        ConfigError: the config was saved where it had a model object.
    """
    client = client or config.client
    if client is not None:
        queue = _objects.setdefault(client, Endpoint())
        queue.configure(
            config.max_concurrency or (None if queue.max_concurrency else MAX_CONCURRENCY), None, None
        )
        return Place(client, queue, str(client.identity().get("kind", type(client).__name__)))
    if config.model.startswith(OBJECT) or not config.model:
        was = f"the Python object {config.model.removeprefix(OBJECT)!r}" if config.model else "empty"
        raise ConfigError(
            f"model: it was {was}; give client= in Python, or a model's name and base_url in a file"
        )
    root = config.base_url or os.environ.get("OPENAI_BASE_URL") or _OPENAI
    queue = _queues.setdefault((root, config.api_key_var, config.model), Endpoint())
    queue.configure(
        config.max_concurrency or (None if queue.max_concurrency else MAX_CONCURRENCY), None, None
    )
    settings = (root, config.api_key_var, config.model, config.timeout, config.retries, config.price)
    key = (*settings, tuple(sorted(config.headers.items())))
    found = _places.get(key)
    if found is None:
        relay = Relay(
            config.model,
            base_url=root,
            api_key_var=config.api_key_var,
            headers=config.headers,
            price=config.price,
            timeout=config.timeout,
            max_retries=config.retries,
        )
        found = _places.setdefault(key, Place(relay, queue, public_url(root) or root))
    return found


async def close_idle() -> None:
    """Close the connections of endpoints that nobody asks at the moment. Engine loop only."""
    idle = [place.client for place in list(_places.values()) if place.queue.active == 0]
    await asyncio.gather(*(client.close() for client in idle))
