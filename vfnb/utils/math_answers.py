"""Mathematical equality of answers, by math-verify (the `math` extra), in processes that can be ended."""

from __future__ import annotations

import atexit
import importlib.util
import json
import os
import queue
import select
import subprocess
import sys
import time
from typing import Any

from vfnb.errors import MissingExtra, VfnbError
from vfnb.utils.answers import extract_boxed_answer, visible

__all__ = ["verify_boxed_math_answer"]

START_S = 60.0
"""Longest start of a worker; it loads sympy."""
WORKERS = max(1, min(4, (os.cpu_count() or 1) // 2))


def verify_boxed_math_answer(response: str | None, answer: str, *, timeout: float = 5.0) -> float:
    r"""1.0 if the last `\boxed{...}` of a reply equals the reference as mathematics, else 0.0.

    Without a box, with one that is no mathematics, or with one that takes longer than `timeout` to compare, the
    answer is wrong. Text in `<think>` tags is left out. It blocks its thread: call it from a sync hook, or an async
    one that awaits nothing, which both run in a thread.

    Args:
        response: a reply.
        answer: the reference, in LaTeX or plain, with or without a box.
        timeout: seconds for one comparison.

    Raises:
        MissingExtra: math-verify is not installed.
        ValueError: the reference is empty.
    """
    gold = (extract_boxed_answer(answer, strict=True) or answer).strip()
    if not gold:
        raise ValueError("the reference answer is empty")
    _check_installed()
    given = extract_boxed_answer(visible(response), strict=True).strip()
    if not given:
        return 0.0
    if given == gold:
        return 1.0
    worker = _free.get()
    try:
        return float(worker.equal(gold, given, timeout))
    finally:
        _free.put(worker)


def _check_installed() -> None:
    try:
        found = importlib.util.find_spec("math_verify") is not None
    except ValueError:  # a placeholder in sys.modules
        found = False
    if not found:
        raise MissingExtra("verify_boxed_math_answer needs math-verify: pip install 'vfnb[math]'")


class _Worker:
    """One process, started on first use and again after it was ended."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None

    def equal(self, gold: str, given: str, timeout: float) -> bool:
        """Whether two expressions are equal; False if that takes too long."""
        request = json.dumps({"gold": gold, "given": given}).encode() + b"\n"
        for _ in range(2):  # an idle process may leave just now
            process = self._process if self._process is not None and self._process.poll() is None else None
            if process is None:
                process = self._start()
            assert process.stdin is not None
            try:
                process.stdin.write(request)
                process.stdin.flush()
                reply = self._read(timeout)
            except BrokenPipeError:
                reply = {}
            if reply is None:
                self.end()
                return False
            if reply:
                return bool(reply["equal"])
            self.end()
        return False  # the comparison ends the process, by its memory limit for example

    def _start(self) -> subprocess.Popen[bytes]:
        self.end()
        argv = [sys.executable, "-m", "vfnb.utils.math_worker"]
        self._process = subprocess.Popen(
            argv,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,  # an interrupt of the notebook is not its own
        )
        if not self._read(START_S):
            code = self._process.poll()
            self.end()
            raise VfnbError(f"the process that compares answers does not start (exit status {code})")
        return self._process

    def _read(self, timeout: float) -> dict[str, Any] | None:
        """The next line; `{}` at the end of the output, None if nothing comes in time."""
        assert self._process is not None
        assert self._process.stdout is not None
        handle, line = self._process.stdout.fileno(), b""
        until = time.monotonic() + timeout
        while not line.endswith(b"\n"):
            if not select.select([handle], [], [], max(0.0, until - time.monotonic()))[0]:
                return None
            data = os.read(handle, 65536)
            if not data:
                return {}
            line += data
        answer: dict[str, Any] = json.loads(line)
        return answer

    def end(self) -> None:
        """End the process."""
        process, self._process = self._process, None
        if process is None:
            return
        process.kill()
        process.wait()
        for pipe in (process.stdin, process.stdout):
            assert pipe is not None
            try:
                pipe.close()
            except BrokenPipeError:
                continue


_free: queue.LifoQueue[_Worker] = queue.LifoQueue()
_workers = [_Worker() for _ in range(WORKERS)]
for _one in _workers:
    _free.put(_one)


@atexit.register
def _end_all() -> None:
    for worker in _workers:
        worker.end()
