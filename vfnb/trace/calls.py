"""Records of model calls and of errors: plain, small, one per exchange with a provider."""

from __future__ import annotations

import functools
import time
import traceback as tb
from typing import Any

import msgspec
from pydantic import BaseModel, ConfigDict

from vfnb.types import Usage
from vfnb.utils.plain import encodable

__all__ = [
    "ErrorInfo",
    "ModelCall",
    "Rewrite",
    "call_from",
    "call_schema",
    "calls_packed",
    "decode_call",
    "decode_calls",
    "decode_hook",
    "encode_call",
    "encode_hook",
    "error_info",
    "plain_call",
]

_TRACEBACK_LIMIT = 4096
_MESSAGE_LIMIT = 16384


class ErrorInfo(BaseModel):
    """What failed, where and when. `message` has no secrets and says how to mend it."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    type: str
    """Class name of the exception."""
    boundary: str = "vfnb"
    """The part of the system that failed: model, harness, runtime, scoring, ..."""
    message: str = ""
    traceback: str | None = None
    """At most 4 kB, the innermost frames."""
    status: int | None = None
    """HTTP status, if there was one."""
    at: float = 0.0
    """Unix seconds."""
    stage: str | None = None
    """Rollout stage: boot, setup, agent, finalize, scoring."""


class Rewrite(msgspec.Struct, kw_only=True, omit_defaults=True):
    """What one intercept changed in one message of a call. `vfnb.trace.rewrites` has both sides as messages."""

    hook: str
    """Name of the intercept."""
    stage: str
    """`request`, `response` or `tool`."""
    before: str
    """The message (or the tool call) as it came to the intercept, as JSON."""
    after: str | None = None
    """What it became, as JSON; None if that is the message of the graph itself."""
    back: int = 0
    """Of a request: how many messages before the prompt's last one it stands."""
    cut: int = 0
    """UTF-8 bytes that were over the limit for rewritten texts and are gone."""


class ModelCall(msgspec.Struct, kw_only=True, omit_defaults=True):
    """One exchange with a model. Times are Unix seconds; node numbers index `MessageGraph.nodes`."""

    index: int = -1
    """Position in the trace, given by the commit."""
    id: str = ""
    dialect: str = ""
    model: str = ""
    """The name the program asked for."""
    served_model: str = ""
    """The name that the provider answered with."""
    start: float = 0.0
    first_token: float | None = None
    end: float = 0.0
    prompt_node: int = -1
    """The last prompt message."""
    reply_node: int | None = None
    """The sampled message; None for a failed or cut call."""
    shown_node: int | None = None
    """What the harness got in place of the sampled message, if an intercept replaced it."""
    rewrites: list[Rewrite] = []
    """What intercepts changed, in the order in which they ran."""
    status: int = 200
    """HTTP status as the harness got it."""
    finish_reason: str | None = None
    usage: Usage | None = None
    sampling_sent: dict[str, Any] = {}
    """Settings that went to the provider."""
    sampling_asked: dict[str, Any] = {}
    """Settings that the program asked for."""
    tools: str | None = None
    """Digest (32 hex digits) of the tool list, a key of `MessageGraph.tools`."""
    stream: bool = False
    error: ErrorInfo | None = None
    partial_text: str | None = None
    """Text that came before a stream was cut."""
    digest: str = ""
    """Canonical digest of the request, for retries."""
    retry_of: int | None = None
    """Index of the call that this one repeats after a failure."""
    delivered: bool = True
    """False if the harness did not get the end of the answer."""
    dropped: list[str] = []
    """What of the request could not be carried to an upstream of another dialect (`docs/translation.md`)."""
    markers: dict[str, str] = {}
    """What the harness declared: `kind` (`compaction`, `subagent`, `side_call`), `agent` (its id)."""
    dropped_reasoning: bool = False
    """The prompt lacks reasoning that an earlier reply had: the harness did not send it back."""
    transport: str = "http"
    """`http` or `inprocess`."""
    replayed: bool = False
    """Answered from the record of another trace (`vf.Replay`): not sampled, not paid."""
    agent_note: str | None = None

    @property
    def ok(self) -> bool:
        """Whether the call has a complete reply."""
        return self.reply_node is not None

    @property
    def seconds(self) -> float:
        """Time from request to the end of the answer."""
        return max(0.0, self.end - self.start)


def error_info(error: BaseException, *, stage: str | None = None, at: float | None = None) -> ErrorInfo:
    """The record of an exception, with a traceback of at most 4 kB and a message of at most 16 kB."""
    text = "".join(tb.format_exception(error))
    try:
        message = str(error)
    except Exception as second:
        message = f"its message cannot be made: {type(second).__name__}"
    return ErrorInfo(
        type=type(error).__name__,
        boundary=getattr(error, "boundary", "user"),
        message=encodable(message)[:_MESSAGE_LIMIT],
        traceback=encodable(text[-_TRACEBACK_LIMIT:]),
        status=getattr(error, "status", None),
        at=time.time() if at is None else at,
        stage=stage,
    )


def encode_hook(value: Any) -> Any:
    """What msgspec writes for the parts of a call that are not its own structs."""
    if type(value) is Usage:  # every answered call has one
        return {
            name: entry
            for name, entry in value.__dict__.items()
            if entry or (entry is not None and name == "cost")
        }
    if isinstance(value, BaseModel):
        return value.model_dump(exclude_defaults=True)
    return str(value)


def decode_hook(kind: type, value: Any) -> Any:
    """The way back of `encode_hook`."""
    if kind is Usage:  # every answered call has one
        return _usage(value)
    if issubclass(kind, BaseModel):
        return kind.model_validate(value)
    raise TypeError(f"a call record cannot hold a {kind.__name__}")


def _schema_hook(kind: type) -> dict[str, Any]:
    if issubclass(kind, BaseModel):
        return kind.model_json_schema()
    raise TypeError(f"a call record cannot hold a {kind.__name__}")


_usage = Usage.__pydantic_validator__.validate_python
_encoder = msgspec.json.Encoder(enc_hook=encode_hook)


@functools.cache
def _decoder(kind: Any) -> msgspec.json.Decoder[Any]:
    return msgspec.json.Decoder(kind, dec_hook=decode_hook)


def encode_call(call: ModelCall) -> bytes:
    """A call as JSON; keys at their default are left out."""
    try:
        return _encoder.encode(call)
    except (UnicodeEncodeError, OverflowError):
        return _encoder.encode(plain_call(call))


def decode_call(raw: bytes) -> ModelCall:
    """A call from JSON. Keys of a newer writer are ignored.

    Raises:
        msgspec.ValidationError: a key has a value of the wrong type.
    """
    call: ModelCall = _decoder(ModelCall).decode(raw)
    return call


def decode_calls(raw: bytes) -> list[ModelCall]:
    """A JSON list of calls."""
    calls: list[ModelCall] = _decoder(list[ModelCall]).decode(raw)
    return calls


def plain_call(call: ModelCall) -> dict[str, Any]:
    """A call as plain dictionaries and lists, defaults left out; lone surrogates as escapes."""
    found: dict[str, Any] = _storable(msgspec.to_builtins(call, enc_hook=encode_hook))
    return found


def _storable(value: Any) -> Any:
    """JSON that msgspec writes: it refuses lone surrogates and integers of more than 64 bits."""
    kind = type(value)
    if kind is str:
        return encodable(value)
    if kind is int:
        return value if -(2**63) <= value < 2**63 else str(value)
    if kind is dict:
        return {encodable(key): _storable(entry) for key, entry in value.items()}
    return [_storable(entry) for entry in value] if kind is list else value


def call_from(plain: Any) -> ModelCall:
    """The call that `plain_call` wrote."""
    return msgspec.convert(plain, ModelCall, dec_hook=decode_hook)


def calls_packed(raw: bytes | msgspec.Raw) -> list[ModelCall]:
    """Calls from MessagePack."""
    calls: list[ModelCall] = _unpacker.decode(raw)
    return calls


_unpacker = msgspec.msgpack.Decoder(list[ModelCall], dec_hook=decode_hook)


def call_schema() -> dict[str, Any]:
    """JSON schema of a call."""
    _, found = msgspec.json.schema_components(
        [ModelCall], schema_hook=_schema_hook, ref_template="#/$defs/{name}"
    )
    schema: dict[str, Any] = found["ModelCall"]
    schema["properties"]["rewrites"]["items"] = found["Rewrite"]
    return schema
