"""Where a display goes: the Jupyter kernel of this process, if there is one. Never imports IPython."""

from __future__ import annotations

import sys
from typing import Any

__all__ = ["cell", "publisher", "show"]


def publisher() -> Any | None:
    """The display publisher of the running kernel; None in scripts, plain Python and terminal IPython."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None and hasattr(ipython, "get_ipython") else None
    return shell.display_pub if shell is not None and hasattr(shell, "kernel") else None


def cell() -> str | None:
    """The request by which the cell that runs now was started; None outside a kernel."""
    header = getattr(publisher(), "parent_header", None)
    return header.get("msg_id") if isinstance(header, dict) else None


def show(bundle: dict[str, Any]) -> None:
    """Display a bundle in the current cell, or print its text where there is no cell."""
    kernel = publisher()
    if kernel is None:
        print(bundle["text/plain"])
    else:
        kernel.publish(data=bundle)
