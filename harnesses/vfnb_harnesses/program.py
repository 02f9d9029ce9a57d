"""Any program as an agent: an argument list with the endpoint, the key, the model and the prompt filled in."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from vfnb.agents import Harness, HarnessConfig, HarnessSession
from vfnb.dialects import chat_encode
from vfnb.errors import ConfigError
from vfnb.interception import Marker
from vfnb.runtimes import ProgramResult, PublicEnv
from vfnb.tasks import Task, TaskData, resolve_text_prompt
from vfnb_harnesses.settings import opening

__all__ = ["ProgramConfig", "ProgramHarness"]


class ProgramConfig(HarnessConfig):
    """What to run, with fields filled in, in `argv` and in `env`.

    `{base_url}` (with `/v1`), `{root_url}` (without), `{api_key}`, `{model}`; `{messages_file}`, a JSON list of
    Chat messages; `{prompt}` and `{prompt_file}`, a text. The text has the task's system prompt in front, unless
    `{system_prompt}` takes it. A prompt that is more than text needs `{messages_file}`, else it is refused before
    any model call.
    """

    argv: list[str] = []
    """The command; its first item is looked up on PATH."""
    env: PublicEnv = {}
    """Environment on top of `OPENAI_BASE_URL`, `OPENAI_API_KEY` and `OPENAI_MODEL`, which are always set. It is
    saved with the run: what looks like a secret is refused."""
    files: dict[str, str] = {}
    """Text files to write into the working directory first, by path."""


class ProgramHarness(Harness[ProgramConfig]):
    """Runs `config.argv` in the runtime. Its exit status matters only where the server saw nothing wrong."""

    NAME: ClassVar[str] = "program"
    TESTED: ClassVar[bool] = True
    RUNTIMES: ClassVar[tuple[str, ...]] = ("subprocess",)
    MARKERS: ClassVar[tuple[Marker, ...]] = (  # of programs that people start by hand
        Marker(
            header="x-codex-turn-metadata", pattern=r'"request_kind"\s*:\s*"compaction"', kind="compaction"
        ),
        Marker(header="x-codex-turn-metadata", pattern=r'"thread_id"\s*:\s*"([^"]+)"', agent=True),
        Marker(header="x-codex-parent-thread-id", parent=True),
        Marker(header="x-claude-code-agent-id", agent=True),
    )

    def __init__(self, config: ProgramConfig | list[str] | str | None = None, **settings: Any) -> None:
        if isinstance(config, str):
            raise ConfigError(
                f"vf.Program takes the command as a list of arguments: vf.Program({config.split()!r}); "
                "for a shell, ['bash', '-c', '...']"
            )
        if isinstance(config, list):
            config = ProgramConfig(argv=config, **settings)
        super().__init__(config if config is not None else ProgramConfig(**settings))
        if not self.config.argv:
            raise ConfigError(
                "harness 'program' has no command; give harness.argv, as in "
                "vf.Program(['python', 'agent.py', '{prompt}'])"
            )

    @classmethod
    def described(cls) -> dict[str, Any]:
        """What `vf.harnesses()` says of it."""
        return super().described() | {"kind": "command", "images": True, "system_prompt": True}

    def check_task(self, task: Task[Any, Any, Any]) -> None:
        super().check_task(task)
        if self._uses("{prompt}", "{prompt_file}"):
            self._text(task.data)

    def _uses(self, *fields: str) -> bool:
        texts = (*self.config.argv, *self.config.env.values())
        return any(field in text for field in fields for text in texts)

    def _text(self, data: TaskData) -> str:
        prompt = data.prompt_text if self._uses("{messages_file}") else resolve_text_prompt(data)
        if data.system_prompt and not self._uses("{system_prompt}"):
            return f"{data.system_prompt}\n\n{prompt}"
        return prompt

    async def run(self, session: HarnessSession, task: Task[Any, Any, Any]) -> ProgramResult:
        for path, text in self.config.files.items():
            await session.runtime.write(path, text.encode())
        prompt = self._text(task.data) if self._uses("{prompt}", "{prompt_file}") else ""
        if self._uses("{prompt_file}"):
            await session.runtime.write("prompt.txt", prompt.encode())
        if self._uses("{messages_file}"):
            messages = [chat_encode.message(message) for message in opening(task)]
            await session.runtime.write("messages.json", json.dumps(messages).encode())
        values = {
            "base_url": session.base_url,
            "root_url": session.root_url,
            "api_key": session.api_key,
            "model": session.model,
            "prompt": prompt,
            "system_prompt": task.data.system_prompt or "",
            "prompt_file": "prompt.txt",
            "messages_file": "messages.json",
        }
        env = {
            "OPENAI_BASE_URL": session.base_url,
            "OPENAI_API_KEY": session.api_key,
            "OPENAI_MODEL": session.model,
        }
        env |= {name: _fill(value, values) for name, value in self.config.env.items()}
        result = await session.runtime.run([_fill(item, values) for item in self.config.argv], env)
        return result if result.returncode == 0 else self._explained(result)

    def _explained(self, result: ProgramResult) -> ProgramResult:
        """The result of a failed program, with a word on arguments that are files here and not where it ran."""
        here = [
            item
            for item in self.config.argv[1:]
            if item not in self.config.files and not Path(item).is_absolute() and _is_file(item)
        ]
        if not here:
            return result
        note = (
            f"({here[0]} is in {Path.cwd()}, but the program runs in a folder of its own: give the full path, "
            f"or files={{{here[0]!r}: Path({here[0]!r}).read_text()}})"
        )
        return replace(result, stderr=f"{result.stderr.rstrip()}\n{note}".lstrip())


def _is_file(text: str) -> bool:
    try:
        return Path(text).is_file()
    except (OSError, ValueError):  # a whole script, too long for a name
        return False


def _fill(text: str, values: dict[str, str]) -> str:
    """Replace the known fields only: other braces are the program's own."""
    known = "|".join(values)
    return re.sub(rf"\{{({known})\}}", lambda field: values[field[1]], text)
