"""One exception tree, by the boundary at which a thing failed.

Every message says what was wrong, where, and how to mend it.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import ClassVar

__all__ = [
    "ConfigError",
    "ContextLengthError",
    "EmptySelection",
    "ExportRefused",
    "HarnessError",
    "HarnessExit",
    "HarnessTimeout",
    "HookError",
    "HookFailed",
    "ImportRefused",
    "InstallError",
    "MissingExtra",
    "MissingFile",
    "ModelError",
    "ReplayDiverged",
    "RunNotFinished",
    "RuntimeFault",
    "ScoringError",
    "StageTimeout",
    "StateConflict",
    "StoreError",
    "StoreLocked",
    "TasksetError",
    "TooLarge",
    "ToolError",
    "ToolServerError",
    "TraceError",
    "UpstreamConnection",
    "UpstreamCut",
    "UpstreamMalformed",
    "UpstreamRateLimited",
    "UpstreamRejected",
    "UpstreamServerError",
    "UpstreamStalled",
    "UpstreamTimeout",
    "VfnbError",
]


class VfnbError(Exception):
    """Any error of this library. `boundary` names the part of the system that failed."""

    boundary: ClassVar[str] = "vfnb"
    retryable: ClassVar[bool] = False


class ConfigError(VfnbError, ValueError):
    """A setting that cannot work: unknown key, wrong value, impossible pair."""

    boundary = "config"


class MissingExtra(VfnbError, ImportError):
    """An optional dependency is not installed; the message has the command."""

    boundary = "config"


class TasksetError(VfnbError):
    """A taskset that cannot be loaded or has no, duplicate or broken tasks."""

    boundary = "taskset"


class EmptySelection(TasksetError):
    """A selection that matches no task."""


class HookError(VfnbError, TypeError):
    """A hook whose signature cannot be called; raised when the class or function is defined."""

    boundary = "hook"


class HookFailed(VfnbError):
    """A stop or an intercept raised, or returned what it must not; the message names the hook."""

    boundary = "hook"


class ModelError(VfnbError):
    """The model endpoint did not give an answer.

    Attributes:
        status: HTTP status of the upstream, None if there was none.
        body: the upstream's error body, at most 64 kB.
    """

    boundary = "model"

    def __init__(self, message: str, *, status: int | None = None, body: bytes = b"") -> None:
        super().__init__(message)
        self.status = status
        self.body = body


class UpstreamConnection(ModelError):
    """No connection, or it broke before the first byte of the answer."""

    retryable = True


class UpstreamTimeout(ModelError):
    """No answer in the time allowed."""

    retryable = True


class UpstreamStalled(ModelError):
    """The rollout's time ran out while only a silent or retrying upstream was pending."""

    retryable = True


class UpstreamRateLimited(ModelError):
    """429. `retry_after` is in seconds, None if the upstream gave none."""

    retryable = True

    def __init__(
        self,
        message: str,
        *,
        status: int | None = 429,
        body: bytes = b"",
        retry_after: float | None = None,
    ) -> None:
        super().__init__(message, status=status, body=body)
        self.retry_after = retry_after


class UpstreamServerError(ModelError):
    """A 5xx of the upstream."""

    retryable = True


class UpstreamRejected(ModelError):
    """A 4xx of the upstream: the request is wrong and would be wrong again."""


class ContextLengthError(ModelError):
    """The prompt is longer than the model's context. A normal end of a rollout, not an accident."""


class UpstreamMalformed(ModelError):
    """The upstream's answer is not what its protocol says (truncated JSON, no choices)."""

    retryable = True


class UpstreamCut(ModelError):
    """A stream ended before its terminal event; what came is recorded as a partial call."""

    retryable = True


class ReplayDiverged(ModelError):
    """A replayed program asked for something that is not in the record; the message has the first difference."""


class RuntimeFault(VfnbError):
    """The box in which programs run failed: start, file access, process control."""

    boundary = "runtime"
    retryable = True


class MissingFile(RuntimeFault, FileNotFoundError):
    """A file that was to be read is not in the box."""

    retryable = False


class TooLarge(RuntimeFault):
    """Files of a box that are larger than allowed."""

    retryable = False


class HarnessError(VfnbError):
    """The agent program failed by itself."""

    boundary = "harness"


class InstallError(HarnessError):
    """An agent program could not be installed, or is another version than the one asked for."""


class HarnessExit(HarnessError):
    """The agent program ended with a non-zero status and no stop explains it."""


class HarnessTimeout(HarnessError):
    """A call into the agent program took longer than allowed."""


class StageTimeout(VfnbError):
    """A stage other than the agent's (boot, setup, finalize, scoring) took longer than its limit."""

    boundary = "lifecycle"


class ToolError(VfnbError):
    """A tool call failed in a way the model should read. Raise it in a tool; the message is shown as it is."""

    boundary = "tool"


class ToolServerError(ToolError):
    """A tool server did not start, did not start in time, or died. The rollout's error, not the model's."""

    retryable = True


class StateConflict(ToolError):
    """A tool in another process changed a field of the state that was changed here meanwhile."""


class ScoringError(VfnbError):
    """A reward, metric or judge raised, or returned something that is not a finite number."""

    boundary = "scoring"


class StoreError(VfnbError):
    """The run's folder cannot be read or written."""

    boundary = "store"


class StoreLocked(StoreError):
    """Another process writes this run; the message names it.

    Attributes:
        scored: what was computed and could not be stored, by trace id: the value of each new signal.
    """

    scored: Mapping[str, Mapping[str, float | None]] = MappingProxyType({})


class TraceError(VfnbError, ValueError):
    """A record that contradicts itself: token spans, mask or array lengths, an unreadable trace."""

    boundary = "trace"


class RunNotFinished(VfnbError):
    """An operation that needs the whole run was asked of a part of it."""

    boundary = "run"


class ExportRefused(VfnbError):
    """Traces that contradict themselves or that the format cannot carry, or nothing to write; no file was made.

    Attributes:
        report: a `vfnb.exchange.ExportReport` of what is wrong with which trace.
    """

    boundary = "export"

    def __init__(self, message: str, report: object = None) -> None:
        super().__init__(message)
        self.report = report


class ImportRefused(VfnbError):
    """A file or folder from which no run can be made.

    Attributes:
        report: a `vfnb.exchange.ImportReport` of what could not be read, if something was there.
    """

    boundary = "import"

    def __init__(self, message: str, report: object = None) -> None:
        super().__init__(message)
        self.report = report
