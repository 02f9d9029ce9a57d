"""The process in which expressions of models are compared: one JSON object a line in, one out.

Symbolic algebra on hostile input can take any time and memory, and its own time limit works in a main thread only.
So it has a process that can be ended. It leaves by itself when its input ends or nothing came for a minute.
"""

from __future__ import annotations

import json
import logging
import os
import resource
import select
import sys
from typing import Any

__all__ = ["main"]

IDLE_S = 60.0
MEMORY = 4 << 30  # bytes of address space


def main() -> None:
    """Answer until the input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)  # what libraries print must not get between the answers
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    logging.disable(logging.CRITICAL)
    from math_verify import parse, verify

    def equal(gold: str, given: str) -> bool:
        expected, found = (parse(f"\\boxed{{{text}}}", parsing_timeout=0) for text in (gold, given))
        return bool(verify(expected, found, timeout_seconds=None))

    def tell(value: dict[str, Any]) -> None:
        answers.write(json.dumps(value) + "\n")
        answers.flush()

    tell({"ready": True})
    while select.select([0], [], [], IDLE_S)[0]:
        line = sys.stdin.readline()
        if not line:
            return
        asked = json.loads(line)
        try:
            tell({"equal": equal(asked["gold"], asked["given"])})
        except (Exception, RecursionError, MemoryError):
            tell({"equal": False})


if __name__ == "__main__":
    main()
