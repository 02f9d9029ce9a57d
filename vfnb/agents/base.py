"""The contract of an agent program: given a session and a task, talk to the model until done."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Generic

from typing_extensions import TypeVar

from vfnb.errors import ConfigError, HarnessError
from vfnb.tasks.hooks import check_spelling
from vfnb.utils.config import BaseConfig
from vfnb.utils.generics import type_argument
from vfnb.utils.source import code_hash

if TYPE_CHECKING:
    from vfnb.agents.session import HarnessSession
    from vfnb.interception import Marker
    from vfnb.runtimes import ProgramResult, RuntimeConfig
    from vfnb.tasks import Task
    from vfnb.types import Messages

__all__ = ["Finished", "Harness", "HarnessConfig"]


@dataclass(frozen=True)
class Finished:
    """What a harness knows of a program that has ended, more than its exit status.

    Attributes:
        result: exit status and output.
        answer: the final answer by the program's own word; None leaves the trace's last reply.
        failure: why the program says that it failed, whatever its exit status.
    """

    result: ProgramResult
    answer: str | None = None
    failure: str | None = None


class HarnessConfig(BaseConfig):
    """Settings that every agent program has."""

    id: str = ""
    """The harness's registered name; set by whoever loads it."""
    version: str | None = None
    """Version of the program to run; None takes the module's own pin."""


_METHODS = {
    "setup": ("session", "task"),
    "run": ("session", "task"),
    "resume": ("session", "task", "messages"),
    "check": ("runtime",),
    "check_task": ("task",),
}
ConfigT = TypeVar("ConfigT", bound=HarnessConfig, default=HarnessConfig)


class Harness(ABC, Generic[ConfigT]):
    """An agent program. Subclass it, or decorate an async function with `vf.harness`.

    `run` is awaited on the user loop. It may return the final answer as text, the result of the program that it
    ran, a `Finished`, or None; a program's verdict is then taken from what the server saw (see
    `vfnb.agents.verdict`).
    """

    NAME: ClassVar[str] = ""
    """Registered name; the class name if empty."""
    RUNTIMES: ClassVar[tuple[str, ...]] = ()
    """Types of runtime this harness works in, the default first; empty means any, in process first."""
    SUPPORTS_MCP: ClassVar[bool] = False
    """Whether it offers the tools of the task and its taskset to the model."""
    SUPPORTS_RESUME: ClassVar[bool] = False
    """Whether `run` leaves its conversation in `session.conversation` and `resume` goes on from it."""
    SUPPORTS_TOOL_INTERCEPTION: ClassVar[bool] = False
    """Whether it awaits `session.check_tool(call)` before it runs a tool, and sends that result in its place."""

    MARKERS: ClassVar[tuple[Marker, ...]] = ()
    """How its requests say what they are for; `x-vfnb-kind`, `x-vfnb-agent` and `x-vfnb-parent` always hold."""

    DIALECTS: ClassVar[tuple[str, ...]] = ()
    """Wire formats that it speaks to the model, the default first; empty if that is not its own choice."""
    IMAGES: ClassVar[bool] = False
    """Whether images of the prompt reach the model."""
    TESTED: ClassVar[bool] = False
    """Whether the tests of its package run it for real."""

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        check_spelling(cls, _METHODS)

    def __init__(self, config: ConfigT | None = None) -> None:
        self.config: ConfigT = config if config is not None else self.config_type()()

    @classmethod
    def config_type(cls) -> type[ConfigT]:
        """The config model of this class, from `Harness[Config]`."""
        return type_argument(cls, Harness, 0, default=HarnessConfig)  # type: ignore[no-any-return]

    @property
    def name(self) -> str:
        """The name shown in tables."""
        return self.NAME or type(self).__name__

    async def setup(self, session: HarnessSession, task: Task[Any, Any, Any]) -> None:
        """Prepare the program inside `session.runtime`. Nothing by default."""

    @abstractmethod
    async def run(
        self, session: HarnessSession, task: Task[Any, Any, Any]
    ) -> str | ProgramResult | Finished | None:
        """Solve the task. Every model call goes through the session."""

    async def resume(
        self, session: HarnessSession, task: Task[Any, Any, Any], messages: Messages
    ) -> str | ProgramResult | Finished | None:
        """Go on with the conversation after `run` or an earlier `resume` of the same session has ended.

        The history is `[*session.conversation, *messages]`, so that the trace stays one line. Returns as `run`.

        Args:
            messages: what the user says next, at least one message.

        Raises:
            HarnessError: this program cannot go on (`SUPPORTS_RESUME` is false).
        """
        raise HarnessError(
            f"harness {self.name!r} cannot go on with a conversation; use one with SUPPORTS_RESUME, e.g. 'null'"
        )

    def check(self, runtime: RuntimeConfig) -> None:
        """Refuse a pairing that cannot work, before any model call.

        Raises:
            ConfigError: the runtime's type is not one of `RUNTIMES`.
        """
        if self.RUNTIMES and runtime.type not in self.RUNTIMES:
            raise ConfigError(
                f"harness {self.name!r} does not run in runtime {runtime.type!r}; "
                f"use runtime={self.RUNTIMES[0]!r}"
            )

    def check_task(self, task: Task[Any, Any, Any]) -> None:
        """Refuse a task that this harness cannot start, before any model call.

        Raises:
            ConfigError: the task has no prompt.
        """
        if task.data.prompt is None:
            raise ConfigError(
                f"task {task.data.idx} ({task.data.name or task.key}) has no prompt and harness {self.name!r} "
                "opens the conversation with it; set TaskData.prompt"
            )

    def identity(self) -> dict[str, Any]:
        """What decides whether an old rollout may be reused: name, config and code."""
        return {
            "name": self.name,
            "config": self.config.model_dump(mode="json", exclude={"id"}),  # the name by which it was found
            "code": code_hash(type(self)),
        }

    @classmethod
    def described(cls) -> dict[str, Any]:
        """What `vf.harnesses()` says of it, by column. Subclasses that can do more say more."""
        settings = cls.config_type().model_fields
        return {
            "kind": "loop",
            "tested": cls.TESTED,
            "dialects": ", ".join(cls.DIALECTS) or "any",
            "runtimes": ", ".join(cls.RUNTIMES) or "any",
            "tools": cls.SUPPORTS_MCP,
            "resume": cls.SUPPORTS_RESUME,
            "system_prompt": "system_prompt" in settings,
            "images": cls.IMAGES,
            "skills": False,
            "disabled_tools": False,
            "max_turns": "harness" if "max_turns" in settings else None,
            "tool_interception": cls.SUPPORTS_TOOL_INTERCEPTION,
        }

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.name}>"
