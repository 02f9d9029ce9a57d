"""Progress in a real kernel: updates go on while the main thread sleeps, to the cell that started them."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import pytest
from support.kernel import Kernel

START = """
import time
from support.views import view
from vfnb.lab.progress import Progress
from vfnb.lab.kernel import show
begin = time.monotonic()
ended = False
progress = Progress(lambda: view(16 if ended else min(15, int(8 * (time.monotonic() - begin))), 16)).start()
"""


@pytest.fixture(scope="module")
def kernel() -> Iterator[Kernel]:
    kernel = Kernel()
    yield kernel
    kernel.close()


def test_updates_reach_the_first_cell_while_another_sleeps(kernel: Kernel) -> None:
    first = kernel.run(START)
    shown = kernel.of_type("display_data")
    assert len(shown) == 1
    display = shown[0][1]["content"]["transient"]["display_id"]
    second = kernel.run("time.sleep(2)")
    updates = kernel.of_type("update_display_data")
    assert 3 <= len(updates) <= 9
    for _, message in updates:
        assert message["parent_header"]["msg_id"] == first != second
        assert message["content"]["transient"]["display_id"] == display
        assert set(message["content"]["data"]) == {"text/plain", "text/html"}
    sent = [message["header"]["date"] for _, message in updates]
    gaps = [(later - earlier).total_seconds() for earlier, later in itertools.pairwise(sent)]
    assert min(gaps) > 0.2  # at most four a second

    kernel.run("ended = True\nprogress.stop()")
    last = kernel.of_type("update_display_data")[-1][1]
    assert last["parent_header"]["msg_id"] == first
    assert "16 of 16 finished" in last["content"]["data"]["text/plain"]
    before = len(kernel.messages)
    kernel.run("time.sleep(0.6)")
    assert not [m for _, m in kernel.messages[before:] if m["msg_type"] == "update_display_data"]
    assert not kernel.of_type("stream")


def test_quiet_leaves_no_output_and_show_displays(kernel: Kernel) -> None:
    before = len(kernel.messages)
    kernel.run("with Progress(lambda: view(), quiet=True): time.sleep(0.3)")
    assert {m["msg_type"] for _, m in kernel.messages[before:]} == {"status", "execute_input"}
    kernel.run("show({'text/plain': 'a', 'text/html': '<b>a</b>'})")
    assert kernel.of_type("display_data")[-1][1]["content"]["data"] == {
        "text/plain": "a",
        "text/html": "<b>a</b>",
    }


def test_two_views_share_one_thread_that_ends_with_them(kernel: Kernel) -> None:
    before = len(kernel.messages)
    kernel.run("""
import threading
def senders(): return sum(thread.name == "vfnb-display" for thread in threading.enumerate())
begin = time.monotonic()
def done(): return min(15, int(8 * (time.monotonic() - begin)))
some = [Progress(lambda n=n: view(done(), 16, name=f"run {n}")).start() for n in (1, 2)]
time.sleep(1)
assert senders() == 1
for progress in some: progress.stop()
time.sleep(0.2)
assert senders() == 0
""")
    updates = [m["content"] for _, m in kernel.messages[before:] if m["msg_type"] == "update_display_data"]
    names = {
        content["transient"]["display_id"]: content["data"]["text/plain"].split(" · ")[0]
        for content in updates
    }
    assert sorted(names.values()) == ["Run run 1", "Run run 2"]
    assert len(updates) >= 4
