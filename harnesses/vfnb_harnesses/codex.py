"""Codex, OpenAI's command-line agent: `codex exec` on the Responses dialect.

Settings go into `~/.codex/config.toml` of the box, so that a resumed conversation has those of the first turn.
"""

from __future__ import annotations

from typing import Any, ClassVar

from pydantic import Field

from vfnb.agents import HarnessSession
from vfnb.errors import ConfigError
from vfnb.installs import Npm, Recipe
from vfnb.interception import Marker
from vfnb.runtimes import ProgramResult, RuntimeConfig
from vfnb.tasks import Task
from vfnb_harnesses.agent_program import AgentProgram, AgentProgramConfig, Command, Reading
from vfnb_harnesses.output import json_lines
from vfnb_harnesses.program_box import box_home
from vfnb_harnesses.prompting import Prompt

__all__ = ["CodexConfig", "CodexHarness"]

FOLDER = "~/.codex"  # CODEX_HOME by default
KEY = (
    "VFNB_MODEL_KEY"  # by this name codex takes the credential from its environment, so that it is in no file
)
TOOL_TIMEOUT = 600.0  # seconds for a tool of the task; codex by itself gives up after 60
NEW = (0, 171)  # the first version that is known to have the newer switches

_SHELL = ("features.shell_tool", False)
_AGENTS = ("features.multi_agent", False)
_GOALS = ("features.goals", False)
SWITCHES: dict[str, tuple[str, Any]] = {
    "exec_command": _SHELL,
    "write_stdin": _SHELL,
    "spawn_agent": _AGENTS,
    "multi_agent_v1": _AGENTS,
    "web_search": ("web_search", "disabled"),
}
"""Setting that takes a tool away, by its name; some go together."""
NEW_SWITCHES: dict[str, tuple[str, Any]] = {
    "view_image": ("features.view_image", False),
    "get_goal": _GOALS,
    "create_goal": _GOALS,
    "update_goal": _GOALS,
    "request_user_input": ("tools.experimental_request_user_input.enabled", False),
}
"""The same, not in older versions."""


class CodexConfig(AgentProgramConfig):
    """Settings of Codex."""

    replace_system_prompt: bool = False
    """Put the system prompt in the place of Codex's own instructions, instead of after them."""
    compact_at: int | None = Field(default=None, ge=1)
    """Tokens of a call above which Codex replaces the conversation by a summary (`model_auto_compact_token_limit`).
    None leaves it to Codex."""


class CodexHarness(AgentProgram[CodexConfig]):
    """Runs `codex exec` once per segment; its settings, skills and conversations lie in the box's HOME."""

    NAME: ClassVar[str] = "codex"
    VERSION: ClassVar[str] = "0.171.0"
    TESTED: ClassVar[bool] = True
    DIALECTS: ClassVar[tuple[str, ...]] = ("responses",)
    SUPPORTS_MCP: ClassVar[bool] = True
    SUPPORTS_RESUME: ClassVar[bool] = True
    SYSTEM_PROMPT: ClassVar[bool] = True
    IMAGES: ClassVar[bool] = True
    SKILLS: ClassVar[bool] = True
    DISABLE_TOOLS: ClassVar[bool] = True
    REWRITES: ClassVar[str] = "nothing; a compaction goes on from the prompt with a summary"
    MARKERS: ClassVar[tuple[Marker, ...]] = (
        Marker(
            header="x-codex-turn-metadata", pattern=r'"request_kind"\s*:\s*"compaction"', kind="compaction"
        ),
        Marker(header="thread-id", agent=True),
        Marker(
            header="session_id", agent=True
        ),  # 0.116; 0.171 has `session-id`, shared by all of its threads
        Marker(header="x-codex-parent-thread-id", parent=True),
    )

    def recipe(self) -> Recipe:
        return Npm("@openai/codex", self.version, program="codex")

    def check(self, runtime: RuntimeConfig) -> None:
        """Refuse settings that this version of Codex has no way for.

        Raises:
            ConfigError: as the base; or a tool of `disabled_tools` cannot be switched off.
        """
        super().check(runtime)
        for tool in self.config.disabled_tools:
            if tool not in self._switches:
                raise ConfigError(
                    f"harness.disabled_tools: codex {self.version} has no switch for {tool!r}; it can do without "
                    + ", ".join(sorted(self._switches))
                )

    def check_task(self, task: Task[Any, Any, Any]) -> None:
        super().check_task(task)
        if self.config.replace_system_prompt and not (self.config.system_prompt or task.data.system_prompt):
            raise ConfigError(
                "harness.replace_system_prompt leaves codex without instructions: set harness.system_prompt"
            )

    def command(
        self, session: HarnessSession, task: Task[Any, Any, Any], prompt: Prompt, *, resume: bool
    ) -> Command:
        argv = ["codex", "exec", "--json", "--skip-git-repo-check"]
        argv += ["--dangerously-bypass-approvals-and-sandbox", "-m", session.model, *self.config.args]
        if resume:
            argv += ["resume", str(session.memory["session_id"])]
        for image in prompt.images:
            argv += ["-i", image]
        files = {} if resume else self._files(session, prompt.system)
        return Command([*argv, "--", "-"], {KEY: session.api_key}, files, prompt.text)

    async def read(self, session: HarnessSession, result: ProgramResult) -> Reading:
        answer = failure = thread = None
        for event in json_lines(result.stdout):
            kind, item = event.get("type"), event.get("item") or {}
            if kind == "thread.started":
                thread = event.get("thread_id")
            elif kind == "item.completed" and item.get("type") == "agent_message":
                answer = item.get("text")
            elif kind == "turn.failed":
                failure = str((event.get("error") or {}).get("message"))
        if failure is None and result.returncode != 0:  # stderr ends with a stack trace
            said = [line for line in result.stderr.split("\n") if line.startswith("Error: ")]
            failure = said[-1][:500] if said else None
        return Reading(answer=answer, failure=failure, session_id=thread)

    @property
    def _switches(self) -> dict[str, tuple[str, Any]]:
        old = tuple(int(part) for part in self.version.split(".")[:2] if part.isdecimal()) < NEW
        return SWITCHES if old else {**SWITCHES, **NEW_SWITCHES}

    def _files(self, session: HarnessSession, system: str) -> dict[str, bytes | str]:
        import tomli_w

        files: dict[str, bytes | str] = {**self.skill_files(f"{FOLDER}/skills")}
        settings = self._settings(session)
        if system and self.config.replace_system_prompt:
            files[f"{FOLDER}/instructions.md"] = system
            settings["model_instructions_file"] = f"{box_home(session.runtime)}/.codex/instructions.md"
        elif system:
            settings["developer_instructions"] = system
        files[f"{FOLDER}/config.toml"] = tomli_w.dumps(settings)
        return files

    def _settings(self, session: HarnessSession) -> dict[str, Any]:
        """The content of config.toml, with all that would call anybody but the model switched off."""
        settings: dict[str, Any] = {
            "model_provider": "vfnb",
            "model_providers": {
                "vfnb": {
                    "name": "vfnb",
                    "base_url": session.base_url,
                    "env_key": KEY,
                    "wire_api": "responses",
                }
            },
            "check_for_update_on_startup": False,
            "analytics": {"enabled": False},
            "feedback": {"enabled": False},
            "otel": {"exporter": "none", "metrics_exporter": "none"},
            "features": {"apps": False, "plugins": False},
            "mcp_servers": {
                name: {
                    "url": url,
                    "required": True,
                    "startup_timeout_sec": 60.0,
                    "tool_timeout_sec": TOOL_TIMEOUT,
                }
                for name, url in session.mcp_servers.items()
            },
        }
        if self.config.compact_at is not None:
            settings["model_auto_compact_token_limit"] = self.config.compact_at
        for tool in self.config.disabled_tools:
            _set(settings, *self._switches[tool])
        return settings


def _set(settings: dict[str, Any], path: str, value: Any) -> None:
    *tables, key = path.split(".")
    for table in tables:
        settings = settings.setdefault(table, {})
    settings[key] = value
