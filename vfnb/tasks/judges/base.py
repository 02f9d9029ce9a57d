"""`Judge`: a model that is asked for a verdict, with its own endpoint, prompt and parser."""

from __future__ import annotations

import inspect
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Generic

import msgspec
from pydantic import BaseModel, TypeAdapter
from typing_extensions import TypeVar

from vfnb import loops
from vfnb.clients import ModelClient, ModelRequest, Reply
from vfnb.dialects import Chat
from vfnb.errors import ConfigError, ScoringError
from vfnb.tasks.judges import registry
from vfnb.tasks.judges.asking import ask
from vfnb.tasks.judges.config import JudgeConfig
from vfnb.tasks.judges.places import Place, place_of
from vfnb.tasks.judges.texts import render, shortened, without_thoughts
from vfnb.trace import JudgeCall, error_info
from vfnb.types import Messages, Usage, resolve_messages
from vfnb.utils.config import build
from vfnb.utils.generics import type_argument

if TYPE_CHECKING:
    from vfnb.trace import Trace

__all__ = ["Judge", "JudgeResponse", "JudgeScore"]

ParsedT = TypeVar("ParsedT", default=str)
ConfigT = TypeVar("ConfigT", bound=JudgeConfig, default=JudgeConfig)

_SAID = 300  # characters of a reply in an error


@dataclass
class JudgeResponse(Generic[ParsedT]):
    """What a judge said and what was read from it."""

    text: str
    """The reply's text."""
    parsed: ParsedT = None  # type: ignore[assignment]
    """What `parse` read; set after it."""
    usage: Usage | None = None
    model: str = ""
    """The name that the endpoint answered with."""
    finish_reason: str = "stop"
    raw: bytes = b""
    """The body of the answer, in the endpoint's own format."""


@dataclass(frozen=True)
class JudgeScore:
    """What a judge of a task gives when a number alone does not say it."""

    value: float | None
    """The reward; None records none."""
    metrics: Mapping[str, float | None] = field(default_factory=dict)
    """Further measurements by full name; the judge lists these names in `signals`."""
    unscored: str | None = None
    """Why there is nothing to score; it is kept as `trace.info["unscored"][name]`."""
    dropped: str | None = None
    """Why the rollout must not count, `Trace.dropped`."""


class Judge(Generic[ParsedT, ConfigT]):
    """A model that is asked for a verdict. Subclass it with a `prompt` and a `parse`, and await `evaluate`.

    To put it into `TaskConfig.judges`, give it a config class with an `id` of its own and a method
    `score(self, task, trace)` that returns a number or a `JudgeScore`; `vf.TaskJudge` has one.

    Args:
        config: settings, or a mapping of them; None takes the defaults.
        client: a model object such as `vf.Scripted(fn)` in place of the config's endpoint.

    Raises:
        ConfigError: a setting is wrong.
    """

    prompt: ClassVar[str | None] = None
    """Template that `build_messages` fills, as `str.format`; `config.prompt` replaces it."""
    schema: ClassVar[type[BaseModel] | None] = None
    """Ask for JSON of this model, and parse the reply as such."""

    def __init__(
        self, config: ConfigT | Mapping[str, Any] | None = None, *, client: ModelClient | None = None
    ) -> None:
        self.config: ConfigT = _checked(type(self), config)
        self._client = client
        self.folders: tuple[Path, ...] = ()
        """Where relative files are looked for, after the working folder."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        registry.register(cls)

    @classmethod
    def config_type(cls) -> type[ConfigT]:
        """The config class, from `Judge[Parsed, Config]`."""
        return type_argument(cls, Judge, 1, default=JudgeConfig)  # type: ignore[no-any-return]

    @property
    def name(self) -> str:
        """The name of its reward and in records."""
        config = self.config
        if config.name or re.fullmatch(r"[\w-]+", config.id):
            return config.name or config.id
        plain = type(self).__name__.removesuffix("Judge") or "judge"
        return re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", plain).lower()

    @property
    def label(self) -> str:
        """How messages name it."""
        return f"judge {self.name!r}"

    @property
    def template(self) -> str:
        """The prompt's template: the config's, its file's, or the class's.

        Raises:
            ConfigError: there is none, or the file cannot be read.
        """
        if self.config.prompt is not None:
            return self.config.prompt
        if self.config.prompt_file is not None:
            return self.read_file("prompt_file", self.config.prompt_file)
        if self.prompt is None:
            raise ConfigError(
                f"{self.label}: set `prompt` on {type(self).__name__}, or define build_messages"
            )
        return self.prompt

    def read_file(self, setting: str, path: str) -> str:
        """The text of a file that the config names: below the working folder, else beside the task's module.

        Raises:
            ConfigError: it is not there or cannot be read.
        """
        places = [folder / Path(path).expanduser() for folder in (Path.cwd(), *self.folders)]
        found = next((place for place in places if place.is_file()), None)
        if found is None:
            looked = ", ".join(dict.fromkeys(map(str, places)))
            raise ConfigError(f"{self.label}: {setting}={path!r}: there is no such file (looked at {looked})")
        try:
            return found.read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{self.label}: {setting}: {found} cannot be read: {error}") from error

    # What subclasses change

    def build_messages(self, **fields: Any) -> str | Messages:
        """The question: the template with its fields.

        Raises:
            ConfigError: the template takes a field that is not given.
        """
        return render(self.template, fields, self.label)

    def parse(self, response: JudgeResponse[ParsedT]) -> ParsedT:
        """The verdict in a reply: by `schema`, else the text. Raise if there is none."""
        text = without_thoughts(response.text)
        if self.schema is None:
            return text  # type: ignore[return-value]
        start, end = text.find("{"), text.rfind("}")
        return self.schema.model_validate_json(text[start : end + 1] or text)  # type: ignore[return-value]

    def signals(self) -> list[str]:
        """The names of the metrics that `score` gives beside its reward."""
        return []

    def check(self) -> None:
        """Refuse what cannot work, before any model call.

        Raises:
            ConfigError: no key, no prompt, a file is missing.
        """
        try:
            self._place().client.check()
        except ConfigError as error:
            raise ConfigError(f"{self.label}: {error}") from error
        if type(self).build_messages is Judge.build_messages:
            _ = self.template

    def identity(self) -> dict[str, Any]:
        """What decides whether old scores hold: endpoint, settings, prompt. No secrets."""
        settings = self.config.model_dump(
            mode="json", exclude={"timeout", "retries", "max_concurrency", "price"}
        )
        own = type(self).build_messages is not Judge.build_messages
        prompt = None if own and self.prompt is None else self.template
        return {"settings": settings, "endpoint": self._place().client.identity(), "prompt": prompt}

    # Asking

    async def evaluate(self, *, trace: Trace | None = None, **fields: Any) -> JudgeResponse[ParsedT]:
        """Ask once and read the verdict. Await it on any loop.

        Args:
            trace: the call is recorded on it (`trace.judge_calls`), never in its graph.
            fields: for the prompt's template.

        Raises:
            ConfigError: the prompt takes a field that is not given.
            ScoringError: no answer came, or no verdict could be read; it names the judge and what it said.
        """
        messages = resolve_messages(self.build_messages(**fields))
        return self._read(*await loops.engine().do(self._ask(messages, trace)))

    def evaluate_sync(self, *, trace: Trace | None = None, **fields: Any) -> JudgeResponse[ParsedT]:
        """`evaluate` for sync code such as a plain `def` reward; it blocks the calling thread."""
        messages = resolve_messages(self.build_messages(**fields))
        return self._read(*loops.engine().run(self._ask(messages, trace)))

    def _place(self) -> Place:
        return place_of(self.config, self._client)

    def _model(self) -> str:
        """The model's name as the endpoint knows it."""
        return self._place().client.name or self.config.model

    def _request(self, messages: Messages) -> ModelRequest:
        """The request of one question."""
        dialect = Chat()
        items = [msgspec.Raw(item) for item in dialect.encode(messages)]
        body: dict[str, Any] = {"model": self._model(), "messages": items}
        if self.schema is not None:
            shape = {"name": self.schema.__name__, "schema": self.schema.model_json_schema()}
            body["response_format"] = {"type": "json_schema", "json_schema": shape}
        return ModelRequest(
            dialect=dialect,
            body=msgspec.json.encode(body),
            messages=lambda: messages,
            model=self._model(),
            sampling=self.config.sampling.given() | {"extra_body": self.config.sampling.extra_body},
        )

    async def _ask(self, messages: Messages, trace: Trace | None) -> tuple[Reply, JudgeCall]:
        request = self._request(messages)
        return await ask(self._place(), request, messages, self.name, self.config.timeout, trace)

    def _read(self, reply: Reply, call: JudgeCall) -> JudgeResponse[ParsedT]:
        """The verdict of a reply, noted on the record of its call."""
        said = reply.response
        assert said is not None
        response: JudgeResponse[ParsedT] = JudgeResponse(
            text=said.text,
            usage=call.usage,
            model=call.served_model,
            finish_reason=said.finish_reason,
            raw=reply.body or b"",
        )
        try:
            response.parsed = self.parse(response)
        except Exception as error:
            call.error = error_info(error)
            cut = " (cut at its token limit)" if said.finish_reason == "length" else ""
            text = shortened(said.text, _SAID)
            raise ScoringError(
                f"{self.label} gave no verdict that can be read: {error}; {call.model} said{cut}: {text!r}"
            ) from error
        call.verdict = _plain(response.parsed)
        return response


def _plain(value: Any) -> Any:
    try:
        return TypeAdapter(Any).dump_python(value, mode="json")
    except ValueError:  # no JSON form
        return str(value)


def _checked(cls: type[Judge[Any, Any]], config: Any) -> Any:
    wanted = cls.config_type()
    if isinstance(config, JudgeConfig) and not isinstance(config, wanted):
        # A plainer config, or one made before its class was defined anew in a cell.
        config = {name: getattr(config, name) for name in config.model_fields_set}
    return build(wanted, config)


def plugged_problem(cls: type[Judge[Any, Any]]) -> str | None:
    """Why a class cannot stand in `TaskConfig.judges`, None if it can."""
    score = inspect.getattr_static(cls, "score", None)
    if score is None:
        return f"{cls.__name__} has no score(self, task, trace); define it, or derive it from vf.TaskJudge"
    return None
