"""A program that is installed by the first rollouts of a run: shown while it lasts, ended with the run."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.addition import add, taskset
from support.html_rules import check_bundle
from support.tiny_programs import TinyAgent, npm_package

import vfnb as vf
from vfnb.installs import Node, Npm, Recipe, ensure
from vfnb.loops import engine

pytestmark = pytest.mark.usefixtures("programs")


def until(condition: Callable[[], object], seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def waiting(gate: Path) -> list[str]:
    found = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            found += [path.parent.name] if str(gate).encode() in path.read_bytes() else []
        except OSError:
            continue
    return found


def test_a_run_shows_the_installation_and_cancelling_the_run_ends_it(tmp_path: Path) -> None:
    engine().run(ensure(Node()))
    gate = tmp_path / "gate"
    gate.touch()
    package = npm_package(tmp_path, scripts={"preinstall": f"while [ -e {gate} ]; do sleep 0.1; done"})

    class Slow(TinyAgent):
        def recipe(self) -> Recipe:
            return Npm(package, "3.1.4", program="tiny-node")

        async def run(self, session: Any, task: Any) -> Any:
            raise AssertionError("it is never installed")

    run = vf.evaluate(taskset(5), model=vf.Scripted(add), harness=Slow(), concurrency=3, dir=tmp_path / "run")
    until(lambda: waiting(gate))
    view = run._view()
    assert len(view.doing) == 1 and view.doing[0].startswith("tiny-node 3.1.4: installing (")
    assert "now: tiny-node 3.1.4: installing (" in str(run)
    from vfnb.lab.display import run_bundle, run_line

    check_bundle(run_bundle(view))
    assert "tiny-node 3.1.4: installing" in run_line(view)
    begin = time.monotonic()
    run.cancel()
    assert time.monotonic() - begin < 10
    until(lambda: not waiting(gate), 2)
    assert set(run.frame().state) == {"cancelled"} and run._view().doing == ()
