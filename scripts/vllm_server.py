"""A vLLM server on this machine's CPU, as a context manager.

vLLM starts three processes, and killing only the first leaves the others alive: the server gets a process
group of its own, and the whole group is ended.
"""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

__all__ = ["ServerFailed", "vllm_server"]

ENVIRONMENT = {
    "HF_HUB_OFFLINE": "1",
    "TRANSFORMERS_OFFLINE": "1",
    "VLLM_NO_USAGE_STATS": "1",
    "VLLM_CPU_KVCACHE_SPACE": "1",  # GiB; by default the worker claims nearly all memory and may die of it
    "VLLM_CPU_OMP_THREADS_BIND": "nobind",  # pinned threads spin and starve each other on a shared machine
    "OMP_NUM_THREADS": "1",
}
FLAGS = ["--dtype=bfloat16", "--enforce-eager", "--max-model-len=4096", "--max-num-seqs=32"]
START_TIMEOUT_S = 900.0
STOP_TIMEOUT_S = 30.0
LOG_TAIL = 4000


class ServerFailed(RuntimeError):
    """The server ended or did not become healthy; the message holds the end of its log."""


@contextmanager
def vllm_server(
    python: Path, model: Path, name: str, flags: list[str] | None = None, timeout_s: float = START_TIMEOUT_S
) -> Iterator[str]:
    """Serve `model` as `name` with the vLLM of `python`; yield the base URL (it ends in /v1).

    Raises:
        ServerFailed: if the server is not healthy within `timeout_s` seconds.
    """
    port = _free_port()
    command = [str(python), "-m", "vllm.entrypoints.openai.api_server", f"--model={model}"]
    command += [f"--served-model-name={name}", "--host=127.0.0.1", f"--port={port}", *FLAGS, *(flags or [])]
    environment = os.environ | ENVIRONMENT
    environment.pop("PYTHONDONTWRITEBYTECODE", None)  # a first start compiles thousands of files: keep them
    with tempfile.TemporaryDirectory(prefix="vfnb-vllm-") as folder:
        log = Path(folder) / "server.log"
        with log.open("wb") as output:
            server = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=environment,
                cwd=folder,
                start_new_session=True,
            )
        try:
            _wait_until_healthy(server, f"http://127.0.0.1:{port}/health", log, timeout_s)
            yield f"http://127.0.0.1:{port}/v1"
        finally:
            _stop(server)


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def _wait_until_healthy(server: subprocess.Popen[bytes], url: str, log: Path, timeout_s: float) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + timeout_s
    while server.poll() is None and time.monotonic() < deadline:
        try:
            opener.open(url, timeout=5).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.5)
        else:
            return
    status = server.poll()
    what = "did not become healthy in time" if status is None else f"ended with status {status}"
    tail = log.read_text(errors="replace")[-LOG_TAIL:]
    raise ServerFailed(f"the vLLM server {what}; end of its log:\n{tail}")


def _stop(server: subprocess.Popen[bytes]) -> None:
    """End the whole process group: politely, then by force."""
    server.terminate()  # the API server ends its workers itself
    with suppress(subprocess.TimeoutExpired):
        server.wait(STOP_TIMEOUT_S)
    with suppress(ProcessLookupError):  # nobody is left
        os.killpg(server.pid, signal.SIGKILL)
    server.wait()
