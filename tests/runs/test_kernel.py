"""A run in a real kernel: live display while another cell sleeps, interrupts, both ways of waiting."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.kernel import Kernel

SETUP = """
import sys, time
import vfnb as vf
from support.addition import add, taskset
"""


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    kernel = Kernel()
    kernel.run(SETUP)
    yield kernel
    kernel.close()


def interrupt(kernel: Kernel, code: str, after: float) -> tuple[float, str]:
    """Interrupt a cell; returns the seconds until it was idle and the class of its error."""
    request = kernel.start(code)
    time.sleep(after)
    start = time.monotonic()
    kernel._manager.interrupt_kernel()
    kind = ""
    while True:
        message = kernel.client.get_iopub_msg(timeout=30)
        kernel.messages.append((time.monotonic(), message))
        if message["parent_header"].get("msg_id") != request:
            continue
        if message["msg_type"] == "error":
            kind = message["content"]["ename"]
        if message["msg_type"] == "status" and message["content"]["execution_state"] == "idle":
            return time.monotonic() - start, kind


@pytest.mark.parametrize(
    ("wait", "error"), [("run.wait()", "KeyboardInterrupt"), ("await run", "CancelledError")]
)
def test_an_interrupt_gives_the_prompt_back_and_cancels(
    kernel: Kernel, tmp_path: Path, wait: str, error: str
) -> None:
    kernel.run(
        f"run = vf.evaluate(taskset(4), model=vf.Scripted(add, latency=60), dir={str(tmp_path / 'run')!r})"
    )
    seconds, kind = interrupt(kernel, wait, after=1.0)
    assert seconds < 2
    assert kind in (error, "KeyboardInterrupt")
    kernel.run(
        "deadline = time.monotonic() + 10\n"
        "while not run._live.done.done():\n"
        "    assert time.monotonic() < deadline\n"
        "    time.sleep(0.05)\n"
        "states = set(run.frame('traces')['state'])\n"
        "assert states == {'cancelled'}, states\n"
        "assert not run.complete"
    )
    kernel.run(
        f"run = vf.evaluate(taskset(4), model=vf.Scripted(add), dir={str(tmp_path / 'run')!r}).wait()\n"
        "assert run.summary.scored == 4, run.summary"
    )


@pytest.mark.parametrize("wait", ["both.wait()", "await both"])
def test_an_interrupt_cancels_a_comparison(kernel: Kernel, tmp_path: Path, wait: str) -> None:
    made = f"vf.compare(taskset(2), harnesses=['null', 'bash'], dir={str(tmp_path / 'both')!r}, model="
    kernel.run(f"both = {made}vf.Scripted(add, latency=60))")
    seconds, kind = interrupt(kernel, wait, after=1.5)
    assert seconds < 3 and kind in ("KeyboardInterrupt", "CancelledError")
    kernel.run(
        "both.cancel()\nassert set(both.frame('rollout').state) == {'cancelled'}, both.frame('rollout')"
    )
    kernel.messages.clear()
    kernel.run(f"both = {made}vf.Scripted(add))\nboth.wait()")
    (_, result), *_ = kernel.of_type("execute_result")
    assert {"text/plain", "text/html"} <= set(result["content"]["data"])
    assert "2 harnesses on AdditionTaskset" in result["content"]["data"]["text/plain"]
    last = kernel.of_type("update_display_data")[-1][1]
    assert "4 of 4" in last["content"]["data"]["text/plain"]


@pytest.mark.parametrize("wait", ["study.wait()", "await study"])
def test_an_interrupt_cancels_a_study_and_its_view_says_so(kernel: Kernel, tmp_path: Path, wait: str) -> None:
    axes = "axes={'sampling.temperature': [0, 1, 2]}, concurrency=4"
    made = f"study = vf.study(taskset(4), {axes}, dir={str(tmp_path / 'study')!r}, model="
    kernel.run(f"{made}vf.Scripted(add, latency=60))")
    seconds, kind = interrupt(kernel, wait, after=1.5)
    assert seconds < 2 and kind in ("KeyboardInterrupt", "CancelledError")
    kernel.run("study.cancel()\nassert study.settings.cancelled.sum() == 4, study.settings")
    kernel.messages.clear()
    kernel.run(f"{made}vf.Scripted(add))\nstudy.wait()")
    assert not kernel.of_type("execute_result")  # the view of the wait is there already
    assert len(kernel.of_type("display_data")) == 1
    last = kernel.of_type("update_display_data")[-1][1]["content"]["data"]
    assert "3 settings" in last["text/plain"] and "12 of 12 rollouts" in last["text/plain"]
    kernel.messages.clear()
    kernel.run("study")
    assert "finished" in kernel.of_type("display_data")[0][1]["content"]["data"]["text/html"]


def test_a_displayed_run_is_live_while_another_cell_sleeps(kernel: Kernel, tmp_path: Path) -> None:
    shown = kernel.run(
        "run = vf.evaluate(taskset(12), model=vf.Scripted(add, latency=0.2), concurrency=2, "
        f"dir={str(tmp_path / 'run')!r})\nrun"
    )
    kernel.messages.clear()
    kernel.run("time.sleep(3)")
    updates = [m for _, m in kernel.of_type("update_display_data") if m["parent_header"]["msg_id"] == shown]
    assert len(updates) >= 3
    for message in updates:
        assert {"text/plain", "text/html"} <= set(message["content"]["data"])
    kernel.run("run.wait()")
    kernel.run("assert run.complete")
    last = kernel.of_type("update_display_data")[-1][1]
    assert "12 of 12" in last["content"]["data"]["text/plain"]


def test_a_class_of_a_cell_is_a_taskset_and_its_edit_is_seen(kernel: Kernel, tmp_path: Path) -> None:
    cell = """
class T(vf.Task[vf.TaskData]):
    @vf.reward
    def good(self, trace):
        return {value}
class S(vf.Taskset[T, vf.TasksetConfig]):
    def load(self):
        return [T(vf.TaskData(prompt="What is 1 + 1?"), self.config.task)]
"""
    start = f"run = vf.evaluate(S(), model=model, dir={str(tmp_path / 'run')!r}).wait(quiet=True)"
    kernel.run("model = vf.Scripted(add)\n")
    kernel.run(cell.format(value=1.0))
    kernel.run(start + "\nassert run.summary.reward.mean == 1.0, run.summary")
    kernel.run(cell.format(value=0.25))
    kernel.run(
        start + "\nassert run.summary.reward.mean == 0.25, run.summary\nassert model.calls == 1, model.calls"
    )


def test_results_have_text_and_html(kernel: Kernel, tmp_path: Path) -> None:
    kernel.run(
        f"run = vf.evaluate(taskset(2), model=vf.Scripted(add), dir={str(tmp_path / 'run')!r}).wait(quiet=True)"
    )
    for expression in (
        "run",
        "run.summary",
        "run.traces[0]",
        "taskset(2)",
        "next(iter(taskset(2)))",
        "run.sample(1)",
    ):
        kernel.messages.clear()
        kernel.run(expression)
        data = kernel.of_type("execute_result", "display_data")[-1][1]["content"]["data"]
        assert data["text/plain"].count("\n") < 20, expression
        assert len(data["text/html"]) < 200_000
        assert "<script" not in data["text/html"]
    kernel.messages.clear()
    kernel.run("run.traces[0].plot()")
    data = kernel.of_type("execute_result", "display_data")[-1][1]["content"]["data"]
    assert "application/vnd.plotly.v1+json" in data


@pytest.mark.parametrize("wait", ["run.wait()", "await run"])
def test_a_cell_that_waits_shows_the_run_once(kernel: Kernel, tmp_path: Path, wait: str) -> None:
    kernel.run(f"run = vf.evaluate(taskset(2), model=vf.Scripted(add), dir={str(tmp_path / 'run')!r})")
    kernel.messages.clear()
    kernel.run(wait)
    assert len(kernel.of_type("display_data", "execute_result")) == 1
    kernel.run("run")
    assert len(kernel.of_type("display_data", "execute_result")) == 2


def test_the_view_of_an_interrupted_wait_says_how_it_ended(kernel: Kernel, tmp_path: Path) -> None:
    kernel.run(
        f"run = vf.evaluate(taskset(2), model=vf.Scripted(add, latency=60), dir={str(tmp_path / 'run')!r})"
    )
    kernel.messages.clear()
    interrupt(kernel, "run.wait()", after=1.0)
    kernel.run("while not run._live.done.done(): time.sleep(0.05)\ntime.sleep(1)")
    last = kernel.of_type("update_display_data")[-1][1]["content"]["data"]["text/plain"]
    assert "cancelled" in last.splitlines()[0]
