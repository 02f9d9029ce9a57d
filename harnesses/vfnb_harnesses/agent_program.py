"""The base of harnesses that install an agent program, run it headless in a box of its own, and judge how it ended.

A module of one program gives a recipe (what to install), a command (how to start it), and a reading of its output;
all the rest is here.
"""

from __future__ import annotations

import time
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, Generic, Literal

from pydantic import Field
from typing_extensions import TypeVar

from vfnb.agents import Finished, Harness, HarnessConfig, HarnessSession
from vfnb.errors import ConfigError, HarnessError, InstallError, VfnbError
from vfnb.installs import Installed, Recipe, ensure, find
from vfnb.loops import on_worker
from vfnb.runtimes import ProgramResult, PublicEnv, RuntimeConfig
from vfnb.tasks import Task
from vfnb.types import Messages
from vfnb_harnesses.own_tools import check_disabled
from vfnb_harnesses.program_box import box_environment, check_argv, missing_programs, write_files
from vfnb_harnesses.prompting import Prompt, check_prompt, opening_prompt, prompt_of
from vfnb_harnesses.skills import check_skills, skill_files, skills_digest

__all__ = ["AgentProgram", "AgentProgramConfig", "Command", "Reading"]

RETRY_S = 60.0  # a failed installation stands for so long: else each rollout of a run would wait for it anew


class AgentProgramConfig(HarnessConfig):
    """Settings that every installed program has."""

    system_prompt: str = ""
    """Instructions put before the task's own, in the way that the program has for them."""
    dialect: str = ""
    """Wire format that it speaks to the model, one of the harness's DIALECTS; empty takes the first."""
    max_turns: int | None = Field(default=None, ge=1)
    """Model calls of one segment (`run`, or one `resume`), then the stop `max_turns`. None leaves it to the run's
    limits."""
    skills: list[str] = []
    """Folders with a SKILL.md each, given to the program as its skills."""
    disabled_tools: list[str] = []
    """The program's own tools that it must not use, by the program's names."""
    env: PublicEnv = {}
    """Further environment variables of the program. They are saved with the run: what looks like a secret is
    refused."""
    args: list[str] = []
    """Further arguments of the command. They are saved with the run: no secrets here."""


ConfigT = TypeVar("ConfigT", bound=AgentProgramConfig, default=AgentProgramConfig)


@dataclass(frozen=True)
class Command:
    """How a program is started once.

    Attributes:
        argv: the command; its first item is found on the PATH of the installation.
        env: its variables, on top of the box's.
        files: written before, by path: relative to the working folder, or `~/...` in the box's HOME.
        stdin: what it reads from standard input; None gives it nothing.
    """

    argv: list[str]
    env: Mapping[str, str] = field(default_factory=dict)
    files: Mapping[str, bytes | str] = field(default_factory=dict)
    stdin: bytes | str | None = None


@dataclass(frozen=True)
class Reading:
    """What a program's own output says.

    Attributes:
        answer: its final answer, None if it cannot be told; the last reply of the trace counts then.
        failure: why it failed, for programs that exit 0 then; None if it did not.
        stop: name of a bound that the program itself has kept, such as `max_turns`.
        session_id: the program's own name of the conversation, by which `resume` goes on.
    """

    answer: str | None = None
    failure: str | None = None
    stop: str | None = None
    session_id: str | None = None


class AgentProgram(Harness[ConfigT], Generic[ConfigT]):
    """Subclass with `VERSION`, `recipe` and `command`, and what else differs from the defaults.

    With `IMAGES` it gets the images of a prompt as files.
    """

    RUNTIMES: ClassVar[tuple[str, ...]] = ("subprocess",)
    VERSION: ClassVar[str] = ""
    """The version that is installed unless the config names another one."""
    DIALECTS: ClassVar[tuple[str, ...]] = ("chat",)
    REWRITES: ClassVar[str] = ""
    """What it rewrites in its own history, in one line; empty for nothing."""
    TOOL_NAME: ClassVar[str] = "mcp__{server}__{tool}"
    """How it names a tool of an MCP server to the model."""
    NEEDS: ClassVar[tuple[str, ...]] = ()
    """Programs that must be on this machine's PATH, such as `tmux`."""
    SYSTEM_PROMPT: ClassVar[bool] = False
    """Whether it takes a system prompt; if not, that text is put in front of the prompt."""
    SKILLS: ClassVar[bool] = False
    """Whether it reads skill folders."""
    DISABLE_TOOLS: ClassVar[bool] = False
    """Whether its own tools can be switched off one by one."""
    OWN_TOOLS: ClassVar[frozenset[str]] = frozenset()
    """Its own tools in the version `VERSION`: what `disabled_tools` may name. Empty: it is not checked here."""
    MAX_TURNS: ClassVar[Literal["program", "server"]] = "server"
    """Who counts turns: the program by a flag of its command, or our server."""

    _failed: tuple[float, InstallError] | None = None  # when, and why

    # what a module gives

    @abstractmethod
    def recipe(self) -> Recipe:
        """What to install, in `self.version`."""

    @abstractmethod
    def command(
        self, session: HarnessSession, task: Task[Any, Any, Any], prompt: Prompt, *, resume: bool
    ) -> Command:
        """How to start the program on a prompt.

        Args:
            prompt: `text`, `system` (empty unless `SYSTEM_PROMPT`) and `images` (paths, none unless `IMAGES`).
            resume: go on with the conversation `session.memory["session_id"]`.
        """

    async def read(self, session: HarnessSession, result: ProgramResult) -> Reading:
        """Look at what the program has printed and written. Nothing by default."""
        return Reading()

    # what it may use

    @property
    def version(self) -> str:
        """The version to install."""
        return self.config.version or self.VERSION

    @property
    def dialect(self) -> str:
        """The wire format to speak."""
        return self.config.dialect or self.DIALECTS[0]

    def installed(self, session: HarnessSession) -> Installed:
        """The installation of this rollout, from `setup` on.

        Raises:
            HarnessError: `setup` did not run, since another harness calls this one.
        """
        found = session.memory.get("installed")
        if not isinstance(found, Installed):
            raise HarnessError(
                f"{self.name!r} was not set up for this rollout: give it, or a subclass of it, as the harness of "
                "the run instead of calling it from a function"
            )
        return found

    def skill_files(self, folder: str) -> dict[str, bytes]:
        """All files of the configured skills, for `Command.files`, under a folder such as `~/.claude/skills`."""
        return skill_files(self.config.skills, folder)

    def wire_name(self, server: str, tool: str) -> str:
        """How the model sees a tool of a server."""
        return self.TOOL_NAME.format(server=server, tool=tool)

    # the harness

    def check(self, runtime: RuntimeConfig) -> None:
        """Refuse settings that this program cannot honour, before any model call.

        Raises:
            ConfigError: the runtime, a skill folder, or a setting that it has no way for.
        """
        super().check(runtime)
        config = self.config
        if config.skills and not self.SKILLS:
            raise ConfigError(f"harness {self.name!r} reads no skills; leave harness.skills empty")
        if config.disabled_tools and not self.DISABLE_TOOLS:
            raise ConfigError(
                f"harness {self.name!r} cannot switch its own tools off; leave harness.disabled_tools empty"
            )
        if self.version == self.VERSION:
            check_disabled(
                f"{self.name} {self.version}", config.disabled_tools, self.OWN_TOOLS, self.TOOL_NAME
            )
        if self.dialect not in self.DIALECTS:
            raise ConfigError(
                f"harness {self.name!r} does not speak the dialect {self.dialect!r}; harness.dialect is one of "
                + ", ".join(self.DIALECTS)
            )
        self._recipe()
        check_skills(config.skills)
        missing = missing_programs(self.NEEDS)
        if missing:
            raise ConfigError(
                f"harness {self.name!r} needs {', '.join(missing)} on this machine's PATH; install it first"
            )

    def check_task(self, task: Task[Any, Any, Any]) -> None:
        """Refuse a prompt that this program cannot take.

        Raises:
            ConfigError: there is none, or something in it would be lost.
        """
        super().check_task(task)
        check_prompt(task.data, images=self.IMAGES, harness=self.name)

    async def setup(self, session: HarnessSession, task: Task[Any, Any, Any]) -> None:
        """Install the program if this machine does not have it yet; rollouts at the same time share the work.

        Raises:
            InstallError: it cannot be had.
        """
        installed = await self._install(session)
        session.memory["installed"] = installed
        names = {self.wire_name(*served): name for name, served in session.served_tools.items()}
        session.trace.info["program"] = {
            "name": installed.name,
            "version": installed.version,
            "printed": installed.printed,
            **({"tools": names} if names else {}),
        }

    def _recipe(self) -> Recipe:
        try:
            recipe = self.recipe()
        except VfnbError:
            raise
        except Exception as error:
            raise ConfigError(
                f"harness {self.name!r}: recipe() raised {error!r}; it says what to install"
            ) from error
        if not isinstance(recipe, Recipe):
            raise ConfigError(
                f"harness {self.name!r}: recipe() gave {type(recipe).__name__}; return what to install, such as "
                "Npm('package', self.version, program='name')"
            )
        return recipe

    async def _install(self, session: HarnessSession) -> Installed:
        if self._failed is not None and time.monotonic() - self._failed[0] < RETRY_S:
            raise self._failed[1]
        try:
            return await ensure(self._recipe(), session.log)
        except InstallError as error:
            self._failed = (time.monotonic(), error)
            raise

    async def run(self, session: HarnessSession, task: Task[Any, Any, Any]) -> Finished:
        prompt = await opening_prompt(session, task, self.config.system_prompt, apart=self.SYSTEM_PROMPT)
        return await self._segment(session, task, prompt, resume=False)

    async def resume(
        self, session: HarnessSession, task: Task[Any, Any, Any], messages: Messages
    ) -> Finished | str | ProgramResult | None:
        if not self.SUPPORTS_RESUME:
            return await super().resume(session, task, messages)
        if not session.conversation or not messages:
            raise HarnessError(
                "resume() needs a conversation that `run` has left, and a message to go on with"
            )
        prompt = await prompt_of(session, messages, images=self.IMAGES)
        return await self._segment(session, task, prompt, resume=True)

    async def _segment(
        self, session: HarnessSession, task: Task[Any, Any, Any], prompt: Prompt, *, resume: bool
    ) -> Finished:
        config, box, installed = self.config, session.runtime, self.installed(session)
        if session.tools:
            await on_worker(lambda: session.mcp_servers)  # its first look starts servers and blocks
        command = self.command(session, task, prompt, resume=resume)
        argv = await write_files(box, command.argv, command.files, command.stdin)
        check_argv(argv, self.name)
        if config.max_turns is not None and self.MAX_TURNS == "server":
            await session.allow_turns(config.max_turns)
        env = box_environment(box, installed) | dict(command.env) | config.env
        result = await box.run(argv, env)
        reading = await self.read(session, result)
        if reading.session_id is not None:
            session.memory["session_id"] = reading.session_id
        if reading.stop is not None:
            session.stop(reading.stop)
        session.conversation = list(session.trace.messages)
        return Finished(result, answer=reading.answer, failure=reading.failure)

    @classmethod
    def described(cls) -> dict[str, Any]:
        """What `vf.harnesses()` says of it, with what is installed on this machine."""
        there = find(cls().recipe())
        return super().described() | {
            "kind": "program",
            "version": cls.VERSION,
            "installed": None if there is None else there.version,
            "tool_name": cls.TOOL_NAME if cls.SUPPORTS_MCP else None,
            "system_prompt": cls.SYSTEM_PROMPT,
            "skills": cls.SKILLS,
            "disabled_tools": cls.DISABLE_TOOLS,
            "max_turns": cls.MAX_TURNS,
            "rewrites": cls.REWRITES,
        }

    def identity(self) -> dict[str, Any]:
        """What decides about reuse: also the pinned version, and what the skill folders hold."""
        found = super().identity()
        return found | {"version": self.version, "skills": skills_digest(self.config.skills)}
