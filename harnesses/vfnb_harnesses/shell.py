"""The tools of the bash harness: commands and files of the runtime."""

from __future__ import annotations

from typing import Any

from vfnb.errors import RuntimeFault
from vfnb.runtimes import Runtime
from vfnb.types import Tool
from vfnb_harnesses.loop_program.words import LARGEST_FILE, decoded, excerpt, replaced, report
from vfnb_harnesses.tools import LocalTool

__all__ = ["SHELL_TOOLS", "shell_tools"]


def _tool(name: str, description: str, required: str, **properties: tuple[str, str]) -> Tool:
    schema = {
        "type": "object",
        "properties": {key: {"type": kind, "description": text} for key, (kind, text) in properties.items()},
        "required": required.split(),
        "additionalProperties": False,
    }
    return Tool(name=name, description=description, parameters=schema)


SHELL_TOOLS = [
    _tool(
        "bash",
        "Run a shell command in the working folder and get its output. Each command has a shell of its own: "
        "folder changes and variables do not last. There is no standard input.",
        "command",
        command=("string", "The command or script."),
        timeout=("number", "Seconds after which it is ended."),
    ),
    _tool(
        "read",
        "Read a text file, whole or in part.",
        "path",
        path=("string", "Path of the file, from the working folder."),
        offset=("integer", "First line, from 1."),
        limit=("integer", "Number of lines."),
    ),
    _tool(
        "write",
        "Write a text file; its folders are made, an old content is replaced.",
        "path content",
        path=("string", "Path of the file, from the working folder."),
        content=("string", "The whole content."),
    ),
    _tool(
        "edit",
        "Replace an exact piece of text in a file. It must occur once, unless all is true.",
        "path old new",
        path=("string", "Path of the file, from the working folder."),
        old=("string", "The text to replace, character for character."),
        new=("string", "What to put in its place."),
        all=("boolean", "Replace every occurrence."),
    ),
]
"""What the model is offered, in process and as a program."""


def shell_tools(runtime: Runtime, *, shell: str, seconds: float, limit: int) -> list[LocalTool]:
    """The tools over a runtime.

    Args:
        shell: the program that runs commands, with `-c`.
        seconds: longest command.
        limit: characters of a result.
    """
    box = _Box(runtime, shell, seconds, limit)
    work = {"bash": box.bash, "read": box.read, "write": box.write, "edit": box.edit}
    return [LocalTool(tool, work[tool.name]) for tool in SHELL_TOOLS]


class _Box:
    """The tools' work. A fault of the runtime itself ends the rollout; a refusal is the model's to read."""

    def __init__(self, runtime: Runtime, shell: str, seconds: float, limit: int) -> None:
        self._runtime = runtime
        self._shell, self._seconds, self._limit = shell, seconds, limit

    async def bash(self, values: dict[str, Any]) -> str:
        seconds = min(values.get("timeout", self._seconds), self._seconds)
        # one stream, in the order in which it was written
        argv = [self._shell, "-c", "exec 2>&1\n" + values["command"]]
        done = await self._runtime.run(argv, timeout=seconds)
        late = seconds if done.timed_out else None
        return report(done.stdout + done.stderr, done.returncode, late, self._limit, done.stdout_dropped)

    async def read(self, values: dict[str, Any]) -> str:
        text = await self._text(values["path"])
        return excerpt(text, values.get("offset", 1), values.get("limit"), self._limit)

    async def write(self, values: dict[str, Any]) -> str:
        await self._write(values["path"], values["content"])
        return f"wrote {len(values['content'])} characters to {values['path']}"

    async def edit(self, values: dict[str, Any]) -> str:
        text, told = replaced(await self._text(values["path"]), values)
        await self._write(values["path"], text)
        return told

    async def _text(self, path: str) -> str:
        # a device or a huge file would end up in this process's memory
        name = f"./{path}" if path.startswith("-") else path
        size = f"-{LARGEST_FILE}c"
        seen = await self._runtime.run(["find", "-L", name, "-maxdepth", "0", "-type", "f", "-size", size])
        if not seen.stdout:
            why = seen.stderr.strip() or f"it is no file of less than {LARGEST_FILE // 10**6} MB"
            raise ValueError(f"cannot read {path}: {why}")
        try:
            return decoded(await self._runtime.read(path), path)
        except RuntimeFault as fault:
            raise _told(fault) from fault

    async def _write(self, path: str, text: str) -> None:
        try:
            await self._runtime.write(path, text.encode())
        except RuntimeFault as fault:
            raise _told(fault) from fault


def _told(fault: RuntimeFault) -> Exception:
    return fault if fault.retryable else ValueError(str(fault))
