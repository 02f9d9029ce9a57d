"""What runs for vLLM engines: ended with its engine, and at the latest when the interpreter leaves."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

from vfnb import loops

if TYPE_CHECKING:
    from vfnb.clients.engines.vllm_http import Server
    from vfnb.clients.engines.vllm_kernel import Kernel
    from vfnb.clients.engines.vllm_process import Child

__all__ = ["Live", "end_later"]


class Live:
    """What runs for an engine. It outlives it long enough to be ended."""

    def __init__(self) -> None:
        self.kernel: Kernel | None = None
        self.child: Child | None = None
        self.server: Server | None = None

    def hold(self, **parts: Any) -> None:
        for name, part in parts.items():
            setattr(self, name, part)
        _living.add(self)

    @property
    def alive(self) -> bool:
        if self.kernel is not None:
            return self.kernel.alive
        if self.child is not None:
            return self.child.alive
        return self.server is not None

    async def close_server(self) -> None:
        server, self.server = self.server, None
        if server is not None:
            await server.close()

    def end(self) -> None:
        """Blocks; from any thread, harmless when repeated."""
        kernel, self.kernel = self.kernel, None
        child, self.child = self.child, None
        server, self.server = self.server, None
        if server is not None:
            server.drop()
        if kernel is not None:
            kernel.stop()
        if child is not None:
            child.stop()
        _living.discard(self)


_living: set[Live] = set()


def end_later(live: Live) -> None:
    """Nobody holds the engine any more. It takes seconds, and this may be any thread."""
    threading.Thread(target=live.end, name="vfnb-vllm-end").start()


def _end_all() -> None:
    for live in list(_living):
        live.end()


loops.at_exit(_end_all)
