"""The box in which an agent program runs: its files, its environment, its standard input."""

from __future__ import annotations

import os
import shutil
from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath

from vfnb.errors import HarnessError
from vfnb.installs import Installed
from vfnb.runtimes import Runtime, SubprocessRuntime

__all__ = ["box_environment", "box_home", "check_argv", "missing_programs", "write_files"]

LONGEST_ARGUMENT = 128 * 1024 - 1  # bytes; Linux refuses a longer one (MAX_ARG_STRLEN of execve(2))
LOOPBACK = ("127.0.0.1", "localhost", "::1")
STDIN = "~/.vfnb-stdin"


def base_environment(box: Runtime) -> Mapping[str, str]:
    """What programs of a box get by themselves."""
    return box.environment if isinstance(box, SubprocessRuntime) else {}


def box_home(box: Runtime) -> str:
    """HOME of programs in a box."""
    return base_environment(box).get("HOME", "/root")


def box_environment(box: Runtime, installed: Installed) -> dict[str, str]:
    """What an installed program gets on top: its PATH, and no proxy between it and our server."""
    base = base_environment(box)
    known = base.get("NO_PROXY") or base.get("no_proxy") or ""
    direct = ",".join([*(part for part in known.split(",") if part and part not in LOOPBACK), *LOOPBACK])
    return {**installed.environment(base), "NO_PROXY": direct, "no_proxy": direct}


async def write_files(
    box: Runtime, argv: Sequence[str], files: Mapping[str, bytes | str], stdin: bytes | str | None
) -> list[str]:
    """Write the files of a command, those that begin with `#!` executable.

    Returns:
        The argument list, which also gives the program its standard input.
    """
    whole = dict(files) if stdin is None else {**files, STDIN: stdin}
    scripts = []
    for path, text in whole.items():
        data = text.encode() if isinstance(text, str) else text
        await box.write(placed(box, path), data)
        if data.startswith(b"#!"):
            scripts.append(placed(box, path))
    if scripts:
        await box.run(["chmod", "+x", *scripts])
    if stdin is None:
        return list(argv)
    return ["sh", "-c", 'input=$1; shift; exec "$@" <"$input"', "sh", placed(box, STDIN), *argv]


def placed(box: Runtime, path: str) -> str:
    """A path of a command's files as one of the box."""
    return str(PurePosixPath(box_home(box), path[2:])) if path.startswith("~/") else path


def check_argv(argv: Sequence[str], harness: str) -> None:
    """Refuse what the system would refuse, with words that help.

    Raises:
        HarnessError: an argument is too long.
    """
    longest = max(argv, key=len)
    size = len(os.fsencode(longest))
    if size > LONGEST_ARGUMENT:
        raise HarnessError(
            f"harness {harness!r} hands its prompt over as an argument, and this one is {size} bytes, which the "
            f"system does not take (limit {LONGEST_ARGUMENT}): put the long part into a file of the task, in setup"
        )


def missing_programs(names: Sequence[str]) -> list[str]:
    """Those that are not on this machine's PATH."""
    return [name for name in names if shutil.which(name) is None]
