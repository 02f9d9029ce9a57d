"""Agent libraries as programs: a small driver of ours runs the library's loop in the library's own environment."""

from __future__ import annotations

import io
import json
import zipfile
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field
from typing_extensions import TypeVar

from vfnb.agents import HarnessSession
from vfnb.errors import ConfigError, MissingFile
from vfnb.runtimes import ProgramResult, RuntimeConfig
from vfnb.tasks import Task
from vfnb.utils.ids import digest
from vfnb_harnesses.agent_program import AgentProgram, AgentProgramConfig, Command, Reading
from vfnb_harnesses.program_box import box_home
from vfnb_harnesses.prompting import Prompt
from vfnb_harnesses.shell import SHELL_TOOLS

__all__ = ["DrivenConfig", "DrivenProgram", "driver_archive"]

HERE = Path(__file__).parent
FOLDER = "driver"  # in the box's HOME
START = "import runpy; runpy.run_module('vfnb_harnesses.drivers.{name}', run_name='__main__')\n"


class DrivenConfig(AgentProgramConfig):
    """Settings of a library that a driver runs."""

    max_output: int = Field(default=30_000, ge=100)
    """Characters that the model gets of one result of `bash` or `read`; beyond that its start and its end."""
    tool_timeout: float = Field(default=300.0, gt=0)
    """Seconds for one command, and for one call of a tool of the task."""


ConfigT = TypeVar("ConfigT", bound=DrivenConfig, default=DrivenConfig)


class DrivenProgram(AgentProgram[ConfigT]):
    """Subclass with `DRIVER`, `recipe` and, where the library has more, `settings`."""

    DRIVER: ClassVar[str] = ""
    """Module of `vfnb_harnesses.drivers`."""
    TOOLS: ClassVar[bool] = True
    """Whether the driver offers our `bash`, `read`, `write` and `edit`; not where the library has its own."""
    SYSTEM_PROMPT: ClassVar[bool] = True
    DISABLE_TOOLS: ClassVar[bool] = True
    MAX_TURNS: ClassVar[Literal["program", "server"]] = "program"

    def check(self, runtime: RuntimeConfig) -> None:
        """Refuse also a tool to disable that is not there.

        Raises:
            ConfigError: as the base; or `disabled_tools` names none of `bash`, `read`, `write` and `edit`.
        """
        super().check(runtime)
        own = [tool.name for tool in SHELL_TOOLS]
        for name in self.config.disabled_tools if self.TOOLS else ():
            if name not in own:
                raise ConfigError(
                    f"harness.disabled_tools: {self.name!r} has no tool {name!r} of its own; it has "
                    + ", ".join(own)
                )

    def settings(self, session: HarnessSession) -> dict[str, Any]:
        """What only this library has, for `Request.settings`."""
        return {}

    def environment(self, session: HarnessSession) -> dict[str, str]:
        """Variables of the program."""
        return {}

    def files(self) -> dict[str, bytes]:
        """Further files of the box."""
        return {}

    def command(
        self, session: HarnessSession, task: Task[Any, Any, Any], prompt: Prompt, *, resume: bool
    ) -> Command:
        config = self.config
        if not resume:  # the libraries want their instructions again with each segment
            session.memory["system_prompt"] = prompt.system
        request = {
            "base_url": session.base_url,
            "root_url": session.root_url,
            "api_key": session.api_key,
            "model": session.model,
            "dialect": self.dialect,
            "prompt": prompt.text,
            "system_prompt": session.memory.get("system_prompt", ""),
            "max_turns": config.max_turns if self.MAX_TURNS == "program" else None,
            "mcp": session.mcp_servers if self.SUPPORTS_MCP and session.tools else {},
            "disabled_tools": config.disabled_tools,
            "settings": self.settings(session),
            "tool_timeout": config.tool_timeout,
            "max_output": config.max_output,
            "tools": [
                {"name": tool.name, "description": tool.description, "parameters": tool.parameters}
                for tool in (SHELL_TOOLS if self.TOOLS else ())
            ],
            "resume": resume,
        }
        files: dict[str, bytes | str] = {
            **self.files(),
            f"~/{FOLDER}/driver.zip": driver_archive(self.DRIVER),
            f"~/{FOLDER}/request.json": json.dumps(request),
        }
        python = str(self.installed(session).python)
        driver = f"{box_home(session.runtime)}/{FOLDER}/driver.zip"
        return Command([python, driver, *config.args], self.environment(session), files)

    async def read(self, session: HarnessSession, result: ProgramResult) -> Reading:
        """The driver's result file; it is not there if the library raised."""
        try:
            told = json.loads(await session.runtime.read(f"{box_home(session.runtime)}/{FOLDER}/result.json"))
        except MissingFile:
            return Reading()
        return Reading(**told)

    def identity(self) -> dict[str, Any]:
        """What decides about reuse: also the driver's code."""
        code = digest(*(source.read_bytes() for source in _sources(self.DRIVER)))
        return super().identity() | {"driver": code}


@cache
def driver_archive(name: str) -> bytes:
    """A driver and what it shares with the others, as one zip file that Python runs."""
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as file:
        file.writestr("vfnb_harnesses/__init__.py", "")
        for source in _sources(name):
            file.writestr(f"vfnb_harnesses/{source.relative_to(HERE)}", source.read_bytes())
        file.writestr("__main__.py", START.format(name=name))
    return packed.getvalue()


def _sources(name: str) -> list[Path]:
    """The files of a driver."""
    shared = [HERE / "drivers/__init__.py", HERE / "drivers/kit.py", *(HERE / "loop_program").glob("*.py")]
    return sorted([*shared, HERE / f"drivers/{name}.py"])
