"""opencode, the open-source coding agent: `opencode run`."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from pydantic import Field

from vfnb.agents import HarnessSession
from vfnb.installs import Npm
from vfnb.interception import Marker
from vfnb.runtimes import ProgramResult
from vfnb.tasks import Task
from vfnb_harnesses.agent_program import AgentProgram, AgentProgramConfig, Command, Reading
from vfnb_harnesses.output import json_lines
from vfnb_harnesses.prompting import Prompt

__all__ = ["OpencodeConfig", "OpencodeHarness"]

HOME = "~/.config/opencode"
OFF = (
    "AUTOUPDATE",
    "CLAUDE_CODE",
    "DEFAULT_PLUGINS",
    "LSP_DOWNLOAD",
    "MODELS_FETCH",
    "PROJECT_CONFIG",
    "SHARE",
)
PLUGIN = "@opencode-ai/plugin"
LIBRARIES = {
    "chat": "@ai-sdk/openai-compatible",
    "responses": "@ai-sdk/openai",
    "messages": "@ai-sdk/anthropic",
}
SUMMARIES = "vfnb-summaries"  # the same model by another name, so that its calls can say what they are for


class OpencodeConfig(AgentProgramConfig):
    """Settings of opencode."""

    context_size: int = Field(default=200_000, ge=1)
    """Tokens of the model's context; the program compacts when a conversation comes near."""
    output_size: int = Field(default=32_000, ge=1)
    """Most tokens of one reply, which it asks for in each call."""


class OpencodeHarness(AgentProgram[OpencodeConfig]):
    """Runs `opencode run --format json`, with the prompt on standard input; goes on with `--continue`."""

    NAME: ClassVar[str] = "opencode"
    VERSION: ClassVar[str] = "1.18.33"
    TESTED: ClassVar[bool] = True
    DIALECTS: ClassVar[tuple[str, ...]] = ("chat", "responses", "messages")
    TOOL_NAME: ClassVar[str] = "{server}_{tool}"
    SUPPORTS_MCP: ClassVar[bool] = True
    SUPPORTS_RESUME: ClassVar[bool] = True
    IMAGES: ClassVar[bool] = True
    SYSTEM_PROMPT: ClassVar[bool] = True
    SKILLS: ClassVar[bool] = True
    DISABLE_TOOLS: ClassVar[bool] = True
    OWN_TOOLS: ClassVar[frozenset[str]] = frozenset(
        (
            "apply_patch",
            "bash",
            "codesearch",
            "edit",
            "glob",
            "grep",
            "list",
            "lsp",
            "patch",
            "plan_enter",
            "plan_exit",
            "question",
            "read",
            "skill",
            "task",
            "todoread",
            "todowrite",
            "webfetch",
            "websearch",
            "write",
        )
    )
    REWRITES: ClassVar[str] = "arguments re-serialised; a summary comes back as a reply under another parent"
    MARKERS: ClassVar[tuple[Marker, ...]] = (
        Marker(header="x-session-id", agent=True),
        Marker(header="x-parent-session-id", kind="subagent", parent=True),
    )

    def recipe(self) -> Npm:
        return Npm("opencode-ai", self.version, program="opencode")

    def command(
        self, session: HarnessSession, task: Task[Any, Any, Any], prompt: Prompt, *, resume: bool
    ) -> Command:
        argv = ["opencode", "run", "--pure", "--auto", "--format", "json", "--model", f"vfnb/{session.model}"]
        argv += ["--continue"] if resume else ["--title", "task"]  # without a title it asks the model for one
        argv += [f"--file={path}" for path in prompt.images]
        env = {f"OPENCODE_DISABLE_{what}": "1" for what in OFF}
        # As an argument the prompt would reach the model in quotation marks.
        return Command([*argv, *self.config.args], env, self._files(session, prompt), stdin=prompt.text)

    def _files(self, session: HarnessSession, prompt: Prompt) -> dict[str, bytes | str]:
        config = self.config
        servers = session.mcp_servers if session.tools else {}
        model: dict[str, Any] = {"limit": {"context": config.context_size, "output": config.output_size}}
        if session.memory.get("images"):
            model |= {"attachment": True, "modalities": {"input": ["text", "image"], "output": ["text"]}}
        declared = {"id": session.model, "headers": {"x-vfnb-kind": "compaction"}}
        provider = {
            "npm": LIBRARIES[self.dialect],
            "options": {"baseURL": session.base_url, "apiKey": session.api_key},
            "models": {session.model: model, SUMMARIES: model | declared},
        }
        settings = {
            "autoupdate": False,
            "share": "disabled",
            "provider": {"vfnb": provider},
            "agent": {"compaction": {"model": f"vfnb/{SUMMARIES}"}},
            "mcp": {name: {"type": "remote", "url": url, "enabled": True} for name, url in servers.items()},
            "tools": dict.fromkeys(config.disabled_tools, False),
        }
        files: dict[str, bytes | str] = {**self.skill_files(f"{HOME}/skills")}
        files[f"{HOME}/opencode.json"] = json.dumps(settings)
        # It would install its plugin package from the registry, in each box, if these were not there.
        files[f"{HOME}/node_modules/.keep"] = ""
        files[f"{HOME}/package-lock.json"] = json.dumps({"packages": {"": {"dependencies": {PLUGIN: "*"}}}})
        if prompt.system:
            files[f"{HOME}/AGENTS.md"] = prompt.system
        return files

    async def read(self, session: HarnessSession, result: ProgramResult) -> Reading:
        """Texts of the last step are the answer; an error after it is why it ended."""
        answer: list[str] = []
        failure = None
        for event in json_lines(result.stdout):
            if event.get("type") == "step_start":
                answer, failure = [], None
            elif event.get("type") == "text":
                answer.append(event["part"]["text"])
            elif event.get("type") == "error":
                error = event.get("error") or {}
                failure = str((error.get("data") or {}).get("message") or error.get("name"))
        return Reading("".join(answer) if answer else None, failure=failure)
