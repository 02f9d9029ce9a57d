"""A vLLM server as a child of this process: its own process group, a private socket, and nothing left of it."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import subprocess
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from vfnb.clients.engines.loading import Loading
from vfnb.errors import UpstreamServerError
from vfnb.runtimes import strays, warden

__all__ = ["Child", "flags"]

_PROGRAM = Path(__file__).with_name("vllm_child.py")
_ENVIRONMENT = {
    "VLLM_NO_USAGE_STATS": "1",
    "DO_NOT_TRACK": "1",
    "VLLM_SERVER_DEV_MODE": "1",  # weight updates; nobody but this user can reach the socket
    "VLLM_ALLOW_RUNTIME_LORA_UPDATING": "True",
}
_TAIL = 4000  # characters of the log in an error
_POLL_S = 0.25
_GRACE_S = 20.0  # the API server ends its workers by itself, which takes some seconds
_NOBODY = "VFNB_OWNER="  # a mark that no process has: only the session is looked for


class Child:
    """One server. It ends with `stop`, with the interpreter, and by the warden if this process is killed.

    Args:
        python: interpreter that has vLLM.
        model: a folder or a name on the hub.
        name: under which it is served.
        settings: arguments of vLLM's server, e.g. `max_model_len=4096`.
    """

    def __init__(self, python: str, model: str, name: str, settings: Mapping[str, Any]) -> None:
        self._command = [
            python,
            str(_PROGRAM),
            f"--model={model}",
            f"--served-model-name={name}",
            *flags(settings),
        ]
        self._local = Path(model).is_dir()
        self._guard = warden.current()
        self._folder = Path(tempfile.gettempdir()) / f"{warden.FOLDER}vllm-{os.urandom(6).hex()}"
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def socket(self) -> str:
        """Where it listens; only this user may connect."""
        return str(self._folder / "socket")

    @property
    def pid(self) -> int | None:
        """Its process, which is also its group."""
        return None if self._process is None else self._process.pid

    @property
    def alive(self) -> bool:
        """Whether it runs."""
        return self._process is not None and self._process.poll() is None

    @property
    def log(self) -> str:
        """The end of what it has written."""
        try:
            return (self._folder / "log").read_text(errors="replace")[-_TAIL:]
        except OSError:
            return ""

    def launch(self) -> None:
        """Start the process.

        Raises:
            UpstreamServerError: the interpreter cannot be started.
        """
        self._guard.watch(self._folder)
        self._folder.mkdir(mode=0o700)
        environment = {**os.environ, **_ENVIRONMENT, **self._guard.guard()}
        environment.pop(
            "PYTHONDONTWRITEBYTECODE", None
        )  # a first start compiles thousands of files: keep them
        environment.pop("PYTHONPATH", None)  # it is another environment's
        if self._local:
            environment |= {"HF_HUB_OFFLINE": "1", "TRANSFORMERS_OFFLINE": "1"}
        try:
            with (self._folder / "log").open("wb") as output:
                self._process = subprocess.Popen(
                    [*self._command, f"--uds={self.socket}"],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=environment,
                    cwd=self._folder,
                    start_new_session=True,
                )
        except OSError as error:
            self.stop()
            raise UpstreamServerError(f"{self._command[0]} cannot be started: {error}") from error
        strays.put_tag(self._process.pid, self._guard.tag())

    async def ready(self, report: Loading, timeout: float) -> None:
        """Wait until it answers.

        Raises:
            UpstreamServerError: it ended or took longer than `timeout` seconds; with the end of its log.
        """
        import aiohttp

        deadline = time.monotonic() + timeout
        async with aiohttp.ClientSession(connector=aiohttp.UnixConnector(self.socket)) as session:
            while self.alive and time.monotonic() < deadline:
                report(_last(self.log))
                with contextlib.suppress(aiohttp.ClientError, OSError, TimeoutError):
                    async with session.get("http://vllm/health", timeout=aiohttp.ClientTimeout(5)) as answer:
                        if answer.status == 200:
                            return
                await asyncio.sleep(_POLL_S)
        status = None if self._process is None else self._process.poll()
        what = f"was not ready within {timeout:.0f} s" if status is None else f"ended with status {status}"
        raise UpstreamServerError(f"the vLLM server {what}; the end of its log:\n{self.log}")

    def stop(self) -> None:
        """End the whole group, politely and then by force, and remove what it had. Blocks for some seconds."""
        process = self._process
        if process is not None:
            sessions = [process.pid]
            memory = strays.shared_memory(strays.find_processes(_NOBODY, sessions))
            if process.poll() is None:
                process.terminate()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(_GRACE_S)
            strays.end_processes(_NOBODY, sessions, grace=0)
            strays.signal_group(process.pid, signal.SIGKILL)  # where there is no /proc
            process.wait()
            strays.free_memory(memory)
        strays.delete_folder(self._folder)
        self._guard.forget(self._folder)


def flags(settings: Mapping[str, Any]) -> list[str]:
    """Settings as flags: `max_model_len=4096` is `--max-model-len=4096`, False is `--no-...`, a dict is JSON.

    Token input is on, and log-probabilities are of the distribution that is sampled from.
    """
    import json

    found = {"enable_scale_out": True, "logprobs_mode": "processed_logprobs", **settings}
    made = []
    for name, value in found.items():
        flag = name.replace("_", "-")
        if isinstance(value, bool):
            made.append(f"--{flag}" if value else f"--no-{flag}")
        elif isinstance(value, dict):
            made.append(f"--{flag}={json.dumps(value)}")
        elif isinstance(value, list | tuple):
            made += [f"--{flag}", *map(str, value)]
        elif value is not None:
            made.append(f"--{flag}={value}")
    return made


def _last(log: str) -> str:
    lines = [line for line in log.splitlines() if line.strip()]
    return lines[-1].rpartition("] ")[2] if lines else "starting"
