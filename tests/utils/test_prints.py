"""`print` of user code goes to its sink; nobody else's output is touched."""

from __future__ import annotations

import asyncio
import contextlib
import io
import sys

import pytest

from vfnb import loops
from vfnb.utils.prints import printing_to


def test_each_task_prints_to_its_own_sink(capsys: pytest.CaptureFixture[str]) -> None:
    caught: dict[str, list[str]] = {"a": [], "b": []}

    async def work(name: str) -> None:
        with printing_to(caught[name].append):
            for _ in range(3):
                print(name, end="")
                await asyncio.sleep(0)
            await loops.on_worker(print, name, "thread")

    async def main() -> None:
        await asyncio.gather(work("a"), work("b"), asyncio.to_thread(print, "free"))

    asyncio.run(main())
    assert "".join(caught["a"]) == "aaaa thread\n"
    assert "".join(caught["b"]) == "bbbb thread\n"
    assert capsys.readouterr().out == "free\n"


def test_stream_is_put_back() -> None:
    before = sys.stdout
    with printing_to(lambda text: None):
        assert sys.stdout is not before
        with printing_to(lambda text: None):
            pass
        assert sys.stdout is not before
    assert sys.stdout is before


def test_redirection_by_others_survives() -> None:
    own: list[str] = []
    buffer = io.StringIO()
    before = sys.stdout
    with printing_to(own.append), contextlib.redirect_stdout(buffer):
        print("redirected")
    assert buffer.getvalue() == "redirected\n"
    assert sys.stdout is before


def test_no_sink_changes_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    before = sys.stdout
    with printing_to(None):
        assert sys.stdout is before
        print("plain")
    assert capsys.readouterr().out == "plain\n"
