"""A run under way in this process: units in, rollouts out, at most `concurrency` at a time."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import Sequence
from concurrent.futures import Future

from vfnb import loops
from vfnb.agents import Agent, Ids
from vfnb.clients import ModelClient
from vfnb.interception import ServerPool
from vfnb.lab.rows import Row
from vfnb.runs.budget import Budget
from vfnb.runs.journal import StoreJournal
from vfnb.runs.plan import Unit
from vfnb.runs.slots import Share, Slots
from vfnb.store import RunStore
from vfnb.tasks import ToolService
from vfnb.tasks.judges import close_idle
from vfnb.utils.collector import calm
from vfnb.utils.ids import new_id

__all__ = ["Live"]

CLEAN_UP_S = 12.0  # longest wait for cancelled rollouts; each has 10 s of its own

_using: Counter[int] = Counter()  # runs under way by the model object that they share; engine loop only


class Live:
    """The executor. It is made and runs on the engine loop; counts and rows may be read from any thread."""

    def __init__(
        self,
        agent: Agent,
        store: RunStore,
        units: Sequence[Unit],
        *,
        reused: Sequence[Row],
        rescored: int = 0,
        version: int,
        budget: Budget,
        concurrency: int,
        slots: Slots | None = None,
    ) -> None:
        self.agent = agent
        self.store = store
        self.total = len(units) + len(reused)
        self.reused = tuple(reused)
        self.rescored = rescored
        self.version = version
        """The score version of its rows; a rescoring makes another one, in which rollouts that end later join."""
        self.started = time.time()
        self.ended: float | None = None
        self.reason = ""
        """Why it stopped early; `""` if it did not."""
        self.pool = ServerPool()
        self.tools = ToolService()
        self.journal = StoreJournal(store, version, budget, self.stop)
        self._queue = deque(units)
        self._concurrency = concurrency
        self._slots = slots or Slots(concurrency)  # several runs may share theirs
        self._share = Share(len(reused), self.total)
        self._main: asyncio.Task[None] | None = None
        self.done: Future[None] = Future()

    @property
    def rows(self) -> list[Row]:
        """The ended rollouts so far, reused ones first."""
        return [*self.reused, *list(self.journal.rows.values())]

    @property
    def running(self) -> int:
        """Rollouts under way."""
        return len(self.journal.running)

    def start(self) -> None:
        """Begin. Engine loop only."""
        reason = self.journal.budget.reached()
        if reason is not None:
            self.reason = reason
            self._queue.clear()
        _using.update(id(client) for client in _clients(self.agent.client))
        self._main = asyncio.get_running_loop().create_task(self._run())

    def stop(self, reason: str) -> None:
        """Cancel what runs and start nothing more. Engine loop only; harmless when repeated."""
        if self._main is None or self._main.done() or self.reason:
            return
        self.reason = reason
        self._queue.clear()
        self._main.cancel()

    def cancel(self, reason: str) -> None:
        """`stop` from any thread; returns at once."""
        loops.engine().call(self.stop, reason)

    async def _run(self) -> None:
        error: Exception | None = None
        try:
            with calm():
                await self._work()
        except asyncio.CancelledError:
            self.reason = self.reason or "cancelled"
        except BaseException as failure:  # whoever waits must hear of it
            error = failure if isinstance(failure, Exception) else RuntimeError(f"the run met {failure!r}")
            self.reason = f"{type(failure).__name__}: {failure}"
        try:
            await self._close(finished=error is None and not self.reason)
        except BaseException as failure:
            error = error or (failure if isinstance(failure, Exception) else RuntimeError(repr(failure)))
        self.ended = time.time()
        if error is not None:
            self.done.set_exception(error)
        else:
            self.done.set_result(None)

    async def _work(self) -> None:
        loop = asyncio.get_running_loop()
        workers = [loop.create_task(self._worker()) for _ in range(min(self._concurrency, len(self._queue)))]
        if not workers:
            return
        try:
            await asyncio.wait(workers, return_when=asyncio.FIRST_EXCEPTION)
        finally:
            self._queue.clear()
            for worker in workers:
                worker.cancel()
            await asyncio.wait(workers, timeout=CLEAN_UP_S)
        failures = [worker.exception() for worker in workers if worker.done() and not worker.cancelled()]
        for failure in failures:
            if failure is not None:
                raise failure

    async def _worker(self) -> None:
        while self._queue:
            async with self._slots.turn(self._share):
                if self._queue:
                    await self._unit(self._queue.popleft())

    async def _unit(self, unit: Unit) -> None:
        episode = new_id()

        def ids(attempt: int) -> Ids:
            return Ids(
                trace=new_id(),
                episode=episode,
                group=unit.group,
                rollout=unit.rollout,
                attempt=attempt,
                rollout_hash=unit.rollout_hash,
                score_hash=unit.score_hash,
            )

        # The trace itself is on disk by then: a run of many rollouts keeps only their rows.
        await self.agent.attempts(
            unit.task, ids, journal=self.journal, pool=self.pool, tools=self.tools, logs=self.store.logs
        )

    async def _close(self, *, finished: bool) -> None:
        state = "finished" if finished else "stopped"
        clients = _clients(self.agent.client)
        _using.subtract(id(client) for client in clients)
        try:
            await self.tools.close()
            await self.pool.close()
            for client in clients:
                if _using[id(client)] <= 0:  # else calls of another run would break off
                    del _using[id(client)]
                    await client.close()
            await close_idle()
        finally:
            try:
                await self.store.set_meta(state=state, reason=self.reason, ended=time.time())
            finally:
                await asyncio.to_thread(self.store.close)


def _clients(client: ModelClient) -> list[ModelClient]:
    """A client and all that it passes calls on to."""
    return [client, *(inner for asked in client.asks() for inner in _clients(asked))]
