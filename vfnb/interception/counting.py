"""How many tokens a request would have: asked by programs that plan their context, no call of the model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from vfnb.clients.base import ModelRequest
from vfnb.dialects import Dialect, Splitter
from vfnb.interception.answers import JSON, failure, stopped
from vfnb.interception.exchange import Whole
from vfnb.interception.faults import bad_request
from vfnb.interception.turns import forwarded

if TYPE_CHECKING:
    from vfnb.interception.session import Session
    from vfnb.interception.sink import Sink

__all__ = ["count"]


async def count(
    session: Session, dialect: Dialect[Any, Any], body: bytes, headers: Mapping[str, str], sink: Sink
) -> None:
    """Answer on `sink`; the client counts, by its upstream, its engine or an estimate. Nothing is recorded."""
    if session.ended.is_set():
        await sink.reply(*stopped(dialect, session.stop_condition or "closed"))
        return
    try:
        request = _request(session, dialect, body, headers)
        counted = await session.client.count(request)
        if isinstance(counted, int):
            counted = dialect.count_body(counted)
        answer = Whole(200, JSON, counted)
    except Exception as error:
        answer = failure(dialect, bad_request(error))
    await sink.reply(*answer)


def _request(
    session: Session, dialect: Dialect[Any, Any], body: bytes, headers: Mapping[str, str]
) -> ModelRequest:
    split = Splitter(dialect).split(body)
    dialect.check(split)
    return ModelRequest(
        dialect=dialect,
        body=body,
        split=split,
        messages=lambda: dialect.read(split),
        tools=dialect.read_tools(split),
        model=dialect.model(split.fields),
        headers=forwarded(headers),
        deadline=session.deadline,
        rollout_id=session.trace.id,
    )
