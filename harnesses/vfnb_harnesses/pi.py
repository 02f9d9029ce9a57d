"""pi, a small coding agent with four tools: `pi -p`."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from pydantic import Field

from vfnb.agents import HarnessSession
from vfnb.installs import Npm
from vfnb.tasks import Task
from vfnb_harnesses.agent_program import AgentProgram, AgentProgramConfig, Command
from vfnb_harnesses.prompting import Prompt

__all__ = ["PiConfig", "PiHarness"]

HOME = "~/.pi/agent"
SESSION = "vfnb"  # its sessions lie in the box's own HOME, so that one name is enough
APIS = {"chat": "openai-completions", "responses": "openai-responses", "messages": "anthropic-messages"}


class PiConfig(AgentProgramConfig):
    """Settings of pi."""

    context_size: int = Field(default=128_000, ge=1)
    """Tokens of the model's context, told to the program."""
    output_size: int = Field(default=16_384, ge=1)
    """Most tokens of one reply, which it asks for in each call."""


class PiHarness(AgentProgram[PiConfig]):
    """Runs `pi -p`; a session of a fixed name goes on where it was."""

    NAME: ClassVar[str] = "pi"
    VERSION: ClassVar[str] = "1.6.0"
    TESTED: ClassVar[bool] = True
    DIALECTS: ClassVar[tuple[str, ...]] = ("chat", "responses", "messages")
    SUPPORTS_MCP: ClassVar[bool] = True
    SUPPORTS_RESUME: ClassVar[bool] = True
    IMAGES: ClassVar[bool] = True
    SYSTEM_PROMPT: ClassVar[bool] = True
    SKILLS: ClassVar[bool] = True
    DISABLE_TOOLS: ClassVar[bool] = True
    OWN_TOOLS: ClassVar[frozenset[str]] = frozenset(
        ("bash", "edit", "find", "grep", "ls", "powershell", "read", "write")
    )
    REWRITES: ClassVar[str] = "arguments re-serialised"

    def recipe(self) -> Npm:
        return Npm("@earendil-works/pi-coding-agent", self.version, program="pi", scripts=False)

    def command(
        self, session: HarnessSession, task: Task[Any, Any, Any], prompt: Prompt, *, resume: bool
    ) -> Command:
        config = self.config
        argv = ["pi", "-p", "--provider", "vfnb", "--model", session.model, "--session-id", SESSION]
        # Settings in the task's folder are data, and AGENTS.md would also be read from all folders above it.
        argv += ["--no-approve", "--no-context-files"]
        if config.disabled_tools:
            argv += ["--exclude-tools", ",".join(config.disabled_tools)]
        env = {"VFNB_API_KEY": session.api_key, "PI_OFFLINE": "1", "PI_TELEMETRY": "0"}
        # As an argument a prompt that begins with @ would be the name of a file.
        argv += [f"@{path}" for path in prompt.images]
        return Command([*argv, *config.args], env, self._files(session, prompt), stdin=prompt.text)

    def _files(self, session: HarnessSession, prompt: Prompt) -> dict[str, bytes | str]:
        config = self.config
        model = {
            "id": session.model,
            "reasoning": True,
            "input": ["text", "image"] if session.memory.get("images") else ["text"],
            "contextWindow": config.context_size,
            "maxTokens": config.output_size,
        }
        provider = {
            "baseUrl": session.root_url if self.dialect == "messages" else session.base_url,
            "api": APIS[self.dialect],
            "apiKey": "$VFNB_API_KEY",
            "models": [model],
        }
        files: dict[str, bytes | str] = {**self.skill_files(f"{HOME}/skills")}
        files[f"{HOME}/models.json"] = json.dumps({"providers": {"vfnb": provider}})
        if prompt.system:
            files[f"{HOME}/APPEND_SYSTEM.md"] = prompt.system
        if session.tools:  # declared to the model like its own tools, not behind a search or a script
            servers = {name: {"url": url, "exposure": "direct"} for name, url in session.mcp_servers.items()}
            files[f"{HOME}/mcp.json"] = json.dumps({"autoEnableCodemode": False, "mcpServers": servers})
        return files
