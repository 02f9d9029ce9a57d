"""Kimi Code, Moonshot's coding agent: `kimi -p`."""

from __future__ import annotations

import json
from typing import Any, ClassVar

import tomli_w
from pydantic import Field

from vfnb.agents import HarnessSession
from vfnb.installs import Npm
from vfnb.interception import Marker
from vfnb.runtimes import ProgramResult
from vfnb.tasks import Task
from vfnb_harnesses.agent_program import AgentProgram, AgentProgramConfig, Command, Reading
from vfnb_harnesses.output import json_lines
from vfnb_harnesses.prompting import Prompt

__all__ = ["KimiCodeConfig", "KimiCodeHarness"]

HOME = "~/.kimi-code"
SUBAGENT = "You are now running as a subagent"  # in its system text; in Chat that is part of the history
PROVIDERS = {"chat": "openai", "responses": "openai_responses", "messages": "anthropic"}


class KimiCodeConfig(AgentProgramConfig):
    """Settings of Kimi Code."""

    context_size: int = Field(default=262_144, ge=1)
    """Tokens of the model's context; the program compacts when a conversation comes near."""


class KimiCodeHarness(AgentProgram[KimiCodeConfig]):
    """Runs `kimi -p PROMPT --output-format stream-json`; goes on with `--continue`."""

    NAME: ClassVar[str] = "kimi_code"
    VERSION: ClassVar[str] = "2.1.0"
    TESTED: ClassVar[bool] = True
    DIALECTS: ClassVar[tuple[str, ...]] = ("chat", "responses", "messages")
    SUPPORTS_MCP: ClassVar[bool] = True
    SUPPORTS_RESUME: ClassVar[bool] = True
    SYSTEM_PROMPT: ClassVar[bool] = True
    SKILLS: ClassVar[bool] = True
    DISABLE_TOOLS: ClassVar[bool] = True
    OWN_TOOLS: ClassVar[frozenset[str]] = frozenset(
        (
            "Agent",
            "AgentSwarm",
            "AskUserQuestion",
            "Bash",
            "CreateGoal",
            "CronCreate",
            "CronDelete",
            "CronList",
            "Edit",
            "EnterPlanMode",
            "ExitPlanMode",
            "FetchURL",
            "GetGoal",
            "Glob",
            "Grep",
            "Read",
            "ReadMediaFile",
            "SetGoalBudget",
            "Skill",
            "TaskList",
            "TaskOutput",
            "TaskStop",
            "TodoList",
            "UpdateGoal",
            "WaitFor",
            "WebSearch",
            "Write",
        )
    )
    REWRITES: ClassVar[str] = "arguments re-serialised; partial text of a cut stream kept"
    MARKERS: ClassVar[tuple[Marker, ...]] = (
        Marker(field="system", pattern=SUBAGENT, kind="subagent"),
        Marker(field="instructions", pattern=SUBAGENT, kind="subagent"),
    )

    def recipe(self) -> Npm:
        return Npm("@moonshot-ai/kimi-code", self.version, program="kimi")

    def command(
        self, session: HarnessSession, task: Task[Any, Any, Any], prompt: Prompt, *, resume: bool
    ) -> Command:
        config = self.config
        argv = ["kimi", f"--prompt={prompt.text}", "--output-format=stream-json"]
        if resume:
            argv.append("--continue")  # the newest session of the folder; the box has no other one
        env = {
            "KIMI_MODEL_NAME": session.model,
            "KIMI_MODEL_API_KEY": session.api_key,
            "KIMI_MODEL_PROVIDER_TYPE": PROVIDERS[self.dialect],
            "KIMI_MODEL_BASE_URL": session.root_url if self.dialect == "messages" else session.base_url,
            "KIMI_MODEL_MAX_CONTEXT_SIZE": str(config.context_size),
            "KIMI_DISABLE_TELEMETRY": "1",
            "KIMI_CODE_NO_AUTO_UPDATE": "1",
        }
        return Command([*argv, *config.args], env, self._files(session, prompt))

    def _files(self, session: HarnessSession, prompt: Prompt) -> dict[str, bytes | str]:
        files: dict[str, bytes | str] = {**self.skill_files(f"{HOME}/skills")}
        if prompt.system:
            files[f"{HOME}/SYSTEM.md"] = "${base_prompt}\n\n" + prompt.system
        if self.config.disabled_tools:
            files[f"{HOME}/config.toml"] = tomli_w.dumps({"tools": {"disabled": self.config.disabled_tools}})
        if session.tools:
            servers = {name: {"url": url} for name, url in session.mcp_servers.items()}
            files[f"{HOME}/mcp.json"] = json.dumps({"mcpServers": servers})
        return files

    async def read(self, session: HarnessSession, result: ProgramResult) -> Reading:
        """The last assistant line without a tool call is the answer."""
        answer = None
        for line in json_lines(result.stdout):
            if line.get("role") == "assistant" and not line.get("tool_calls"):
                answer = line.get("content")
        return Reading(answer=answer)
