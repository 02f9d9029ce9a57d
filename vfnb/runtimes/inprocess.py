"""The runtime of harnesses that are Python functions: files, no programs."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from typing import ClassVar, NoReturn

from vfnb.errors import ConfigError
from vfnb.runtimes.archive import Archive
from vfnb.runtimes.base import PathLike, Runtime
from vfnb.runtimes.box import Box
from vfnb.runtimes.config import InProcessConfig, register_runtime

__all__ = ["InProcessRuntime"]


class InProcessRuntime(Runtime):
    """Costs nothing until a file is written; then it is a temporary folder."""

    type: ClassVar[str] = "inprocess"
    RUNS_PROGRAMS: ClassVar[bool] = False

    def __init__(self, config: InProcessConfig | None = None) -> None:
        self.config = config or InProcessConfig()
        self._box = Box(self.config.workdir, self.config.file_limit)

    async def start(self) -> None:
        """Nothing to provision."""

    async def stop(self) -> None:
        """Delete the folder, if there is one."""
        if self._box.made:
            await asyncio.to_thread(self._box.remove)

    def cleanup(self) -> None:
        """Delete the folder, if there is one."""
        self._box.remove()

    async def run(
        self,
        argv: Sequence[str],
        env: Mapping[str, str] | None = None,
        *,
        cwd: PathLike | None = None,
        timeout: float | None = None,
        background: bool = False,
    ) -> NoReturn:
        """Refuse: there are no programs here.

        Raises:
            ConfigError: always; it names the fix.
        """
        program = argv[0] if argv else "a program"
        raise ConfigError(f'the in-process runtime runs no programs ({program}); use runtime="subprocess"')

    async def read(self, path: PathLike) -> bytes:
        return await asyncio.to_thread(self._box.read, path)

    async def write(self, path: PathLike, data: bytes) -> None:
        await asyncio.to_thread(self._box.write, path, data)

    async def pack(self, paths: Sequence[str], *, base: str = ".", limit: int) -> Archive:
        return await asyncio.to_thread(self._box.pack, paths, limit)

    async def unpack(self, archive: Archive, *, base: str = ".") -> None:
        await asyncio.to_thread(self._box.unpack, archive)

    def __repr__(self) -> str:
        return "<InProcessRuntime>"


register_runtime(InProcessConfig, InProcessRuntime)
