"""A real Jupyter kernel, driven message by message."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from jupyter_client.manager import KernelManager

TESTS = Path(__file__).resolve().parents[1]


class Kernel:
    """Runs cells and keeps every output message with its time of arrival."""

    def __init__(self, timeout: float = 50) -> None:
        env = {
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent)]),
        }
        self._manager = KernelManager()
        self._manager.start_kernel(env=env)
        self.client = self._manager.blocking_client()
        self.client.start_channels()
        self.client.wait_for_ready(timeout=timeout)
        self.messages: list[tuple[float, dict[str, Any]]] = []

    def start(self, code: str) -> str:
        """Send a cell; returns the id of its request."""
        return str(self.client.execute(code))

    def run(self, code: str, timeout: float = 40) -> str:
        """Run a cell to its end; an error in it raises."""
        request = self.start(code)
        self.until_idle(request, timeout)
        return request

    def until_idle(self, request: str, timeout: float = 40) -> None:
        """Collect messages until this cell has ended."""
        end = time.monotonic() + timeout
        while True:
            message = self.client.get_iopub_msg(timeout=max(0.1, end - time.monotonic()))
            self.messages.append((time.monotonic(), message))
            if message["msg_type"] == "error":
                raise AssertionError("\n".join(message["content"]["traceback"]))
            ours = message["parent_header"].get("msg_id") == request
            if ours and message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
                return

    def of_type(self, *kinds: str) -> list[tuple[float, dict[str, Any]]]:
        """Messages of these types so far."""
        return [(at, message) for at, message in self.messages if message["msg_type"] in kinds]

    def close(self) -> None:
        """End the kernel."""
        self.client.stop_channels()
        self._manager.shutdown_kernel(now=True)
        self._manager.cleanup_resources()
