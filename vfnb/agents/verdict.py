"""How the agent stage ended, judged by what the server saw; an exit status alone is weak evidence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from vfnb import errors
from vfnb.agents.base import Finished
from vfnb.errors import ContextLengthError, HarnessError, HarnessExit, ModelError, VfnbError
from vfnb.interception import SessionClosed
from vfnb.runtimes import ProgramResult
from vfnb.utils import told

if TYPE_CHECKING:
    from vfnb.trace import ModelCall

__all__ = ["Verdict", "judge", "last_failure"]

STDERR_SHOWN = 2000  # characters of a failed program's output in the error


@dataclass(slots=True, frozen=True)
class Verdict:
    """The end of the agent stage: at most one of `stop` and `error`; neither means completed."""

    stop: str | None = None
    error: Exception | None = None
    answer: str | None = None


def last_failure(calls: Sequence[ModelCall]) -> Exception | None:
    """The error of the last call, if no later call succeeded; rebuilt as its class."""
    for call in reversed(calls):
        if call.error is None:
            return None
        if call.error.type == "CallCancelled":
            continue
        if call.error.boundary == "harness":  # the program's own request was wrong
            return HarnessError(call.error.message)
        kind = getattr(errors, call.error.type, ModelError)
        if not issubclass(kind, ModelError):
            kind = ModelError
        return kind(call.error.message, status=call.status)
    return None


def judge(
    result: object, raised: BaseException | None, calls: Sequence[ModelCall], *, harness: str
) -> Verdict:
    """Decide how the agent stage ended, when neither a stop nor its time limit ended it.

    Args:
        result: what the harness returned: an answer, a program's result, both in a `Finished`, or None.
        raised: what it raised, if it did.
        calls: the model calls that the server recorded, in order.
        harness: its name, for messages.
    """
    failure = last_failure(calls)
    if raised is not None:
        return _raised(raised, failure, harness)
    if isinstance(result, ProgramResult):
        result = Finished(result)
    if not isinstance(result, Finished):
        return _returned(result, failure)
    return _finished(result, failure, calls, harness)


def _returned(result: object, failure: Exception | None) -> Verdict:
    """The end of a function: one that swallowed its last call's failure and has no answer has failed."""
    if isinstance(result, str):
        return Verdict(answer=result)
    if isinstance(failure, ContextLengthError):
        return Verdict(stop="context_length")
    return Verdict(error=failure)


def _finished(
    finished: Finished, failure: Exception | None, calls: Sequence[ModelCall], harness: str
) -> Verdict:
    """The end of a program: first what the server saw, then its exit status, then its own word."""
    result = finished.result
    if isinstance(failure, ContextLengthError):
        return Verdict(stop="context_length")
    if failure is not None:
        return Verdict(error=failure)
    if result.returncode != 0:
        return Verdict(
            error=HarnessExit(f"harness {harness!r} {_exit(result)}{_cause(finished)}{_tail(result)}")
        )
    if finished.failure is not None:
        return Verdict(error=HarnessError(f"harness {harness!r} failed: {finished.failure}{_tail(result)}"))
    if not calls:
        return Verdict(
            error=HarnessError(
                f"harness {harness!r} ended without a model call; does it use OPENAI_BASE_URL and OPENAI_API_KEY?"
                + _tail(result)
            )
        )
    return Verdict(answer=finished.answer)


def _raised(raised: BaseException, failure: Exception | None, harness: str) -> Verdict:
    if isinstance(raised, ContextLengthError) or isinstance(failure, ContextLengthError):
        return Verdict(stop="context_length")
    if isinstance(raised, VfnbError) and not isinstance(raised, SessionClosed):
        return Verdict(error=raised)
    if failure is not None:  # a client library raised its own exception about our error reply
        failure.__cause__ = raised
        return Verdict(error=failure)
    error = HarnessError(f"harness {harness!r} raised {told.raised(raised)}")
    error.__cause__ = raised
    return Verdict(error=error)


def _exit(result: ProgramResult) -> str:
    code = result.returncode
    if result.timed_out or code is None:
        return f"did not end within {result.duration_s:.0f} s"
    return f"was ended by signal {-code}" if code < 0 else f"exited with status {code}"


def _cause(finished: Finished) -> str:
    """The program's own word, or the last line of several: tables show no more than one, and programs say there
    what was wrong."""
    if finished.failure is not None:
        return f": {finished.failure}"
    _, several, last = finished.result.stderr.strip().rpartition("\n")
    return f": {last.strip()[:STDERR_SHOWN]}" if several else ""


def _tail(result: ProgramResult) -> str:
    text = (result.stderr.strip() or result.stdout.strip())[-STDERR_SHOWN:]
    return f"; its last output:\n{text}" if text else "; it printed nothing"
