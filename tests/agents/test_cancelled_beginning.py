"""A rollout that is cancelled while it is being made known still gets its end in the journal."""

from __future__ import annotations

import asyncio

import pytest
from support.addition import add, taskset

import vfnb as vf
from vfnb import loops
from vfnb.agents import Ids, make_agent
from vfnb.agents.journal import MemoryJournal
from vfnb.interception import ServerPool
from vfnb.tasks import ToolService
from vfnb.trace import Trace


class SlowToBegin(MemoryJournal):
    """A busy disk: the headline is under way when the cancellation comes."""

    def __init__(self) -> None:
        self.beginning = asyncio.Event()
        self.log: list[tuple[str, str | None]] = []

    async def begin_trace(self, trace: Trace, ids: Ids) -> None:
        """Stored after a while."""
        self.beginning.set()
        await asyncio.sleep(0.1)
        self.log.append(("begun", trace.end_state))

    async def finish_trace(self, trace: Trace) -> None:
        """Note how it ended."""
        self.log.append(("ended", trace.end_state))


def test_a_rollout_cancelled_while_it_begins_ends_cancelled() -> None:
    agent = make_agent(model=vf.Scripted(add))
    task = taskset(1).load()[0]

    async def main() -> list[tuple[str, str | None]]:
        journal, pool, tools = SlowToBegin(), ServerPool(), ToolService()
        ids = Ids(trace="t", episode="e", group="g")
        work = asyncio.ensure_future(
            agent.attempts(task, lambda _: ids, journal=journal, pool=pool, tools=tools)
        )
        await journal.beginning.wait()
        work.cancel()
        await asyncio.sleep(0.01)
        work.cancel()  # a second one cuts nothing short either
        with pytest.raises(asyncio.CancelledError):
            await work
        await tools.close()
        await pool.close()
        return journal.log

    log = loops.engine().run(main())
    assert [word for word, _ in log] == ["begun", "ended"]
    assert log[-1] == ("ended", "cancelled")
