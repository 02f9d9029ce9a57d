"""Progress in plain Python: one line on a terminal, nothing elsewhere."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from vfnb.lab.progress import Progress

SCRIPT = """
import sys, time
from support.views import view
from vfnb.lab.progress import Progress
state = {"done": 0}
with Progress(lambda: view(state["done"], 16), quiet="quiet" in sys.argv):
    for done in range(17):
        state["done"] = done
        time.sleep(0.05)
print("IPython" in sys.modules)
"""


def script(*args: str, stderr: int) -> subprocess.Popen[bytes]:
    tests = Path(__file__).parents[1]
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(tests), str(tests.parent)]), "COLUMNS": "100"}
    return subprocess.Popen(
        [sys.executable, "-c", SCRIPT, *args],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=stderr,
        env=env,
    )


def terminal(*args: str) -> tuple[str, str]:
    """What a script writes to stdout, and to stderr when that is a terminal."""
    ours, theirs = pty.openpty()
    with script(*args, stderr=theirs) as process:
        os.close(theirs)
        shown = b""
        try:
            while chunk := os.read(ours, 65536):
                shown += chunk
        except OSError:  # the terminal's end on Linux
            pass
        os.close(ours)
        assert process.stdout is not None
        return process.stdout.read().decode(), shown.decode()


def test_a_terminal_gets_one_line_rewritten_in_place() -> None:
    out, shown = terminal()
    updates = shown.split("\r")[1:]
    assert out == "False\n"
    assert shown.count("\n") == 1
    assert "sums-1234 0/16" in updates[0]
    assert "sums-1234 16/16 · finished" in shown.rstrip("\r\n").split("\r")[-1]
    assert 3 <= len(updates) <= 8  # 0.85 s at four a second, first and last
    assert all(len(update.split("\x1b")[0]) < 100 for update in updates)


def test_quiet_and_pipes_get_nothing() -> None:
    assert terminal("quiet") == ("False\n", "")
    with script(stderr=subprocess.PIPE) as process:
        out, err = process.communicate(timeout=50)
    assert (out, err) == (b"False\n", b"")


def test_without_a_place_to_show_no_thread_is_started() -> None:
    before = threading.active_count()

    def never() -> object:
        raise AssertionError("no view is needed")

    with Progress(never) as progress:  # type: ignore[arg-type]
        assert threading.active_count() == before
    assert repr(progress) == "Progress(silent)"


def test_a_view_that_fails_is_reported_once_and_ends_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    class Terminal:
        def isatty(self) -> bool:
            return True

        def write(self, text: str) -> None:
            raise AssertionError("nothing to show")

        def flush(self) -> None: ...

    calls = []

    def broken() -> object:
        calls.append(threading.current_thread().name)
        raise RuntimeError("no view")

    monkeypatch.setattr(sys, "stderr", Terminal())
    with Progress(broken):  # type: ignore[arg-type]
        pass
    assert len(calls) >= 2
    assert calls[-1] == "vfnb-display"
    assert [record.message for record in caplog.records] == ["a progress view could not be shown"]
