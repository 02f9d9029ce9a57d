"""Qwen Code, Alibaba's coding agent: `qwen -y`."""

from __future__ import annotations

import json
import uuid
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

__all__ = ["QwenCodeConfig", "QwenCodeHarness"]

HOME = "~/.qwen"
SUBAGENT = "subagent working for a parent agent"  # in system texts, which in Chat are part of the history
SUMMARY = "You are the component that summarizes a conversation"
TOO_LARGE = "Context is too large to send"
AUTH = {"chat": "openai", "responses": "openai-responses", "messages": "anthropic"}
OWN_TOOLS = frozenset(
    (
        *("agent", "artifact", "ask_user_question", "create_sub_session", "cron_create", "cron_delete"),
        *("cron_list", "edit", "enter_plan_mode", "enter_worktree", "exec", "exit_plan_mode"),
        *("exit_worktree", "get_goal", "glob", "grep_search", "image_gen", "list_agents"),
        *("list_directory", "loop_wakeup", "lsp", "monitor", "notebook_edit", "read_file"),
        *("read_mcp_resource", "record_artifact", "record_source", "report_findings"),
        *("request_shutdown", "run_shell_command", "save_memory", "send_message", "skill"),
        *("structured_output", "task_create", "task_list", "task_stop", "task_update", "team_create"),
        *("team_delete", "team_plan_approval", "todo_write", "tool_call", "tool_search", "update_goal"),
        *("web_fetch", "web_search", "workflow", "write_file", "zoom_image"),
    )
)
"""Its own tools in the pinned version."""


class QwenCodeConfig(AgentProgramConfig):
    """Settings of Qwen Code."""

    context_size: int = Field(default=131_072, ge=1)
    """Tokens of the model's context; the program compacts when a conversation comes near."""


class QwenCodeHarness(AgentProgram[QwenCodeConfig]):
    """Runs `qwen -y --prompt PROMPT`; goes on with `--resume`."""

    NAME: ClassVar[str] = "qwen_code"
    VERSION: ClassVar[str] = "0.24.4"
    TESTED: ClassVar[bool] = True
    DIALECTS: ClassVar[tuple[str, ...]] = ("chat", "responses", "messages")
    SUPPORTS_MCP: ClassVar[bool] = True
    SUPPORTS_RESUME: ClassVar[bool] = True
    SYSTEM_PROMPT: ClassVar[bool] = True
    SKILLS: ClassVar[bool] = True
    DISABLE_TOOLS: ClassVar[bool] = True
    OWN_TOOLS: ClassVar[frozenset[str]] = OWN_TOOLS
    REWRITES: ClassVar[str] = (
        "arguments re-serialised, white space at the end of reasoning cut; resume: the first message is another"
    )
    MARKERS: ClassVar[tuple[Marker, ...]] = tuple(
        Marker(field=field, pattern=pattern, kind=kind)
        for field in ("system", "instructions")
        for pattern, kind in ((SUBAGENT, "subagent"), (SUMMARY, "compaction"))
    )

    def recipe(self) -> Npm:
        return Npm("@qwen-code/qwen-code", self.version, program="qwen")

    def command(
        self, session: HarnessSession, task: Task[Any, Any, Any], prompt: Prompt, *, resume: bool
    ) -> Command:
        config = self.config
        name = str(uuid.uuid5(uuid.NAMESPACE_OID, session.trace.id))
        argv = ["qwen", "--yolo", "--auth-type", AUTH[self.dialect], "--output-format", "stream-json"]
        argv += ["--resume" if resume else "--session-id", name]
        system = session.memory.setdefault("system", prompt.system)  # a resumed session does not keep it
        if system:
            argv.append(f"--append-system-prompt={system}")
        kind = "ANTHROPIC" if self.dialect == "messages" else "OPENAI"
        env = {
            f"{kind}_BASE_URL": session.root_url if self.dialect == "messages" else session.base_url,
            f"{kind}_API_KEY": session.api_key,
            f"{kind}_MODEL": session.model,
            "QWEN_CODE_SUPPRESS_YOLO_WARNING": "1",
        }
        return Command([*argv, *config.args, f"--prompt={prompt.text}"], env, self._files(session))

    def _files(self, session: HarnessSession) -> dict[str, bytes | str]:
        servers = session.mcp_servers if session.tools else {}
        settings = {
            "general": {"enableAutoUpdate": False},
            "privacy": {"usageStatisticsEnabled": False},
            # its memory is written by further model calls after the answer
            "memory": {"enableManagedAutoMemory": False, "enableManagedAutoDream": False},
            "model": {"generationConfig": {"contextWindowSize": self.config.context_size}},
            "tools": {"exclude": self.config.disabled_tools},
            "mcpServers": {
                name: {"httpUrl": url, "trust": True, "alwaysLoadTools": True}
                for name, url in servers.items()
            },
        }
        return {**self.skill_files(f"{HOME}/skills"), f"{HOME}/settings.json": json.dumps(settings)}

    async def read(self, session: HarnessSession, result: ProgramResult) -> Reading:
        """Its last line of type `result` says how it ended."""
        ends = [line for line in json_lines(result.stdout) if line.get("type") == "result"]
        if not ends:
            return Reading()
        end = ends[-1]
        if end.get("is_error"):
            failure = str((end.get("error") or {}).get("message") or end.get("subtype"))
            return Reading(failure=failure, stop="context_length" if TOO_LARGE in failure else None)
        return Reading(answer=end.get("result"))
