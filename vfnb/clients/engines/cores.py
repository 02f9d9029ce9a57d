"""Small products on one core: BLAS threads that wait for each other cost many times the work itself.

Measured: a prompt of 240 tokens takes 26 ms of CPU on one core, 270 ms on two that others use as well.
"""

from __future__ import annotations

from contextlib import AbstractContextManager, nullcontext
from functools import cache
from typing import Any

__all__ = ["one_core"]


def one_core() -> AbstractContextManager[Any]:
    """Within it numpy's products use one thread; no effect where threadpoolctl is not installed."""
    controller = _controller()
    return nullcontext() if controller is None else controller.limit(limits=1, user_api="blas")


@cache
def _controller() -> Any:
    import numpy  # noqa: F401 -- its library must be loaded to be found

    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController()
