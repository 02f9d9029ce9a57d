"""Create the peer's environment.

    python -m benchmarks.peer.setup

`VFNB_BENCH` names the folder, by default `vfnb-bench` in the user's cache. It gets the same Python as ours.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

__all__ = ["FOLDER", "PYTHON", "present"]

FOLDER = Path(os.environ.get("VFNB_BENCH", Path.home() / ".cache" / "vfnb-bench"))
PYTHON = FOLDER / "venv" / "bin" / "python"
REQUIREMENTS = ("verifiers==0.4.0", "msgspec", "numpy", "psutil")


def present() -> bool:
    """Whether the environment is there."""
    return PYTHON.is_file() and (FOLDER / "ready").is_file()


def create() -> None:
    uv = Path(sys.executable).with_name("uv")
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    commands = [
        [uv, "venv", "--quiet", "--clear", f"--python={sys.executable}", FOLDER / "venv"],
        [uv, "pip", "install", "--quiet", f"--python={PYTHON}", "--compile-bytecode", *REQUIREMENTS],
    ]
    FOLDER.mkdir(parents=True, exist_ok=True)
    for command in commands:
        subprocess.run([str(part) for part in command], check=True, env=environment)
    (FOLDER / "ready").touch()


if __name__ == "__main__":
    if not present():
        create()
    print(f"The peer's Python: {PYTHON}")
