"""A kind of runtime that counts as a container, over the subprocess one: the contract without an engine."""

from __future__ import annotations

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


register_runtime(ToyConfig, ToyContainer)
