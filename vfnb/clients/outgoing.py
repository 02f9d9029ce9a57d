"""The request as it goes upstream: the program's bytes with the run's model and settings spliced in."""

from __future__ import annotations

from typing import Any, NamedTuple

import msgspec

from vfnb.clients.base import ModelRequest
from vfnb.dialects import Splitter

__all__ = ["Outgoing", "outgoing"]


class Outgoing(NamedTuple):
    """A body to send, and what it says."""

    body: bytes
    model: str
    sampling: dict[str, Any]


def outgoing(request: ModelRequest, model: str, *, ask_usage: bool = False) -> Outgoing:
    """Apply the run's model (if any) and settings. The history's bytes stay as they are.

    Args:
        ask_usage: make a stream report usage even if the program did not ask.

    Raises:
        RequestError: if the body is not a JSON object.
    """
    dialect = request.dialect
    split = request.split or Splitter(dialect).split(request.body)
    changes = dialect.override(split.fields, request.sampling, model)
    if ask_usage:
        changes |= dialect.ask_usage(split.fields)
    if not changes:
        asked = dialect.sampling(split.fields) if request.asked is None else dict(request.asked)
        return Outgoing(dialect.send(request.body), model or request.model, asked)
    fields = dict(split.fields)
    for name, value in changes.items():
        if value is None:
            fields.pop(name, None)
        else:
            fields[name] = msgspec.Raw(value)
    body = dialect.send(split.assemble(changes))
    return Outgoing(body, model or request.model, dialect.sampling(fields))
