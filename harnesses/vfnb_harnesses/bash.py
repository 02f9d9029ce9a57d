"""A small coding agent: a shell and edit tools in the runtime, besides the tools of the task."""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from vfnb.agents import Harness, HarnessSession
from vfnb.errors import ConfigError, HarnessError
from vfnb.runtimes import ProgramResult, RuntimeConfig, runtime_class
from vfnb.tasks import Task
from vfnb.types import Messages
from vfnb_harnesses.launch import loop_request, run_loop
from vfnb_harnesses.loop import ToolLoop
from vfnb_harnesses.settings import LoopConfig, opening
from vfnb_harnesses.shell import SHELL_TOOLS, shell_tools

__all__ = ["BashConfig", "BashHarness"]


class BashConfig(LoopConfig):
    """Settings of the bash harness."""

    system_prompt: str = (
        "You work in a folder of a Linux machine with the tools bash, read, write and edit. "
        "Solve the task by yourself, check the result, then answer without calling a tool."
    )
    """Instructions of the harness, put before the task's own."""
    compact_at: int | None = Field(default=None, ge=1)
    """Prompt tokens of a call above which the conversation is replaced by the model's own summary; None does so
    only when the model's context is exceeded."""
    command_timeout: float = Field(default=300.0, gt=0)
    """Seconds that a command may take; the model can ask for less."""
    shell: str = "bash"
    """The program that runs commands, with `-c`."""
    as_program: bool = False
    """Run the whole loop as a program inside the runtime; else only the commands and files are there."""


class BashHarness(Harness[BashConfig]):
    """A tool loop with `bash`, `read`, `write` and `edit`. Long conversations are cut by a summary."""

    NAME: ClassVar[str] = "bash"
    TESTED: ClassVar[bool] = True
    DIALECTS: ClassVar[tuple[str, ...]] = ("chat",)
    IMAGES: ClassVar[bool] = True
    RUNTIMES: ClassVar[tuple[str, ...]] = ("subprocess",)
    SUPPORTS_MCP: ClassVar[bool] = True
    SUPPORTS_RESUME: ClassVar[bool] = True
    SUPPORTS_TOOL_INTERCEPTION: ClassVar[bool] = True

    def check(self, runtime: RuntimeConfig) -> None:
        """Any runtime that runs programs will do.

        Raises:
            ConfigError: this one does not.
        """
        if not runtime_class(runtime.type).RUNS_PROGRAMS:
            raise ConfigError(
                f"harness {self.name!r} runs commands, which runtime {runtime.type!r} cannot; "
                "use runtime='subprocess'"
            )

    def check_task(self, task: Task[Any, Any, Any]) -> None:
        """Refuse also what a program cannot ask about.

        Raises:
            ConfigError: the task has no prompt, or intercepts tool calls of a loop that is a program.
        """
        super().check_task(task)
        gates = [hook.spec.name for hook in task.hooks("intercept") if hook.spec.on == "tool"]
        if gates and self.config.as_program:
            raise ConfigError(
                f"{type(task).__name__}.{gates[0]} intercepts tool calls, which harness {self.name!r} does not ask "
                "about as a program; leave as_program=False"
            )

    async def run(self, session: HarnessSession, task: Task[Any, Any, Any]) -> ProgramResult | None:
        return await self._segment(session, task, [], opening(task, self.config.system_prompt))

    async def resume(
        self, session: HarnessSession, task: Task[Any, Any, Any], messages: Messages
    ) -> ProgramResult | None:
        if not session.conversation or not messages:
            raise HarnessError(
                "resume() needs a conversation that `run` has left, and a message to go on with"
            )
        return await self._segment(session, task, session.conversation, messages)

    async def _segment(
        self, session: HarnessSession, task: Task[Any, Any, Any], before: Messages, new: Messages
    ) -> ProgramResult | None:
        config = self.config
        first = opening(task, config.system_prompt)
        later = new if before else []
        compact_at = config.compact_at or 0
        if not config.as_program:
            local = shell_tools(
                session.runtime,
                shell=config.shell,
                seconds=config.command_timeout,
                limit=config.max_output,
            )
            loop = ToolLoop(session, config, local=local, kept=[*first, *later], compact_at=compact_at)
            await loop.run([*before, *new])
            return None
        own = {tool.name for tool in SHELL_TOOLS}
        request = loop_request(
            session,
            config,
            [*before, *new],
            tools=[*SHELL_TOOLS, *(tool for tool in session.tools if tool.name not in own)],
            keep=(len(first), len(later)),
            local={"shell": config.shell, "timeout": config.command_timeout},
            compact_at=compact_at,
        )
        return await run_loop(session, request)
