"""Running installers: their output is kept for the error, and they end with whoever asked for them."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path

from vfnb.errors import InstallError

__all__ = ["TAIL", "run", "tail"]

TAIL = 2000  # characters of an installer's output in an error
_USER_IN_URL = re.compile(r"://[^/@\s]+@")


def tail(output: str) -> str:
    """The end of an output, without credentials of URLs."""
    text = _USER_IN_URL.sub("://***@", output.strip())
    return text if len(text) <= TAIL else "..." + text[-TAIL:]


async def run(argv: Sequence[str | Path], *, cwd: Path, env: Mapping[str, str], doing: str) -> str:
    """The output of a command, both streams together. Cancelling ends it with all that it started.

    Args:
        doing: what it is for, as in `installing codex 0.171.0`.

    Raises:
        InstallError: it cannot be started or ends with another status than 0.
    """
    words = [os.fspath(word) for word in argv]
    try:
        process = await asyncio.create_subprocess_exec(
            *words,
            cwd=cwd,
            env=dict(env),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,
        )
    except OSError as error:
        raise InstallError(f"{doing}: cannot run {words[0]}: {error}") from error
    try:
        output, _ = await process.communicate()
    except BaseException:
        _kill(process.pid)
        await process.wait()
        raise
    text = output.decode("utf-8", "replace")
    if process.returncode != 0:
        shown = " ".join(Path(word).name for word in words[:3])
        raise InstallError(f"{doing}: `{shown} ...` ended with status {process.returncode}:\n{tail(text)}")
    return text


def _kill(group: int) -> None:
    try:
        os.killpg(group, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        return
