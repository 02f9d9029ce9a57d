"""The runtime without programs."""

from __future__ import annotations

import asyncio
import tempfile
from pathlib import Path

import pytest

from vfnb.errors import ConfigError, MissingFile
from vfnb.runtimes import InProcessRuntime


def test_files_come_with_the_first_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def entries() -> int:
        return len(list(tmp_path.iterdir()))

    async def main() -> None:
        runtime = InProcessRuntime()
        await runtime.start()
        assert entries() == 0
        await runtime.write("a/b.txt", b"x")
        assert await runtime.read("a/b.txt") == b"x"
        with pytest.raises(MissingFile):
            await runtime.read("a/c.txt")
        assert entries() == 1
        await runtime.stop()
        assert entries() == 0
        runtime.cleanup()

    asyncio.run(main())


def test_forgotten_runtime_leaves_no_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    runtime: InProcessRuntime | None = InProcessRuntime()
    assert runtime is not None
    asyncio.run(runtime.write("f", b""))
    assert len(list(tmp_path.iterdir())) == 1
    runtime = None
    assert list(tmp_path.iterdir()) == []


def test_programs_are_refused_with_the_fix() -> None:
    with pytest.raises(ConfigError, match=r'runs no programs \(git\); use runtime="subprocess"'):
        asyncio.run(InProcessRuntime().run(["git", "status"]))
