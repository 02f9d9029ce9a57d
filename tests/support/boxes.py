"""Subprocess boxes with real git repositories in them, driven from a test's own thread."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from vfnb.runtimes import Runtime, make_runtime

__all__ = ["commit", "in_box", "repository", "sh"]

_ME = "-c user.name=me -c user.email=me@example.org"


def in_box(work: Callable[[Runtime], Awaitable[Any]], kind: str = "subprocess") -> Any:
    """Run `work` with a started runtime; what it returns."""

    async def main() -> Any:
        box = make_runtime(kind)
        await box.start()
        try:
            return await work(box)
        finally:
            await box.stop()

    return asyncio.run(main())


async def sh(box: Runtime, script: str) -> str:
    """Run a shell script in the box; what it printed."""
    result = await box.run(["sh", "-ec", script])
    assert result.ok, result.stderr
    return result.stdout


async def commit(box: Runtime, message: str = "work", folder: str = ".") -> None:
    """Commit everything."""
    await sh(box, f"cd {folder} && git add -A && git {_ME} commit -q -m '{message}'")


async def repository(box: Runtime, folder: str = ".") -> None:
    """A repository with one commit: `main.py`, `data.bin`, `.gitignore`."""
    await box.write(f"{folder}/main.py", b"print('one')\n")
    await box.write(f"{folder}/data.bin", bytes(range(256)))
    await box.write(f"{folder}/.gitignore", b"*.log\n")
    await sh(box, f"cd {folder} && git init -q -b main")
    await commit(box, "start", folder)
