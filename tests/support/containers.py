"""A kind of runtime that counts as a container, over the subprocess one: the contract without an engine."""

from __future__ import annotations

import tempfile
from pathlib import PurePath
from typing import Any, ClassVar, Literal

from vfnb.runtimes import RuntimeConfig, SubprocessRuntime, register_runtime

__all__ = ["ToyConfig", "ToyContainer"]


class ToyConfig(RuntimeConfig):
    """What a kind of container declares; `gpu` and `disk` are missing: it cannot give them."""

    type: Literal["toy"] = "toy"
    image: str = "toy:latest"
    workdir: str | None = None
    network: dict[str, Any] | None = None
    cpu: float | None = None
    memory: float | None = 2.0


class ToyContainer(SubprocessRuntime):
    """Remembers the settings with which each box was made."""

    type: ClassVar[str] = "toy"
    IS_CONTAINER: ClassVar[bool] = True
    made: ClassVar[list[ToyConfig]] = []

    def __init__(self, config: ToyConfig) -> None:
        super().__init__()
        self.made.append(config)

    async def read(self, path: str | PurePath) -> bytes:
        return await super().read(_own(path))

    async def write(self, path: str | PurePath, data: bytes) -> None:
        await super().write(_own(path), data)


def _own(path: str | PurePath) -> PurePath:
    """A path of the box; its own root folder is the working folder."""
    pure = PurePath(path)
    inside = pure.is_absolute() and not pure.is_relative_to(tempfile.gettempdir())
    return pure.relative_to("/") if inside else pure


register_runtime(ToyConfig, ToyContainer)
