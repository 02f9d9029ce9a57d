"""A call whose server speaks another dialect than the program: there and back."""

from __future__ import annotations

import time
from dataclasses import replace
from typing import Any

from vfnb.clients.base import ModelRequest, Reply
from vfnb.clients.outgoing import Outgoing
from vfnb.dialects import Dialect, Splitter
from vfnb.dialects.translation import Translated, Translation

__all__ = ["Translator"]


class Translator:
    """One call on its way to an upstream of another dialect.

    Args:
        request: as the program made it.
        upstream: the dialect of the server.
        model: the run's model, the program's own if empty.

    Attributes:
        request: what goes to the server, in its dialect.
        outgoing: its body.

    Raises:
        RequestError: it says something that the server's dialect cannot.
    """

    def __init__(self, request: ModelRequest, upstream: Dialect[Any, Any], model: str) -> None:
        program = request.dialect
        split = request.split or Splitter(program).split(request.body)
        asked = program.sampling(split.fields)
        self._program = request
        self._usage = program.wants_usage(split.fields)
        self._translation = Translation(program, upstream, request.tools)
        name = model or request.model
        body = self._translation.body(
            request.messages(), asked, request.sampling, name, stream=request.stream
        )
        sent = upstream.sampling(Splitter(upstream).split(body).fields)
        self.dropped = [
            *self._translation.dropped,
            *self._translation.unsent({**asked, **request.sampling}, sent),
        ]
        self.outgoing = Outgoing(body, name, sent)
        self.request = replace(request, dialect=upstream, body=body, split=None, headers={})

    def back(self, reply: Reply) -> Reply:
        """The server's reply as one to the program."""
        reply.dropped = self.dropped
        reply.body = None
        if reply.response is not None:
            reply.response = self._translation.answer(reply.response)
        if reply.chunks is not None:
            program, translation = self._program, self._translation
            writer = program.dialect.writer(
                program.model, int(time.time()), usage=self._usage, identity=translation.identity
            )
            reply.reader = Translated(translation.upstream.reader(), writer, translation)
        return reply
