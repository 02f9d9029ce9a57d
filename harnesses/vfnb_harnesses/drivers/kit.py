"""What all drivers share: the request, the shell and file tools, the end. Standard library only."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from ..loop_program.box import Local
from ..loop_program.words import arguments, check

__all__ = ["Request", "Stopped", "Tool", "main"]

# the driver's folder in the box, with its request, state and result
FOLDER = Path(sys.argv[0]).resolve().parent
SETTINGS = {"shell": "bash"}


class Stopped(Exception):
    """The library gave up for a reason that is not an accident; the message is the name of the stop."""


class Request:
    """What the harness asks for (see `vfnb_harnesses.driven`).

    Args:
        told: the content of the request file.
    """

    def __init__(self, told: dict[str, Any]) -> None:
        self.base_url: str = told["base_url"]
        """With `/v1`."""
        self.root_url: str = told["root_url"]
        """Without."""
        self.api_key: str = told["api_key"]
        self.model: str = told["model"]
        self.dialect: str = told["dialect"]
        self.prompt: str = told["prompt"]
        self.system_prompt: str = told["system_prompt"]
        self.max_turns: int | None = told["max_turns"]
        self.mcp: dict[str, str] = told["mcp"]
        """URLs of the task's tool servers by name."""
        self.disabled: set[str] = set(told["disabled_tools"])
        """Own tools that are not to be offered."""
        self.settings: dict[str, Any] = told["settings"]
        """What only this library has."""
        self.tool_timeout: float = told["tool_timeout"]
        self.resume: bool = told["resume"]
        """Go on with the conversation that was kept."""
        self.state = FOLDER / "state"
        """The file in which the conversation is kept for a later segment."""
        self._limit: int = told["max_output"]
        self._tools: list[dict[str, Any]] = told["tools"]

    def tools(self) -> list[Tool]:
        """The shell and file tools that are not disabled."""
        box = Local({**SETTINGS, "timeout": self.tool_timeout}, self._limit)
        work = {"bash": box.bash, "read": box.read, "write": box.write, "edit": box.edit}
        return [
            Tool(tool["name"], tool["description"], tool["parameters"], work[tool["name"]])
            for tool in self._tools
            if tool["name"] not in self.disabled
        ]

    def load(self) -> bytes:
        """The conversation that was kept."""
        return self.state.read_bytes()

    def keep(self, conversation: bytes) -> None:
        """Keep the conversation for a later segment."""
        self.state.write_bytes(conversation)


class Tool:
    """A tool that this program runs by itself: name, description, JSON schema of its arguments, and the work."""

    def __init__(
        self, name: str, description: str, schema: dict[str, Any], work: Callable[[dict[str, Any]], str]
    ) -> None:
        self.name, self.description, self.schema, self._work = name, description, schema, work

    def __call__(self, given: str | dict[str, Any]) -> str:
        """The result for the model, whatever happens."""
        try:
            values = arguments(given) if isinstance(given, str) else given
            check(self.schema, values)
            return self._work(values)
        except Exception as error:
            return f"Error: {error or type(error).__name__}"


def main(run: Callable[[Request], dict[str, Any]]) -> None:
    """Read the request, delete it, run it and write the result: `answer`, or the `stop` and why."""
    path, result = FOLDER / "request.json", FOLDER / "result.json"
    request = Request(json.loads(path.read_bytes()))
    path.unlink()  # the commands of the model shall not find the key
    result.unlink(missing_ok=True)
    try:
        told = run(request)
    except Stopped as stop:
        told = {"stop": str(stop)}
    result.write_text(json.dumps(told), encoding="utf-8")
