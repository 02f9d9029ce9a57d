"""Programs of this machine, each rollout with a folder, a HOME and a scrubbed environment of its own."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Collection, Mapping, Sequence
from typing import Any, ClassVar

from vfnb import loops
from vfnb.errors import RuntimeFault
from vfnb.runtimes import warden
from vfnb.runtimes.base import PathLike, ProgramResult, Runtime
from vfnb.runtimes.box import Box
from vfnb.runtimes.config import SubprocessConfig, register_runtime
from vfnb.runtimes.environ import scrubbed
from vfnb.runtimes.program import Program
from vfnb.runtimes.strays import end_processes, now, put_tag
from vfnb.utils.ids import new_id

__all__ = ["MARKER", "SubprocessRuntime"]

SETTLE_S = 2.0  # beyond the grace: what is not gone by then hangs inside the kernel
MARKER = "VFNB_BOX"
"""Variable by which every process of a box is found again, however it went to the background."""


class SubprocessRuntime(Runtime):
    """Keeps rollouts apart and leaves nothing behind; it does not protect this machine from a program."""

    type: ClassVar[str] = "subprocess"

    def __init__(self, config: SubprocessConfig | None = None) -> None:
        self.config = config or SubprocessConfig()
        self._box = Box(self.config.workdir, self.config.file_limit)
        self._marker = new_id()
        self._tag = warden.current().tag()
        self._since = now()
        self._programs: list[Program] = []
        self._awaited: set[Program] = set()
        self._stopped = False

    async def start(self) -> None:
        """Make the folder.

        Raises:
            RuntimeFault: it cannot be made.
        """
        self._stopped = False
        try:
            await asyncio.to_thread(lambda: self._box.root)
        except OSError as error:
            raise RuntimeFault(f"cannot make the runtime's folder: {error}") from error

    async def stop(self) -> None:
        await loops.engine().do(self._stop())

    async def _stop(self) -> None:
        self._stopped = True
        programs, self._programs = self._programs, []
        if programs:
            await asyncio.gather(*(program.stop() for program in programs if program.running))
            sessions = {program.pid for program in programs if program.orphans}
            await asyncio.to_thread(self._sweep, sessions, self.config.grace)
            await asyncio.gather(*(program.close() for program in programs))
        if self._box.made:
            await asyncio.to_thread(self._box.remove)

    def cleanup(self) -> None:
        self._stopped = True
        programs, self._programs = self._programs, []
        for program in programs:
            program.kill()
        if programs:
            self._sweep((), 0)
        self._box.remove()

    def _sweep(self, sessions: Collection[int], grace: float) -> None:
        """End what went to the background."""
        tags = range(self._tag, self._tag + 1)
        end_processes(f"{MARKER}={self._marker}", sessions, tags, self._since, grace=grace)

    async def run(
        self,
        argv: Sequence[str],
        env: Mapping[str, str] | None = None,
        *,
        cwd: PathLike | None = None,
        timeout: float | None = None,
        background: bool = False,
    ) -> Any:
        if background:
            return await loops.engine().do(self._launch(argv, env or {}, cwd))
        return await loops.engine().do(self._finish(argv, env or {}, cwd, timeout))

    async def _finish(
        self, argv: Sequence[str], env: Mapping[str, str], cwd: PathLike | None, timeout: float | None
    ) -> ProgramResult:
        program = await self._launch(argv, env, cwd)
        self._awaited.add(program)
        try:
            return await program.finish(timeout)
        finally:
            self._awaited.discard(program)

    async def settle(self) -> None:
        await loops.engine().do(self._settle())

    async def _settle(self) -> None:
        waits = [asyncio.ensure_future(program.wait()) for program in self._awaited]
        if waits:
            _, late = await asyncio.wait(waits, timeout=self.config.grace + SETTLE_S)
            for wait in late:
                wait.cancel()

    async def _launch(self, argv: Sequence[str], env: Mapping[str, str], cwd: PathLike | None) -> Program:
        if self._stopped:
            raise RuntimeFault(f"cannot run {argv[0]!r}: the runtime is stopped")
        if isinstance(argv, str) or not argv:
            raise RuntimeFault(f"argv must be a list of program and arguments, got {argv!r}; use shlex.split")
        folder = self._box.path(cwd, inside=False) if cwd is not None else self._box.work
        launching = Program.launch(
            [os.fspath(part) for part in argv],
            self.environment | dict(env),
            folder,
            self.config.output_limit,
            self.config.grace,
        )
        program = await launching
        put_tag(program.pid, self._tag)
        self._programs.append(program)
        return program

    @property
    def environment(self) -> dict[str, str]:
        """What every program of this box gets."""
        root = self._box.root
        return {
            **scrubbed(os.environ, self.config.pass_env),
            **self.config.env,
            "HOME": str(root / "home"),
            "TMPDIR": str(root / "tmp"),
            "PWD": str(self._box.work),
            MARKER: self._marker,
            **warden.current().guard(),
        }

    async def read(self, path: PathLike) -> bytes:
        return await asyncio.to_thread(self._box.read, path)

    async def write(self, path: PathLike, data: bytes) -> None:
        await asyncio.to_thread(self._box.write, path, data)

    def __repr__(self) -> str:
        running = sum(program.running for program in self._programs)
        return (
            f"<SubprocessRuntime {self._box.work if self._box.made else 'no folder yet'} running={running}>"
        )


register_runtime(SubprocessConfig, SubprocessRuntime)
