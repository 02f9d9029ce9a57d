"""What a dialect is: one provider's wire format, to and from the canonical types.

Writing `routes`, `parse_request` and `parse_response` is enough to record and relay a new format; the
other methods make it faster (raw slices), let vfnb answer in it (frames) and let it stream.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar
from uuid import uuid4

import msgspec

from vfnb.dialects import registry
from vfnb.dialects.faults import RequestError, json_error, looks_like_overflow
from vfnb.dialects.lenient import dumps, loads
from vfnb.dialects.pieces import StreamWriter, WholeWriter
from vfnb.dialects.reader import LastEventReader, StreamReader
from vfnb.errors import ConfigError
from vfnb.types import HostedResult, Messages, Response, Tool

if TYPE_CHECKING:
    from vfnb.dialects.parts import Split

__all__ = ["Changes", "Dialect", "Raws", "ReqT", "RespT", "load"]

ReqT = TypeVar("ReqT")
RespT = TypeVar("RespT")
Raws = Mapping[str, msgspec.Raw]
"""The top-level keys of a request without its history, each as raw JSON."""
Changes = dict[str, bytes | None]
"""Top-level keys to set to this JSON, or to remove (None)."""


class Dialect(ABC, Generic[ReqT, RespT]):
    """A wire format. A subclass with `routes` registers itself; a later one of the same name replaces it.

    Dialects hold no state: one instance serves all sessions.
    """

    name: ClassVar[str] = ""
    """How traces name it; the class's name in lower case if not given."""
    routes: ClassVar[tuple[str, ...]] = ()
    """POST paths, e.g. `("/v1/chat/completions",)`; `{x}` is any one segment. The first is used upstream.
    A query of a route (`?alt=sse`) must be in that of the request."""
    history: ClassVar[str | None] = None
    """Key of the list of messages; None reads every request whole with `parse_request`."""
    head_keys: ClassVar[tuple[str, ...]] = ()
    """Top-level keys that `head` turns into messages."""
    stop_status: ClassVar[int] = 400
    """Status that makes clients of this dialect give up after one request."""
    stop_kind: ClassVar[str] = "invalid_request_error"
    """Error type that goes with `stop_status`."""
    stop_code: ClassVar[str | None] = None
    """Error code that goes with `stop_status`."""
    id_prefix: ClassVar[str] = ""
    """How the ids of replies begin."""
    base_url_var: ClassVar[str] = "OPENAI_BASE_URL"
    """Environment variable with the root of an upstream, for `vf.Relay(dialect=...)` without `base_url=`."""
    api_key_var: ClassVar[str] = "OPENAI_API_KEY"
    """Environment variable with an upstream's key."""
    models_path: ClassVar[str] = "/v1/models"
    """GET path of the list of models; `/ID` after it is one of them."""
    carries: ClassVar[frozenset[str]] = frozenset()
    """What `request` can write besides texts, calls and functions: `image`, `audio`, `file`, `file_url`,
    `result_media` (these in the result of a tool), `reasoning` (its text, of earlier answers)."""
    count_path: ClassVar[str] = ""
    """POST path that counts the tokens of a request; `""` if the dialect has none."""
    headers: ClassVar[Mapping[str, str]] = {}
    """What an upstream wants to be told with each request, unless the program or the user tells it."""
    client_header: ClassVar[str] = ""
    """Header, in lower case, that only programs of this dialect send: it tells them on paths that many share."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        if "name" not in cls.__dict__:
            cls.name = cls.__name__.lower()
        if "routes" in cls.__dict__:
            registry.register(cls)
        if "decode" in cls.__dict__ and "decoded" not in cls.__dict__:
            cls.decoded = Dialect.decoded  # type: ignore[method-assign]
        if "closes" in cls.__dict__ and "closed" not in cls.__dict__:
            cls.closed = Dialect.closed  # type: ignore[method-assign]

    # wire -> canonical

    def receive(self, body: bytes, path: str) -> bytes:
        """The request in the form that all other methods know, with what its path and query say folded in.

        For formats whose path names the model or asks for a stream; `send` gives the body back.
        """
        return body

    def send(self, body: bytes) -> bytes:
        """The body of a request as it goes upstream: without what `receive` added."""
        return body

    @abstractmethod
    def parse_request(self, body: ReqT) -> tuple[Messages, list[Tool] | None]:
        """Messages and tools of a request body (a decoded JSON object)."""

    @abstractmethod
    def parse_response(self, resp: RespT) -> Response:
        """The canonical answer of a non-streaming reply (a decoded JSON object)."""

    def decode(self, item: msgspec.Raw | bytes) -> Messages:
        """The canonical messages of one raw item of the history, usually one."""
        raise ConfigError(f"dialect {self.name!r} sets history= but does not define decode(item)")

    def decoded(self, item: msgspec.Raw | bytes, value: Any) -> Messages:
        """The same as `decode`; `value` is the item as a JSON value, for those who need not read it again."""
        return self.decode(item)

    def head(self, fields: Raws) -> Messages:
        """Messages that stand outside the history, e.g. instructions. They come first."""
        return []

    def continues(self, fields: Raws) -> str:
        """The id of the reply that the request goes on from; `""` if it brings its whole history."""
        return ""

    def join(self, messages: Messages) -> Messages:
        """Group messages that the wire spreads over several items; user and tool messages stay apart."""
        return messages

    def closes(self, item: msgspec.Raw) -> bool:
        """Whether the item ends a message, so that no later item can be joined to it."""
        return True

    def closed(self, item: msgspec.Raw, value: Any) -> bool:
        """The same as `closes`; `value` is the item as a JSON value."""
        return self.closes(item)

    def tools(self, fields: Raws) -> list[Tool]:
        """The tools that a request offers."""
        body = {key: load(raw) for key, raw in fields.items()}
        return self.parse_request(body)[1] or []  # type: ignore[arg-type]

    def read(self, split: Split) -> Messages:
        """The canonical messages of a request after its known part.

        Raises:
            RequestError: if the request is not what the dialect says.
        """
        if self.history is None:
            body = load(split.body)
            return _guard(self, lambda: self.parse_request(body)[0])
        messages = [] if split.n_known else list(self.head(split.fields))
        for item in split.items:
            messages += self.decode(item)
        return self.join(messages)

    def read_tools(self, split: Split) -> list[Tool]:
        """The tools of a request."""
        if self.history is None:
            body = load(split.body)
            return _guard(self, lambda: self.parse_request(body)[1] or [])
        return self.tools(split.fields)

    def read_response(self, body: bytes) -> Response:
        """The canonical answer of a raw non-streaming reply.

        Raises:
            ValueError: if it is not JSON or not a reply of this dialect.
        """
        try:
            data = loads(body)
        except ValueError as error:
            raise ValueError(f"the reply is not JSON: {error}") from error
        if not isinstance(data, dict):
            raise ValueError(f"the reply is a JSON {type(data).__name__}, not an object")
        try:
            return self.parse_response(data)  # type: ignore[arg-type]
        except (KeyError, IndexError, TypeError, AttributeError) as error:
            raise ValueError(f"not a {self.name} reply: {type(error).__name__} {error}") from error

    def check(self, split: Split) -> None:
        """Refuse what this dialect cannot record.

        Raises:
            RequestError: with the status and text that the program gets.
        """

    def model(self, fields: Raws) -> str:
        """The model that the program asked for, `""` if it did not say."""
        value = load(fields["model"]) if "model" in fields else ""
        return value if isinstance(value, str) else ""

    def streams(self, fields: Raws) -> bool:
        """Whether the program asked for a stream."""
        return bytes(fields["stream"]) == b"true" if "stream" in fields else False

    def sampling(self, fields: Raws) -> dict[str, Any]:
        """The sampling settings that the program asked for, under canonical names."""
        return {}

    # canonical -> wire

    def override(self, fields: Raws, sampling: Mapping[str, Any], model: str) -> Changes:
        """The top-level changes that put the run's model and settings into a request."""
        changes: Changes = {}
        if model and model != self.model(fields):
            changes["model"] = dumps(model)
        for key, value in sampling.items():
            if key == "extra_body":
                changes |= {name: dumps(entry) for name, entry in value.items()}
            elif value is not None:
                changes[key] = dumps(value)
        return changes

    def request(
        self,
        messages: Messages,
        tools: list[Tool],
        model: str,
        sampling: Mapping[str, Any],
        *,
        stream: bool,
    ) -> bytes:
        """A whole request body in this dialect, for calls that come in another one.

        Args:
            messages: the whole prompt; provider state of other dialects has been taken out.
            tools: tools to offer, `[]` for none.
            model: the upstream's name of the model.
            sampling: settings under canonical names: the fields of `vf.SamplingConfig` (`max_tokens`,
                `temperature`, `top_p`, `top_k`, `stop` (a list), `seed`, `reasoning_effort`, ...), `tool_choice`
                (`"auto"`, `"none"`, `"required"` or `{"name": tool}`), `parallel_tool_calls` and
                `response_format` (as in Chat). `extra_body` holds keys to add as they are. What the dialect
                has no place for is left out.
            stream: ask for an event stream, with usage.
        """
        raise ConfigError(
            f"dialect {self.name!r} cannot write requests, so calls in other dialects cannot be translated to it: "
            "define request(messages, tools, model, sampling, *, stream), or use vf.Relay without dialect="
        )

    def encode(self, messages: Messages) -> list[bytes]:
        """The history items of messages, as JSON."""
        raise ConfigError(f"dialect {self.name!r} cannot write messages: define encode(messages)")

    def rewrite(self, item: msgspec.Raw | bytes, messages: Messages) -> bytes:
        """A history item of user or tool messages, with these in place of its own, as JSON."""
        items = self.encode(messages)
        if len(items) != 1:
            raise ConfigError(f"dialect {self.name!r} cannot rewrite an item: define rewrite(item, messages)")
        return items[0]

    def hosted_results(self, response: Response) -> list[HostedResult]:
        """What the provider's own tools put into an answer."""
        return []

    def replace_hosted(self, response: Response, results: list[HostedResult]) -> Response:
        """An answer with other texts in its hosted results; none of the signed ones differs."""
        raise ConfigError(
            f"dialect {self.name!r} cannot replace hosted results: define replace_hosted(response, results)"
        )

    def new_id(self) -> str:
        """The id of a reply that has none yet."""
        return f"{self.id_prefix}{uuid4().hex}"

    def frame(self, response: Response, model: str, created: int = 0) -> bytes:
        """A non-streaming reply body. `created` is in unix seconds."""
        raise ConfigError(
            f"dialect {self.name!r} cannot write replies: define frame(response, model, created)"
        )

    def frame_stream(
        self, response: Response, model: str, created: int = 0, *, usage: bool = True, size: int = 16
    ) -> list[bytes]:
        """The complete event sequence of a streamed reply; text comes in pieces of `size` characters.

        `usage` is whether the program asked for usage. The last element is the terminal event.
        """
        raise ConfigError(f"dialect {self.name!r} cannot write streams: define frame_stream(response, model)")

    def answer(self, response: Response, fields: Raws, created: int = 0) -> bytes:
        """A non-streaming reply to a request with these keys; some formats repeat parts of the request."""
        return self.frame(response, self.model(fields), created)

    def answer_stream(
        self, response: Response, fields: Raws, created: int = 0, *, size: int = 16
    ) -> list[bytes]:
        """The same as the complete event sequence of a streamed reply."""
        usage = self.wants_usage(fields)
        return self.frame_stream(response, self.model(fields), created, usage=usage, size=size)

    def writer(self, model: str, created: int, *, usage: bool = True, identity: str = "") -> StreamWriter:
        """Writes one streamed reply, piece by piece as a reader of another dialect tells them.

        Without a writer of its own a dialect's programs get translated streams in one piece, at the end.

        Args:
            identity: id of the reply.
        """
        return WholeWriter(self, model, created, usage)

    def wants_usage(self, fields: Raws) -> bool:
        """Whether a streamed reply should report usage."""
        return True

    # streams, errors, upkeep

    def ask_usage(self, fields: Raws) -> Changes:
        """The changes that make a streamed reply report usage; none if it does anyway."""
        return {}

    def reader(self, *, usage: bool = True) -> StreamReader:
        """A fresh reader of one streamed reply.

        Args:
            usage: whether the program asked for usage. If not, it is read but not passed on.
        """
        return LastEventReader(self)

    def error_body(
        self, status: int, message: str, kind: str | None = None, code: str | None = None
    ) -> bytes:
        """The body of a refused or failed call."""
        return json_error(status, message, kind, code)

    def stream_error(
        self, status: int, message: str, kind: str | None = None, code: str | None = None
    ) -> bytes:
        """An error as the last event of a stream whose headers are out."""
        return b"data: " + self.error_body(status, message, kind, code) + b"\n\n"

    def keepalive(self) -> bytes:
        """What keeps a waiting stream open."""
        return b": keepalive\n\n"

    def stop_body(self, reason: str) -> bytes:
        """The body that goes with `stop_status` when a rollout has been stopped."""
        return self.error_body(
            self.stop_status, f"The rollout has been stopped: {reason}.", self.stop_kind, self.stop_code
        )

    def overflow_error(self, message: str = "") -> tuple[int, bytes]:
        """Status and body that tell the program that its prompt is too long."""
        text = message or "This model's maximum context length has been exceeded. Please reduce the prompt."
        return 400, self.error_body(400, text, "invalid_request_error", "context_length_exceeded")

    def recognise_overflow(self, status: int, body: bytes) -> bool:
        """Whether an upstream's refusal means that the prompt is too long."""
        return looks_like_overflow(status, body)

    def models_body(self, models: list[str], one: bool = False) -> bytes:
        """The reply of the model list, or of its first entry."""
        entries = [{"id": name, "object": "model", "created": 0, "owned_by": "vfnb"} for name in models]
        return msgspec.json.encode(entries[0] if one else {"object": "list", "data": entries})

    def count_body(self, count: int) -> bytes:
        """The reply of `count_path`."""
        return msgspec.json.encode({"input_tokens": count})

    def missing(self, path: str) -> str:
        """Why nothing answers at a path that the provider has; `""` for a path that it has not."""
        return ""

    def path(self, model: str, stream: bool) -> str:
        """The path that an upstream serves this dialect under."""
        return self.routes[0].replace("{model}", model)

    def auth(self, key: str) -> dict[str, str]:
        """The headers that carry a provider key."""
        return {"Authorization": f"Bearer {key}"}


def load(raw: msgspec.Raw | bytes) -> Any:
    """A JSON value of a request.

    Raises:
        RequestError: 400 if it is not JSON.
    """
    try:
        return loads(raw)
    except ValueError as error:
        raise RequestError(f"The request is not valid JSON: {error}.") from error


T = TypeVar("T")


def _guard(dialect: Dialect[Any, Any], work: Callable[[], T]) -> T:
    try:
        return work()
    except (KeyError, IndexError, TypeError, AttributeError, ValueError) as error:
        text = f"dialect {dialect.name!r} could not read the request: {type(error).__name__} {error}"
        raise RequestError(text) from error
