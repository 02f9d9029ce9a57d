"""mini-SWE-agent: one tool, bash, each command in a shell of its own."""

from __future__ import annotations

import json
import re
from typing import Any, ClassVar, Literal

from pydantic import Field

from vfnb.agents import HarnessSession
from vfnb.errors import MissingFile
from vfnb.installs import PyPI, Recipe
from vfnb.runtimes import ProgramResult
from vfnb.tasks import Task
from vfnb_harnesses.agent_program import AgentProgram, AgentProgramConfig, Command, Reading
from vfnb_harnesses.program_box import box_home
from vfnb_harnesses.prompting import Prompt

__all__ = ["MiniSWEAgentConfig", "MiniSWEAgentHarness"]

SETTINGS, TRAJECTORY = "mini/settings.yaml", "mini/trajectory.json"  # in the box's HOME
STOPS = {"LimitsExceeded": "max_turns", "RepeatedFormatError": "repeated_format_error"}
MODELS = {"chat": "litellm", "responses": "litellm_response"}


class MiniSWEAgentConfig(AgentProgramConfig):
    """Settings of mini-SWE-agent."""

    command_timeout: int = Field(default=300, ge=1)
    """Seconds that a command may take."""


class MiniSWEAgentHarness(AgentProgram[MiniSWEAgentConfig]):
    """The command `mini`. It ends when a command prints COMPLETE_TASK_AND_SUBMIT_FINAL_OUTPUT first; what that
    command prints after it is the answer. Three replies in a row without a usable call are the stop
    `repeated_format_error`."""

    NAME: ClassVar[str] = "mini_swe_agent"
    VERSION: ClassVar[str] = "2.4.6"
    TESTED: ClassVar[bool] = True
    DIALECTS: ClassVar[tuple[str, ...]] = ("chat", "responses")
    SYSTEM_PROMPT: ClassVar[bool] = True
    MAX_TURNS: ClassVar[Literal["program", "server"]] = "program"
    REWRITES: ClassVar[str] = "a reply without a usable call is dropped; an error message takes its place"

    def recipe(self) -> Recipe:
        return PyPI((f"mini-swe-agent=={self.version}", "litellm>=1.110,<2"), self.version, program="mini")

    def command(
        self, session: HarnessSession, task: Task[Any, Any, Any], prompt: Prompt, *, resume: bool
    ) -> Command:
        home = box_home(session.runtime)
        agent: dict[str, Any] = {
            "mode": "yolo",
            "confirm_exit": False,
            "cost_limit": 0,
            "step_limit": self.config.max_turns or 0,
            "output_path": f"{home}/{TRAJECTORY}",
        }
        if prompt.system:
            agent["system_template"] = _literally(prompt.system)
        settings = {
            "run": {"task": prompt.text},
            "agent": agent,
            # its commands need not see the key
            "environment": {"timeout": self.config.command_timeout, "env": {"OPENAI_API_KEY": ""}},
            "model": {
                "model_name": session.model,
                "model_class": MODELS[self.dialect],
                "model_kwargs": {"custom_llm_provider": "openai"},
                "cost_tracking": "ignore_errors",
                "set_cache_control": None,  # else decided by the model's name
            },
        }
        argv = [
            "mini",
            "--config",
            "mini",
            "--config",
            f"{home}/{SETTINGS}",
            "--output",
            agent["output_path"],
        ]
        env = {
            "OPENAI_BASE_URL": session.base_url,
            "OPENAI_API_KEY": session.api_key,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "MSWEA_CONFIGURED": "true",
            "MSWEA_SILENT_STARTUP": "true",
        }
        return Command([*argv, *self.config.args], env, {f"~/{SETTINGS}": _yaml(settings)})

    async def read(self, session: HarnessSession, result: ProgramResult) -> Reading:
        """How it ended is in its trajectory: it exits 0 in most cases."""
        try:
            told = json.loads(await session.runtime.read(f"{box_home(session.runtime)}/{TRAJECTORY}"))
        except (MissingFile, ValueError):
            return Reading(failure="it left no trajectory")
        info = told.get("info", {})
        status = info.get("exit_status") or "no exit status"
        if status in STOPS:
            return Reading(stop=STOPS[status])
        if status != "Submitted":
            return Reading(failure=status)
        return Reading(answer=info.get("submission", ""))


def _yaml(value: object) -> str:
    """JSON that is YAML too: YAML takes no pairs of surrogates, and not every character as it is."""
    text = json.dumps(value, ensure_ascii=False)
    return re.sub("[\x7f-\x9f\ufeff\ufffe\uffff]", lambda found: f"\\u{ord(found[0]):04x}", text)


def _literally(text: str) -> str:
    """A Jinja template that gives the text."""
    return text.replace("{", "{{ '{' }}")
