"""Any program as an agent: an argument list with the endpoint, the key, the model and the prompt filled in."""

from __future__ import annotations

import json
from typing import Any, ClassVar

from vfnb.agents import Harness, HarnessConfig, HarnessSession
from vfnb.errors import ConfigError
from vfnb.runtimes import ProgramResult
from vfnb.tasks import Task
from vfnb_harnesses.null import opening

__all__ = ["ProgramConfig", "ProgramHarness"]


class ProgramConfig(HarnessConfig):
    """What to run. `{base_url}` (with `/v1`), `{root_url}` (without), `{api_key}`, `{model}`, `{prompt}`,
    `{prompt_file}` (a text file) and `{messages_file}` (a JSON list) are filled in, in `argv` and in `env`."""

    argv: list[str] = []
    """The command; its first item is looked up on PATH."""
    env: dict[str, str] = {}
    """Environment on top of `OPENAI_BASE_URL`, `OPENAI_API_KEY` and `OPENAI_MODEL`, which are always set."""
    files: dict[str, str] = {}
    """Text files to write into the working directory first, by path."""


class ProgramHarness(Harness[ProgramConfig]):
    """Runs `config.argv` in the runtime. Its exit status matters only where the server saw nothing wrong."""

    NAME: ClassVar[str] = "program"
    RUNTIMES: ClassVar[tuple[str, ...]] = ("subprocess",)

    def __init__(self, config: ProgramConfig | list[str] | None = None, **settings: Any) -> None:
        if isinstance(config, list):
            config = ProgramConfig(argv=config, **settings)
        super().__init__(config if config is not None else ProgramConfig(**settings))
        if not self.config.argv:
            raise ConfigError(
                "harness 'program' has no command; give harness.argv, as in "
                "vf.Program(['python', 'agent.py', '{prompt}'])"
            )

    async def run(self, session: HarnessSession, task: Task[Any, Any, Any]) -> ProgramResult:
        for path, text in self.config.files.items():
            await session.runtime.write(path, text.encode())
        messages = [m.model_dump(mode="json", exclude_none=True) for m in opening(task)]
        await session.runtime.write("prompt.txt", task.data.prompt_text.encode())
        await session.runtime.write("messages.json", json.dumps(messages).encode())
        values = {
            "base_url": session.base_url,
            "root_url": session.root_url,
            "api_key": session.api_key,
            "model": session.model,
            "prompt": task.data.prompt_text,
            "prompt_file": "prompt.txt",
            "messages_file": "messages.json",
        }
        env = {
            "OPENAI_BASE_URL": session.base_url,
            "OPENAI_API_KEY": session.api_key,
            "OPENAI_MODEL": session.model,
        }
        env |= {name: _fill(value, values) for name, value in self.config.env.items()}
        return await session.runtime.run([_fill(item, values) for item in self.config.argv], env)


def _fill(text: str, values: dict[str, str]) -> str:
    """Replace the known fields only: other braces are the program's own."""
    for name, value in values.items():
        text = text.replace("{" + name + "}", value)
    return text
