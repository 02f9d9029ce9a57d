"""The warden's own program: waits for its owner's end, then clears up. Standard library only, run by its path."""

from __future__ import annotations

import contextlib
import importlib.util
import os
import resource
import select
import signal
import sys
from pathlib import Path
from typing import Any

_GRACE_S = 0.5  # from SIGTERM to SIGKILL: nobody reads any more what the programs have to say


def main(marker: str, first: str, end: str, prefix: str) -> None:
    """Until the owner is gone, keep its folders in mind."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # meant for the owner or its whole group
    strays = _load("strays")
    _, hard = resource.getrlimit(strays.TAG_LIMIT)  # whoever started our owner may have put a tag on it
    resource.setrlimit(strays.TAG_LIMIT, (hard, hard))
    folders = _wait(prefix)
    strays.end_processes(marker, tags=range(int(first), int(end)), grace=_GRACE_S)
    for folder in folders:
        strays.delete_folder(folder)


def _load(name: str) -> Any:
    path = Path(__file__).with_name(f"{name}.py")
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def _wait(prefix: str) -> set[Path]:
    """Read folders (`+path`, `-path`, each ended by a zero byte) until the owner ends; those that are left."""
    watched = [0]
    with contextlib.suppress(
        AttributeError, OSError
    ):  # wakes us even if some process holds a copy of the pipe
        watched.append(os.pidfd_open(os.getppid()))
    folders: set[Path] = set()
    rest = b""
    while True:
        ready = select.select(watched, [], [])[0]
        if 0 not in ready:
            return folders
        data = os.read(0, 65536)
        if not data:
            return folders
        *lines, rest = (rest + data).split(b"\0")
        for line in lines:
            path = Path(os.fsdecode(line[1:]))
            if line[:1] == b"-":
                folders.discard(path)
            elif path.is_absolute() and path.name.startswith(prefix) and not path.is_symlink():
                folders.add(path)


if __name__ == "__main__":
    main(*sys.argv[1:])
