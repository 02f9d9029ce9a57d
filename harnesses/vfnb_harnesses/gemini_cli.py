"""Gemini CLI, Google's coding agent: `gemini --yolo`."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from vfnb.agents import HarnessSession
from vfnb.installs import Npm
from vfnb.runtimes import ProgramResult
from vfnb.tasks import Task
from vfnb_harnesses.agent_program import AgentProgram, AgentProgramConfig, Command, Reading
from vfnb_harnesses.output import json_lines
from vfnb_harnesses.prompting import Prompt

__all__ = ["GeminiCliHarness"]

HOME = "~/.gemini"


class GeminiCliHarness(AgentProgram[AgentProgramConfig]):
    """Runs `gemini --yolo --prompt PROMPT`; it speaks Gemini `generateContent` only.

    On servers of other formats use `vf.Relay(dialect=...)`. Instructions are its `GEMINI.md`. Version 0.61 takes a
    tool's result that is a bare JSON number or list for an error; give the model words.
    """

    NAME: ClassVar[str] = "gemini_cli"
    VERSION: ClassVar[str] = "0.61.0"
    TESTED: ClassVar[bool] = True
    DIALECTS: ClassVar[tuple[str, ...]] = ("gemini",)
    SUPPORTS_MCP: ClassVar[bool] = True
    TOOL_NAME: ClassVar[str] = "mcp_{server}_{tool}"
    SYSTEM_PROMPT: ClassVar[bool] = True
    SKILLS: ClassVar[bool] = True
    DISABLE_TOOLS: ClassVar[bool] = True

    def recipe(self) -> Npm:
        return Npm("@google/gemini-cli", self.version, program="gemini")

    def command(
        self, session: HarnessSession, task: Task[Any, Any, Any], prompt: Prompt, *, resume: bool
    ) -> Command:
        argv = [
            "gemini",
            "--yolo",
            "--skip-trust",
            "--output-format",
            "stream-json",
            "--model",
            session.model,
        ]
        env = {
            "GOOGLE_GEMINI_BASE_URL": session.root_url,
            "GEMINI_API_KEY": session.api_key,
            "GEMINI_CLI_TRUST_WORKSPACE": "true",
        }
        files = self._files(session)
        if prompt.system:
            files[f"{HOME}/GEMINI.md"] = prompt.system
        return Command([*argv, *self.config.args, f"--prompt={prompt.text}"], env, files)

    def _files(self, session: HarnessSession) -> dict[str, bytes | str]:
        servers = session.mcp_servers if session.tools else {}
        settings = {
            "general": {"enableAutoUpdate": False, "disableAutoUpdate": True},
            "privacy": {"usageStatisticsEnabled": False},
            "security": {"auth": {"selectedType": "gemini-api-key"}},
            "tools": {"exclude": self.config.disabled_tools},
            "mcpServers": {name: {"httpUrl": url, "trust": True} for name, url in servers.items()},
        }
        return {**self.skill_files(f"{HOME}/skills"), f"{HOME}/settings.json": json.dumps(settings)}

    async def read(self, session: HarnessSession, result: ProgramResult) -> Reading:
        """Its last line of type `result` says how it ended."""
        ends = [line for line in json_lines(result.stdout) if line.get("type") == "result"]
        if not ends or ends[-1].get("status") == "success":
            return Reading()
        error = ends[-1].get("error")
        return Reading(failure=str((error or {}).get("message") or ends[-1].get("status")))
