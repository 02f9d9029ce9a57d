"""Programs that end badly, or do not end: each gets the right verdict, and no process of it is left."""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from support.upstream import Say, Upstream

import vfnb as vf
from vfnb.errors import ContextLengthError, ModelError, UpstreamRejected
from vfnb.runtimes import SubprocessConfig

# What every program has: `ask()` is one model call; it returns the status and the text or error.
CLIENT = """
import json, os, signal, subprocess, sys, time, urllib.error, urllib.request

def ask(text="hi"):
    body = json.dumps({"model": "m", "messages": [{"role": "user", "content": text}]}).encode()
    headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"], "Content-Type": "application/json"}
    url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
    try:
        with urllib.request.urlopen(urllib.request.Request(url, body, headers), timeout=30) as answer:
            return answer.status, json.load(answer)["choices"][0]["message"]["content"]
    except urllib.error.HTTPError as error:
        return error.code, error.read().decode()
    except OSError as error:
        return 0, str(error)

def note(*values):
    with open(sys.argv[1], "a") as file:
        print(os.getpid(), *values, file=file, flush=True)

note("main")
"""
GOES_ON = """
while True:
    note("asked", ask()[0])
    time.sleep(0.05)
"""
IGNORES_TERM = "signal.signal(signal.SIGTERM, lambda *_: note('TERM'))\n"
WRITES = """
while True:
    try:
        open("beat", "w").write(str(time.time()))
    except OSError:
        pass
    ask()
"""
DAEMONS = """
ask()
def daemon(then):
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            note("daemon")
            os.chdir("/")
            os.closerange(0, 64)
            then()
            time.sleep(300)
        os._exit(0)
    os.wait()
daemon(lambda: None)
daemon(lambda: os.execve(sys.executable, [sys.executable, "-c", "import time; time.sleep(300)"], {}))
"""
CALLS_AFTER_ITS_END = """
ask()
if os.fork() == 0:
    os.setsid()
    os.closerange(0, 3)
    while True:
        note("late", ask("late")[0])
        time.sleep(0.02)
"""


class Beats(vf.Task[vf.TaskData]):
    """Looks twice at the file that the program writes all the time."""

    async def finalize(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
        with contextlib.suppress(FileNotFoundError):
            before = await runtime.read("beat")
            await asyncio.sleep(0.2)
            trace.info["still"] = before == await runtime.read("beat")
        trace.info["calls"] = len(trace.calls)
        await asyncio.sleep(0.2)
        trace.info["later"] = len(trace.calls)

    @vf.reward
    def always(self, trace: vf.Trace) -> float:
        return 1.0


class Ended:
    """A rollout of one program, and what its processes wrote down."""

    def __init__(self, folder: Path, program: str, **options: Any) -> None:
        notes = folder / "notes"
        options.setdefault("model", vf.Scripted(lambda messages: "fine"))
        options.setdefault("timeouts", {"agent": 20.0, "grace": 0.3})
        harness = vf.Program([sys.executable, "-c", CLIENT + program, str(notes)])
        begun = time.monotonic()
        box = SubprocessConfig(grace=0.3)
        task = Beats(vf.TaskData(prompt="go"))
        run = vf.evaluate([task], harness=harness, runtime=box, dir=folder / "run", **options)
        self.trace = run.wait(50, quiet=True).traces[0]
        self.seconds = time.monotonic() - begun
        lines = [line.split() for line in notes.read_text().splitlines()]
        self.pids = {int(pid) for pid, *_ in lines}
        self.notes = [" ".join(words) for _, *words in lines]

    @property
    def verdict(self) -> tuple[str | None, str | None]:
        errors = self.trace.errors
        return self.trace.stop_condition, errors[-1].type if errors else None

    def check(self, *verdict: str | None) -> None:
        assert self.verdict == verdict, self.trace.errors
        assert not [pid for pid in self.pids if _alive(pid)]
        assert self.trace.reward == (None if verdict[1] else 1.0)


def _alive(pid: int) -> bool:
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def test_it_ignores_a_stop_and_goes_on_calling(tmp_path: Path) -> None:
    ended = Ended(tmp_path, GOES_ON, limits={"max_turns": 2})
    ended.check("max_turns", None)
    assert ended.notes[1:4] == ["asked 200", "asked 200", "asked 401"]
    assert ended.trace.num_turns == 2
    assert ended.seconds < 15


def test_it_ignores_a_stop_and_the_polite_signal(tmp_path: Path) -> None:
    ended = Ended(tmp_path, IGNORES_TERM + WRITES, limits={"max_turns": 1})
    ended.check("max_turns", None)
    assert "TERM" in ended.notes
    assert ended.trace.info["still"], "it wrote while it was scored"


def test_its_time_is_up_and_it_does_not_care(tmp_path: Path) -> None:
    ended = Ended(tmp_path, IGNORES_TERM + WRITES, timeouts={"agent": 2.0, "grace": 0.3})
    ended.check("timeout", None)
    assert ended.trace.info["still"], "it wrote while it was scored"


def test_it_leaves_daemons_that_nothing_tells_apart(tmp_path: Path) -> None:
    ended = Ended(tmp_path, DAEMONS)
    ended.check(None, None)
    assert ended.notes.count("daemon") == 2
    assert ended.trace.end_state == "completed"


def test_what_it_leaves_behind_gets_no_more_answers(tmp_path: Path) -> None:
    ended = Ended(tmp_path, CALLS_AFTER_ITS_END)
    ended.check(None, None)
    assert ended.trace.info["later"] == ended.trace.info["calls"] == len(ended.trace.calls)
    assert "late 401" in ended.notes


def test_it_closes_its_output_and_goes_on(tmp_path: Path) -> None:
    ended = Ended(tmp_path, "os.close(1)\nask()\ntime.sleep(0.5)\nask('more')\nnote('end')\nos._exit(0)")
    ended.check(None, None)
    assert ended.notes[-1] == "end"
    assert ended.trace.num_turns == 2


def test_it_prints_a_hundred_megabytes(tmp_path: Path) -> None:
    before = psutil.Process().memory_info().rss
    ended = Ended(tmp_path, "ask()\nfor _ in range(100):\n    sys.stdout.write('x' * 1_000_000)\nsys.exit(3)")
    ended.check(None, "HarnessExit")
    assert "exited with status 3" in ended.trace.errors[0].message
    assert len(ended.trace.errors[0].message) < 5000
    assert psutil.Process().memory_info().rss - before < 60 << 20


def test_it_exits_with_0_having_done_nothing(tmp_path: Path) -> None:
    ended = Ended(tmp_path, "print('all done!')")
    ended.check(None, "HarnessError")
    assert "ended without a model call" in ended.trace.errors[0].message
    assert "all done!" in ended.trace.errors[0].message


def test_it_exits_with_0_after_its_last_call_failed(tmp_path: Path) -> None:
    with Upstream([Say(text="one"), Say(status=500, raw=b"{}"), Say(status=401, raw=b"{}")]) as upstream:
        model = vf.Relay("m", base_url=upstream.url, max_retries=0)
        ended = Ended(tmp_path, "ask(); ask('again'); ask('and again')", model=model)
    ended.check(None, "UpstreamRejected")
    assert ended.trace.num_turns == 1


def test_it_exits_with_0_after_a_failure_that_it_overcame(tmp_path: Path) -> None:
    with Upstream([Say(status=500, raw=b"{}"), Say(text="two")]) as upstream:
        model = vf.Relay("m", base_url=upstream.url, max_retries=0)
        ended = Ended(tmp_path, "ask(); ask()", model=model)
    ended.check(None, None)


def test_it_hangs_after_its_last_answer(tmp_path: Path) -> None:
    ended = Ended(tmp_path, "ask()\ntime.sleep(300)", timeouts={"agent": 2.0, "grace": 0.3})
    ended.check("timeout", None)
    assert ended.seconds < 15


@pytest.mark.parametrize("number", ["SEGV", "KILL"])
def test_it_dies_by_a_signal(tmp_path: Path, number: str) -> None:
    ended = Ended(tmp_path, f"ask()\nos.kill(os.getpid(), signal.SIG{number})\ntime.sleep(9)")
    ended.check(None, "HarnessExit")
    assert f"was ended by signal {11 if number == 'SEGV' else 9}" in ended.trace.errors[0].message


def test_it_never_calls_and_hangs(tmp_path: Path) -> None:
    ended = Ended(tmp_path, "time.sleep(300)", timeouts={"agent": 1.5, "grace": 0.3})
    ended.check(None, "HarnessTimeout")
    assert "made no model call in 1.5 s" in ended.trace.errors[0].message


def test_it_is_told_to_stop_and_exits_with_an_error(tmp_path: Path) -> None:
    ended = Ended(tmp_path, "while ask()[0] == 200: pass\nsys.exit(1)", limits={"max_turns": 1})
    ended.check("max_turns", None)


def test_the_model_is_silent_when_its_time_is_up(tmp_path: Path) -> None:
    with Upstream([Say(delay=40)]) as upstream:
        model = vf.Relay("m", base_url=upstream.url, max_retries=0)
        ended = Ended(tmp_path, "ask()", model=model, timeouts={"agent": 2.0, "grace": 0.3})
    ended.check(None, "UpstreamStalled")


def test_it_ends_its_own_group(tmp_path: Path) -> None:
    ended = Ended(
        tmp_path, "ask()\nsubprocess.Popen(['sleep', '300'])\nos.killpg(0, signal.SIGTERM)\ntime.sleep(9)"
    )
    ended.check(None, "HarnessExit")
    assert os.getpid() not in ended.pids


@pytest.mark.parametrize(
    ("answer", "raised", "verdict"),
    [
        (None, UpstreamRejected("it is down", status=403), (None, "UpstreamRejected")),
        ("made up", UpstreamRejected("it is down", status=403), (None, None)),
        (None, ContextLengthError("too long", status=400), ("context_length", None)),
    ],
    ids=["no answer", "an answer of its own", "context"],
)
def test_a_function_that_swallows_the_failure_of_its_last_call(
    tmp_path: Path, answer: str | None, raised: Exception, verdict: tuple[str | None, str | None]
) -> None:
    """Without an answer it has failed, and its reward is no zero."""

    @vf.harness
    async def careless(session: Any, task: Any) -> str | None:
        with contextlib.suppress(ModelError):
            await session.complete(task.prompt)
        return answer

    def fails(messages: Any, **_: Any) -> str:
        raise raised

    task = Beats(vf.TaskData(prompt="go"))
    run = vf.evaluate([task], harness=careless, model=vf.Scripted(fails), dir=tmp_path / "run")
    (trace,) = run.wait(50, quiet=True).traces
    assert (trace.stop_condition, trace.errors[-1].type if trace.errors else None) == verdict
    assert trace.reward == (None if verdict[1] else 1.0)
