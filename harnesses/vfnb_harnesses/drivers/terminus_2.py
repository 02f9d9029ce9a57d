"""terminus-2 of harbor: the model types into a tmux terminal of this box and reads its screen."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from harbor.agents.terminus_2 import Terminus2
from harbor.environments.base import ExecResult
from harbor.models.agent.context import AgentContext
from harbor.models.trial.paths import EnvironmentPaths

from .kit import Request, main

LOGS = Path.home() / "terminus-2"


class Terminal:
    """What the agent calls its environment, on this machine: it needs `exec` and few things besides."""

    session_id = "local"
    default_user = None
    trial_paths = SimpleNamespace(agent_dir=LOGS)

    async def exec(
        self, command: str, *, timeout_sec: int | None = None, user: object = None, **_: object
    ) -> Any:
        """Run a shell command; the agent's folder of logs is a private one."""
        process = await asyncio.create_subprocess_exec(
            "bash",
            "-c",
            command.replace(str(EnvironmentPaths.agent_dir), str(LOGS)),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        try:
            out, err = await asyncio.wait_for(process.communicate(), timeout_sec)
        except TimeoutError:
            process.kill()
            await process.wait()
            raise
        return ExecResult(
            stdout=out.decode(errors="replace"),
            stderr=err.decode(errors="replace"),
            return_code=process.returncode,
        )

    async def is_dir(self, path: str) -> bool:
        """Whether a folder is there."""
        return await asyncio.to_thread(Path(path).is_dir)


class Agent(Terminus2):  # type: ignore[misc]
    """Terminus 2, whose calls for a summary say what they are for."""

    async def _run_subagent(self, *args: Any, **named: Any) -> Any:
        self._llm_call_kwargs["extra_headers"] = {"x-vfnb-kind": "compaction"}
        try:
            return await super()._run_subagent(*args, **named)
        finally:
            del self._llm_call_kwargs["extra_headers"]


async def run(request: Request) -> dict[str, Any]:
    """Solve the task."""
    LOGS.mkdir()
    os.environ["TMUX_TMPDIR"] = str(LOGS)  # a tmux server of this rollout's own
    profile = Path.home() / ".bash_profile"  # the terminal is a login shell, which would forget the PATH
    profile.write_text(f"export PATH='{os.environ['PATH']}'\n")
    agent = Agent(
        LOGS,
        request.model,
        api_base=request.base_url,
        llm_kwargs={"custom_llm_provider": "openai", "api_key": request.api_key},
        use_responses_api=request.dialect == "responses",
        record_terminal_session=False,
        skills_dir=str(Path.home() / "skills"),
        **request.settings,
    )
    terminal = Terminal()
    await agent.setup(terminal)
    try:
        await agent.run(request.prompt, terminal, AgentContext())
    finally:
        await terminal.exec("tmux kill-server")
    return {}


if __name__ == "__main__":
    main(lambda request: asyncio.run(run(request)))
