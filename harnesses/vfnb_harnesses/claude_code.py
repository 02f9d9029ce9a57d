"""Claude Code, Anthropic's command-line agent: `claude -p` on the Messages dialect, with JSON lines in and out."""

from __future__ import annotations

import base64
import json
import uuid
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from vfnb.agents import HarnessSession
from vfnb.errors import ConfigError
from vfnb.installs import Npm, Recipe
from vfnb.interception import Marker
from vfnb.runtimes import ProgramResult
from vfnb.tasks import Task
from vfnb_harnesses.agent_program import AgentProgram, AgentProgramConfig, Command, Reading
from vfnb_harnesses.output import json_lines
from vfnb_harnesses.program_box import box_home
from vfnb_harnesses.prompting import Prompt

__all__ = ["ClaudeCodeConfig", "ClaudeCodeHarness"]

TOOLS = frozenset(
    (
        *("Agent", "Bash", "CronCreate", "CronDelete", "CronList", "Edit", "EnterWorktree", "ExitWorktree"),
        *("ListAgents", "Monitor", "NotebookEdit", "Read", "ReportFindings", "ScheduleWakeup", "SendMessage"),
        *("Skill", "TaskStop", "WebFetch", "WebSearch", "Workflow", "Write"),
    )
)
"""Its own tools in the pinned version, with tool search off."""
SYSTEM = "~/.vfnb-system.md"
AUTOCOMPACT = 100_000  # tokens; the least that --autocompact takes
QUIET = {
    "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
    "DISABLE_AUTOUPDATER": "1",
    "DISABLE_TELEMETRY": "1",
    "DISABLE_ERROR_REPORTING": "1",
}
SHAPE = {
    "IS_SANDBOX": "1",  # else it refuses --dangerously-skip-permissions to root
    "CLAUDE_CODE_ATTRIBUTION_HEADER": "0",  # a billing text in the system prompt, other digits per conversation
    "ENABLE_TOOL_SEARCH": "false",  # else tools of the task are only named, and no schema is in the request
    "MCP_CONNECTION_NONBLOCKING": "0",  # else the first call goes out without the tools of a slow server
    "MCP_CONNECT_TIMEOUT_MS": "120000",
}


class ClaudeCodeConfig(AgentProgramConfig):
    """Settings of Claude Code."""

    replace_system_prompt: bool = False
    """Put the system prompt in the place of Claude Code's own, instead of after it."""
    compact_at: int | None = Field(default=None, ge=40_000)
    """Window in tokens: about 33,000 before its end, Claude Code replaces the conversation by a summary. None
    leaves it to Claude Code, which takes a model that it does not know for one of 1,000,000."""


class ClaudeCodeHarness(AgentProgram[ClaudeCodeConfig]):
    """Runs `claude -p` once per segment, with a session id of our own."""

    NAME: ClassVar[str] = "claude_code"
    VERSION: ClassVar[str] = "2.1.332"
    TESTED: ClassVar[bool] = True
    DIALECTS: ClassVar[tuple[str, ...]] = ("messages",)
    SUPPORTS_MCP: ClassVar[bool] = True
    SUPPORTS_RESUME: ClassVar[bool] = True
    SYSTEM_PROMPT: ClassVar[bool] = True
    IMAGES: ClassVar[bool] = True
    SKILLS: ClassVar[bool] = True
    DISABLE_TOOLS: ClassVar[bool] = True
    OWN_TOOLS: ClassVar[frozenset[str]] = TOOLS
    MAX_TURNS: ClassVar[Literal["program", "server"]] = "program"
    REWRITES: ClassVar[str] = (
        "cache marks move; system messages change from blocks to text; a compaction repeats the newest turn"
    )
    MARKERS: ClassVar[tuple[Marker, ...]] = (Marker(header="x-claude-code-agent-id", agent=True),)

    def recipe(self) -> Recipe:
        package = "@anthropic-ai/claude-code"
        return Npm(package, self.version, program="claude", after=(f"{package}/install.cjs",))

    def check_task(self, task: Task[Any, Any, Any]) -> None:
        super().check_task(task)
        if self.config.replace_system_prompt and not (self.config.system_prompt or task.data.system_prompt):
            raise ConfigError(
                "harness.replace_system_prompt leaves claude-code without instructions: set harness.system_prompt"
            )

    def command(
        self, session: HarnessSession, task: Task[Any, Any, Any], prompt: Prompt, *, resume: bool
    ) -> Command:
        if not resume:
            session.memory["session_id"], session.memory["system"] = str(uuid.uuid4()), bool(prompt.system)
        argv = ["claude", "-p", "--dangerously-skip-permissions", "--verbose"]
        argv += ["--input-format", "stream-json", "--output-format", "stream-json"]
        argv += ["--resume" if resume else "--session-id", session.memory["session_id"]]
        argv += self._options(session)
        files = {} if resume else dict(self.skill_files("~/.claude/skills"))
        if prompt.system:
            files[SYSTEM] = prompt.system.encode()
        return Command([*argv, *self.config.args], self._environment(session), files, _line(prompt))

    async def read(self, session: HarnessSession, result: ProgramResult) -> Reading:
        end: dict[str, Any] = {}
        lost: set[str] = set()
        for event in json_lines(result.stdout):
            if event.get("type") == "result":
                end = event
            elif event.get("subtype") == "init":
                lost |= {
                    str(server.get("name"))
                    for server in event.get("mcp_servers") or ()
                    if server.get("status") == "failed"
                }
        if end.get("subtype") == "error_max_turns":
            return Reading(stop="max_turns")
        said = end.get("result")
        failure = str(said or end.get("errors") or end["subtype"]) if end.get("is_error") else None
        if lost:
            failure = f"it could not reach the tools of {', '.join(sorted(lost))}"
        return Reading(answer=said if failure is None else None, failure=failure)

    def _options(self, session: HarnessSession) -> list[str]:
        config, options = self.config, list[str]()
        if session.memory.get("system"):
            option = "--system-prompt-file" if config.replace_system_prompt else "--append-system-prompt-file"
            options += [option, f"{box_home(session.runtime)}/{SYSTEM[2:]}"]
        if config.max_turns is not None:
            options += ["--max-turns", str(config.max_turns)]
        if config.compact_at is not None and config.compact_at >= AUTOCOMPACT:
            options += ["--autocompact", str(config.compact_at)]
        if config.disabled_tools:
            options += ["--disallowedTools", ",".join(config.disabled_tools)]
        servers = {name: {"type": "http", "url": url} for name, url in session.mcp_servers.items()}
        return [*options, "--strict-mcp-config", "--mcp-config", json.dumps({"mcpServers": servers})]

    def _environment(self, session: HarnessSession) -> dict[str, str]:
        model, window = session.model, self.config.compact_at
        small = window is not None and window < AUTOCOMPACT
        return {
            **QUIET,
            **SHAPE,
            **({"CLAUDE_CODE_MAX_CONTEXT_TOKENS": str(window)} if small else {}),
            "ANTHROPIC_BASE_URL": session.root_url,
            "ANTHROPIC_API_KEY": session.api_key,
            **model_names(model),
            "CLAUDE_CODE_TMPDIR": f"{box_home(session.runtime)}/.claude/tmp",  # else /tmp of this machine
        }


def model_names(model: str) -> dict[str, str]:
    """Variables that make every model which it could choose by itself this one."""
    sizes = ("HAIKU", "SONNET", "OPUS", "FABLE")
    return {"ANTHROPIC_MODEL": model, **{f"ANTHROPIC_DEFAULT_{size}_MODEL": model for size in sizes}}


def _line(prompt: Prompt) -> str:
    """The prompt as the program's own input format has it: one user message, one line."""
    blocks: list[dict[str, Any]] = [_image(Path(path)) for path in prompt.images]
    content = [*blocks, {"type": "text", "text": prompt.text}] if blocks else prompt.text
    return json.dumps({"type": "user", "message": {"role": "user", "content": content}}) + "\n"


def _image(path: Path) -> dict[str, Any]:
    data = base64.b64encode(path.read_bytes()).decode()
    media_type = f"image/{path.suffix[1:]}"
    return {"type": "image", "source": {"type": "base64", "media_type": media_type, "data": data}}
