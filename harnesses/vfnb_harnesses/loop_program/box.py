"""The tools that the program runs by itself: a shell and files."""

from __future__ import annotations

import os
import signal
import subprocess
import threading

from .words import LARGEST_FILE, decoded, excerpt, replaced, report

TYPE_CHECKING = False  # importing typing would cost start time
if TYPE_CHECKING:
    from typing import Any

__all__ = ["Local", "Output"]


class Local:
    """The tools that this program runs by itself, by name. What they raise, the model reads."""

    def __init__(self, settings: dict[str, Any], limit: int) -> None:
        self.settings, self.limit = settings, limit

    def bash(self, values: dict[str, Any]) -> str:
        seconds = min(values.get("timeout", self.settings["timeout"]), self.settings["timeout"])
        env = {name: value for name, value in os.environ.items() if not name.startswith("OPENAI_")}
        argv = [self.settings["shell"], "-c", values["command"]]
        process = subprocess.Popen(
            argv,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            env=env,
            start_new_session=True,
        )
        output = Output(self.limit)
        assert process.stdout is not None
        reader = threading.Thread(target=output.drain, args=(process.stdout.fileno(),), daemon=True)
        reader.start()
        late = None
        try:
            process.wait(seconds)
        except subprocess.TimeoutExpired:
            late = seconds
            _end(process)
        reader.join(0.5)  # a child that went to the background may hold the pipe open
        return report(output.text(), process.returncode, late, self.limit, output.lost)

    def read(self, values: dict[str, Any]) -> str:
        text = self._text(values["path"])
        return excerpt(text, values.get("offset", 1), values.get("limit"), self.limit)

    def write(self, values: dict[str, Any]) -> str:
        path = values["path"]
        os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
        with open(path, "w", encoding="utf-8", newline="") as file:
            file.write(values["content"])
        return f"wrote {len(values['content'])} characters to {path}"

    def edit(self, values: dict[str, Any]) -> str:
        text, told = replaced(self._text(values["path"]), values)
        with open(values["path"], "w", encoding="utf-8", newline="") as file:
            file.write(text)
        return told

    def _text(self, path: str) -> str:
        if os.path.exists(path) and not os.path.isfile(path):
            raise ValueError(f"{path} is no file")
        if os.path.isfile(path) and os.path.getsize(path) > LARGEST_FILE:
            raise ValueError(f"{path} is larger than {LARGEST_FILE // 10**6} MB; look at it with a command")
        with open(path, "rb") as file:
            return decoded(file.read(), path)


def _end(process: subprocess.Popen[bytes]) -> None:
    """End a command and what it started: SIGTERM, two seconds, SIGKILL."""
    os.killpg(process.pid, signal.SIGTERM)
    try:
        process.wait(2)
    except subprocess.TimeoutExpired:
        pass
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        return
    process.wait()


class Output:
    """The start and the end of a stream, enough of it to show `limit` characters."""

    def __init__(self, limit: int) -> None:
        self.half = 4 * limit  # bytes: a character has at most four
        self.head, self.tail = bytearray(), bytearray()
        self.lost = 0
        """Bytes between the two that were not kept."""

    def drain(self, pipe: int) -> None:
        """Read a file descriptor to its end."""
        while data := os.read(pipe, 65536):
            room = max(self.half - len(self.head), 0)
            self.head += data[:room]
            self.tail += data[room:]
            extra = len(self.tail) - self.half
            if extra > self.half:
                del self.tail[:extra]
                self.lost += extra

    def text(self) -> str:
        """What was kept."""
        return bytes(self.head + self.tail).decode(errors="replace")
