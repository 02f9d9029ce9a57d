"""Terminus 2, the reference agent of Harbor: the model types into a tmux terminal and reads its screen."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from functools import cache
from pathlib import Path
from typing import Any, ClassVar, Literal

from pydantic import Field

from vfnb.agents import HarnessSession
from vfnb.installs import PyPI, Recipe
from vfnb_harnesses.driven import DrivenConfig, DrivenProgram

__all__ = ["Terminus2Config", "Terminus2Harness", "find_python"]

MINOR = 12  # harbor needs Python 3.12 or newer


class Terminus2Config(DrivenConfig):
    """Settings of Terminus 2."""

    parser: Literal["json", "xml"] = "json"
    """The form in which the model says what to type."""
    context: int | None = Field(default=None, ge=1)
    """Tokens of the model's context. With it the program summarises its conversation when 8000 are left; without,
    a prompt that does not fit ends the rollout."""
    interleaved_thinking: bool = True
    """Send the reasoning of earlier replies back."""


class Terminus2Harness(DrivenProgram[Terminus2Config]):
    """Needs tmux on this machine. It has no tools: the model answers with keystrokes in its text."""

    NAME: ClassVar[str] = "terminus_2"
    VERSION: ClassVar[str] = "0.25.0"
    TESTED: ClassVar[bool] = True
    DIALECTS: ClassVar[tuple[str, ...]] = ("chat", "responses")
    DRIVER: ClassVar[str] = "terminus_2"
    TOOLS: ClassVar[bool] = False
    NEEDS: ClassVar[tuple[str, ...]] = ("tmux",)
    SYSTEM_PROMPT: ClassVar[bool] = False
    SKILLS: ClassVar[bool] = True
    DISABLE_TOOLS: ClassVar[bool] = False
    MAX_TURNS: ClassVar[Literal["program", "server"]] = "server"
    REWRITES: ClassVar[str] = "with `context`: three calls of a summary, then a new conversation from it"

    def recipe(self) -> Recipe:
        return PyPI((f"harbor=={self.version}", "litellm>=1.110,<2"), self.version, python=find_python())

    def settings(self, session: HarnessSession) -> dict[str, Any]:
        config = self.config
        limits = {"max_input_tokens": config.context, "max_output_tokens": config.context}
        return {
            "parser_name": config.parser,
            "interleaved_thinking": config.interleaved_thinking,
            "enable_summarize": config.context is not None,
            "model_info": limits if config.context is not None else None,
        }

    def environment(self, session: HarnessSession) -> dict[str, str]:
        return {"LITELLM_LOCAL_MODEL_COST_MAP": "True", "HARBOR_TELEMETRY": "off"}

    def files(self) -> dict[str, bytes]:
        return self.skill_files("~/skills")


@cache
def find_python() -> str:
    """A Python that is new enough: this one, one on PATH, or one of pyenv's; else uv is asked for it by number."""
    if sys.version_info >= (3, MINOR):
        return sys.executable
    names = [f"python3.{minor}" for minor in range(MINOR, MINOR + 3)]
    found = [path for path in map(shutil.which, names) if path is not None]
    kept = Path(os.environ.get("PYENV_ROOT") or Path.home() / ".pyenv") / "versions"
    found += [str(path) for name in names for path in sorted(kept.glob(f"3.*/bin/{name}"))]
    return next(filter(_runs, found), f"3.{MINOR}")


def _runs(python: str) -> bool:
    """Whether an interpreter works: pyenv puts a placeholder on PATH for each one that it could choose."""
    return subprocess.run([python, "-c", ""], capture_output=True, timeout=30, check=False).returncode == 0
