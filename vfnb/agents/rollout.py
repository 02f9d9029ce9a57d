"""One rollout: boot, setup, agent, finalize, scoring; always an end state, always a clean-up."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vfnb import loops
from vfnb.agents.hooks import task_hooks
from vfnb.agents.journal import Journal
from vfnb.agents.placement import place
from vfnb.agents.scoring import Artifacts, start_verifier
from vfnb.agents.session import HarnessSession
from vfnb.agents.verdict import Verdict, judge
from vfnb.errors import HarnessError, HarnessTimeout, StageTimeout, StoreError, UpstreamStalled, VfnbError
from vfnb.interception import ServerPool, Session
from vfnb.runtimes import Runtime, make_runtime
from vfnb.tasks import RolloutTools, ToolService, run_finalize, run_setup, score
from vfnb.trace import Span, TaskInfo, Trace, error_info
from vfnb.trace.mending import held

if TYPE_CHECKING:
    from vfnb.agents.agent import Agent
    from vfnb.tasks import Task

__all__ = ["Ids", "Rollout"]

CLEAN_UP_S = 10.0  # longest clean-up of one rollout
STALLED_S = 60.0  # a model silent for this long (or half the agent's time) when that time is up, is to blame


@dataclass(slots=True, kw_only=True)
class Ids:
    """Where a rollout belongs."""

    trace: str
    episode: str
    group: str
    role: str = "agent"
    rollout: int = 0
    """Sample index within the task."""
    attempt: int = 0
    rollout_hash: str = ""
    score_hash: str = ""


class Rollout:
    """Runs one task once with one agent. Lives on the engine loop; user code runs elsewhere."""

    def __init__(
        self,
        task: Task[Any, Any, Any],
        agent: Agent,
        ids: Ids,
        *,
        journal: Journal,
        pool: ServerPool,
        tools: ToolService,
        logs: Path | None = None,
    ) -> None:
        self.task, self.agent, self.ids = task, agent, ids
        self.journal, self.pool, self.service = journal, pool, tools
        self.logs = logs
        self.timeouts = agent.timeouts.with_task(task.data.timeout)
        data = task.data
        self._identity = {
            "id": ids.trace,
            "episode_id": ids.episode,
            "group_id": ids.group,
            "agent": ids.role,
            "rollout": ids.rollout,
        }
        info = TaskInfo(idx=data.idx or 0, name=data.name, key=task.key, data=data.model_dump(mode="json"))
        self.trace = Trace(task=info, **self._identity)
        self.runtime: Runtime | None = None
        self.verifier: Runtime | None = None
        self.session: Session | None = None
        self.view: HarnessSession | None = None
        self.tools: RolloutTools | None = None
        self._registered = False
        self._retryable = False

    async def run(self) -> Trace:
        """Run all stages and store the end.

        Raises:
            asyncio.CancelledError: after the trace got the state `cancelled` and everything is cleaned up.
        """
        trace = self.trace
        # What began in the store must end there, so neither is cut short; both are bounded.
        cancelled = await _whole(self.journal.begin_trace(trace, self.ids))
        if cancelled:
            trace.end_state = "cancelled"
        else:
            try:
                await self._stages()
            except asyncio.CancelledError:
                cancelled = True
                trace.end_state = "cancelled"
            except Exception as error:
                self._fail(error)
        cancelled |= await _whole(self._end())
        if cancelled:
            raise asyncio.CancelledError
        return trace

    @property
    def retryable(self) -> bool:
        """Whether the error that ended it may pass."""
        return self._retryable

    async def _stages(self) -> None:
        trace, agent, task, limits = self.trace, self.agent, self.task, self.timeouts
        async with self._stage("boot", limits.boot):
            self.runtime = make_runtime(place(agent.runtime, task.data))
            await self.runtime.start()
            self._open_session(self.runtime)
        assert self.session is not None
        assert self.view is not None
        async with self._stage("setup", limits.setup):
            await run_setup(task, trace, self.runtime, log=self._print)
            await self._open_tools(self.view)
            with held(trace, f"harness {agent.harness.name!r} in its setup", HarnessError):
                await loops.user().do(agent.harness.setup(self.view, task))
        async with self._stage("agent", None):
            with held(trace, f"harness {agent.harness.name!r} or a tool", HarnessError):
                try:
                    verdict = await self._agent()
                finally:
                    if self.tools is not None:
                        await self.tools.finish()
            assert self.session is not None
            await self.session.close("the agent is done")  # a program that is still there asks in vain
            if verdict.error is not None:
                raise verdict.error
        trace.answer = verdict.answer
        trace.stop_condition = verdict.stop
        async with self._stage("finalize", limits.finalize):
            await run_finalize(task, trace, self.runtime, log=self._print)
        skipped = agent.scoring.skip(task, trace)
        if agent.scoring.placement == "isolated" and not skipped:
            async with self._stage("verifier", limits.boot, setting="boot"):
                await self._isolate(self.runtime)
        async with self._stage("scoring", limits.scoring):
            if not skipped:
                await score(task, trace, self.verifier or self.runtime, log=self._print)
        ended = "stopped" if verdict.stop else "completed"
        trace.end_state = "dropped" if trace.dropped is not None else ended

    async def _isolate(self, runtime: Runtime) -> None:
        """Carry the artifacts into a fresh box; the agent's ends here, with all that still runs in it."""
        scoring, data = self.agent.scoring, self.task.data
        artifacts = await Artifacts.collect(runtime, data, scoring.artifact_limit)
        if data.artifacts:
            self.trace.info["artifacts"] = artifacts.summary()
        await runtime.stop()
        self.verifier = make_runtime(scoring.verifier(self.agent.runtime, data))
        await start_verifier(self.verifier, artifacts, self.task, self.trace, log=self._print)

    def _open_session(self, runtime: Runtime) -> None:
        agent = self.agent
        self.session = Session(
            self.trace,
            agent.client,
            sampling=agent.sampling,
            limits=agent.limits,
            hooks=task_hooks(self.task, self.trace, runtime, self._print),
            journal=self.journal,
            markers=agent.harness.MARKERS,
        )
        self.view = HarnessSession(
            self.session,
            runtime,
            model=agent.client.name,
            sampling=agent.sampling,
            connect=self._connect,
            log_file=self.logs / f"{self.ids.trace}.log" if self.logs else None,
        )

    async def _open_tools(self, view: HarnessSession) -> None:
        """Start the task's own tool servers; the harness's setup already sees their tools."""
        assert self.session is not None
        session = self.session

        def fault(error: Exception) -> None:
            loops.engine().call(session.fail, error)

        self.tools = await self.service.open(self.task, self.trace, log=self._print, fault=fault)
        if self.tools is not None:
            view.use(self.tools)

    def _print(self, text: str) -> None:
        """What hooks print goes to the rollout's log."""
        if self.view is not None and text.strip():
            self.view.log(text.rstrip("\n"))

    def _connect(self) -> Any:
        """Open the loopback endpoint; called from the user loop at the first look at its URL."""
        assert self.session is not None
        self._registered = True
        return loops.engine().run(self.pool.register(self.session))

    async def _agent(self) -> Verdict:
        """Run the harness until it ends, a stop ends it, or its time is up."""
        assert self.session is not None
        assert self.view is not None
        session, limits = self.session, self.timeouts
        work = _on_user_loop(self.agent.harness.run(self.view, self.task))
        ended = asyncio.ensure_future(session.ended.wait())
        try:
            await asyncio.wait({work, ended}, timeout=limits.agent, return_when=asyncio.FIRST_COMPLETED)
            timed_out = not work.done() and not ended.done()
            if ended.done():
                await asyncio.wait({work}, timeout=limits.grace)
        finally:
            ended.cancel()
            forced = not work.done()
            if forced:
                work.cancel()
            elif not work.cancelled():
                work.exception()  # a stop or a fault may count instead of it
        if forced and self.runtime is not None:
            await self.runtime.settle()  # nothing is scored while the program still writes
        if session.stop_condition is not None:
            return Verdict(stop=session.stop_condition)
        if session.fault is not None:
            return Verdict(error=session.fault)
        if timed_out:
            return self._timed_out(session)
        raised = (
            asyncio.CancelledError("the harness cancelled itself") if work.cancelled() else work.exception()
        )
        result = None if raised is not None else work.result()
        return judge(result, raised, self.trace.dag.calls, harness=self.agent.harness.name)

    def _timed_out(self, session: Session) -> Verdict:
        limit = self.timeouts.agent
        assert limit is not None
        if not session.requests and self.runtime is not None and self.runtime.RUNS_PROGRAMS:
            name = self.agent.harness.name
            return Verdict(
                error=HarnessTimeout(
                    f"harness {name!r} made no model call in {limit:g} s; does it wait for input?"
                )
            )
        if session.silent_for() >= min(STALLED_S, limit / 2):
            return Verdict(
                error=UpstreamStalled(
                    f"the agent's {limit:g} s ran out while the model endpoint was silent; "
                    "raise timeouts.agent or check the endpoint"
                )
            )
        return Verdict(stop="timeout")

    @asynccontextmanager
    async def _stage(self, name: str, limit: float | None, setting: str = "") -> AsyncIterator[None]:
        """Time one stage; its limit is an error that names it and the setting of the limit."""
        span = self.trace.timing[name] = Span(start=time.time())
        try:
            async with asyncio.timeout(limit) as clock:
                yield
        except TimeoutError as error:
            if not clock.expired():
                self._fail(error, stage=name)
                raise _Failed from error
            late = StageTimeout(
                f"stage {name!r} took longer than {limit:g} s; raise timeouts.{setting or name}"
            )
            self._fail(late, stage=name)
            raise _Failed from late
        except Exception as error:
            self._fail(error, stage=name)
            raise _Failed from error
        finally:
            span.end = time.time()

    def _fail(self, error: Exception, stage: str = "") -> None:
        """Record an error once, with the stage that it belongs to."""
        if isinstance(error, _Failed):
            return
        self.trace.errors.append(error_info(error, stage=stage or None))
        self.trace.end_state = "error"
        self._retryable = isinstance(error, VfnbError) and error.retryable

    async def _end(self) -> None:
        """Free everything, then store the end state; bounded, and errors of the clean-up are recorded."""
        self.trace.ok = self.trace.end_state in ("completed", "stopped")
        for name, work in self._clean_ups():
            try:
                await asyncio.wait_for(work, CLEAN_UP_S)
            except Exception as error:
                self._note("clean_up_errors", f"{name}: {error!r}")
        for (
            name,
            value,
        ) in self._identity.items():  # a thread of a hook that ran over its time may still write
            setattr(self.trace, name, value)
        try:
            await self.journal.finish_trace(self.trace)
        except StoreError:
            raise
        except Exception as error:  # something that hooks left on it cannot be stored
            self._fail(error, stage="storing")
            self.trace.ok = False
            self.trace.info, self.trace.tags, self.trace.notes, self.trace.labels = {}, [], [], {}
            self.trace.dropped = None
            await self.journal.finish_trace(self.trace)

    def _note(self, kind: str, line: str) -> None:
        noted = self.trace.info.get(kind)
        if not isinstance(noted, list):  # hooks may write what they like there
            noted = self.trace.info[kind] = []
        noted.append(line)

    def _clean_ups(self) -> list[tuple[str, Coroutine[Any, Any, Any]]]:
        found: list[tuple[str, Coroutine[Any, Any, Any]]] = []
        if self.view is not None:
            found.append(("session clients", self.view.close()))
        if self.tools is not None:
            found.append(("tools", self.tools.close()))
        if self.session is not None:
            found.append(("session", self.session.close()))
            if self._registered:
                found.append(("server", self.pool.release(self.session)))
        if self.runtime is not None:
            found.append(("runtime", self.runtime.stop()))
        if self.verifier is not None:
            found.append(("verifier", self.verifier.stop()))
        return found


class _Failed(Exception):
    """A stage failed and its error is already on the trace."""


def _on_user_loop(work: Coroutine[Any, Any, Any]) -> asyncio.Future[Any]:
    return asyncio.wrap_future(loops.user().submit(work))


async def _whole(work: Coroutine[Any, Any, Any]) -> bool:
    """Await `work` to its end even if this task is cancelled meanwhile, and say whether it was."""
    doing = asyncio.ensure_future(work)
    cancelled = False
    while not doing.done():
        try:
            await asyncio.shield(doing)
        except asyncio.CancelledError:
            cancelled = True
        except Exception:
            break  # raised below, once
    doing.result()
    return cancelled
