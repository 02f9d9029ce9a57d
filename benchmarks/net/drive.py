"""Put a load on a server and count what the server spends."""

from __future__ import annotations

import json
from typing import Any

from benchmarks.forms import FORMS
from benchmarks.processes import Helper, cpu_s, helper, python

__all__ = ["REPLY_BYTES", "drive"]

REPLY_BYTES = 400


def drive(server: Helper, dialect: str = "chat", **job: Any) -> dict[str, float]:
    """Run one job of `net.load` on a server.

    Adds `cpu_ms`, the server's CPU time per request.

    Raises:
        RuntimeError: if any reply was not a 200.
    """
    defaults = {"requests": 400, "warm": 64, "stream": False, "turn_bytes": 0, "reply_bytes": REPLY_BYTES}
    with helper(python("net.load")) as load:
        url = server.ready["url"].replace(FORMS["chat"].path, FORMS[dialect].path)
        load.ask(json.dumps({"dialect": dialect, "url": url, "keys": server.ready["keys"]} | defaults | job))
        before = cpu_s(server.pid)
        result: dict[str, float] = load.ask()
        spent = cpu_s(server.pid) - before
    if result["bad"]:
        raise RuntimeError(f"{result['bad']:.0f} of {result['count']:.0f} calls failed: {job}")
    return result | {"cpu_ms": 1000 * spent / result["count"]}
