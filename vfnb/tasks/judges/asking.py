"""One question to an endpoint: its turn, its deadline, its record."""

from __future__ import annotations

import asyncio
import time
from typing import TYPE_CHECKING

from vfnb.clients import ModelRequest, Reply
from vfnb.errors import ConfigError, ModelError, ScoringError, UpstreamTimeout
from vfnb.tasks.judges.texts import shortened
from vfnb.trace import JudgeCall, error_info
from vfnb.types import Messages

if TYPE_CHECKING:
    from vfnb.tasks.judges.places import Place
    from vfnb.trace import Trace

__all__ = ["ask"]

_KEPT = 8000  # characters of a prompt or a reply in a record


async def ask(
    place: Place, request: ModelRequest, messages: Messages, judge: str, timeout: float, trace: Trace | None
) -> tuple[Reply, JudgeCall]:
    """Ask, and record the call on the trace, failed or not. Engine loop only.

    Args:
        timeout: seconds from the call's turn to its answer, retries included.

    Raises:
        ScoringError: there is no answer; its cause is the client's error.
    """
    call = JudgeCall(judge=judge, model=request.model, endpoint=place.shown, prompt=_prompt(messages))
    permit = await place.queue.acquire()
    call.start = time.time()
    try:
        request.deadline = asyncio.get_running_loop().time() + timeout
        reply = await place.client.call(request)
        _note(call, reply, place)
        return reply, call
    except (ModelError, ConfigError) as error:
        call.error = error_info(error)
        limit = f" within {timeout:g} s" if isinstance(error, UpstreamTimeout) else ""
        raise ScoringError(
            f"judge {judge!r} got no answer from {request.model}{limit}: {type(error).__name__}: {error}"
        ) from error
    except asyncio.CancelledError as error:
        call.error = error_info(error)
        raise
    finally:
        permit.release()
        call.end = time.time()
        if trace is not None:
            trace.judge_calls.append(call)


def _note(call: JudgeCall, reply: Reply, place: Place) -> None:
    assert reply.response is not None, "clients answer plain calls with a canonical response"
    usage = reply.response.usage
    if usage is not None and usage.cost is None and place.client.price is not None:
        usage = usage.model_copy(update={"cost": place.client.price.cost(usage)})
    call.usage = usage
    call.served_model = reply.served_model
    call.failed_tries = len(reply.failed)
    call.reply = shortened(reply.response.text, _KEPT)


def _prompt(messages: Messages) -> str:
    if len(messages) == 1:
        return shortened(messages[0].text, _KEPT)
    return shortened("\n\n".join(f"{message.role}: {message.text}" for message in messages), _KEPT)
