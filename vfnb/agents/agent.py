"""An agent: a harness, a model and a runtime policy, ready to run tasks."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vfnb import loops
from vfnb.agents.base import Harness
from vfnb.agents.journal import Journal, MemoryJournal
from vfnb.agents.limits import Timeouts
from vfnb.agents.loading import resolve_harness
from vfnb.agents.placement import check_placement
from vfnb.agents.rollout import Ids, Rollout
from vfnb.agents.scoring import ScoringConfig
from vfnb.clients import AnyModel, ModelClient, resolve_model
from vfnb.errors import ConfigError
from vfnb.interception import Limits, ServerPool
from vfnb.runtimes import RuntimeConfig, runtime_config
from vfnb.tasks import ToolService, check_tools, plug
from vfnb.types import SamplingConfig
from vfnb.utils.config import build
from vfnb.utils.ids import new_id

if TYPE_CHECKING:
    from vfnb.tasks import Task
    from vfnb.trace import Trace

__all__ = ["Agent", "make_agent"]

RETRY_WAIT_S = 1.0  # before the first further attempt; doubled each time


class Agent:
    """A reusable value; `await agent.run(task)` gives a trace, from any loop."""

    def __init__(
        self,
        harness: Harness[Any],
        client: ModelClient,
        *,
        runtime: RuntimeConfig,
        sampling: SamplingConfig,
        limits: Limits,
        timeouts: Timeouts,
        scoring: ScoringConfig,
        retries: int = 0,
    ) -> None:
        harness.check(runtime)
        self.harness = harness
        self.client = client
        self.runtime = runtime
        self.sampling = sampling
        self.limits = limits
        self.timeouts = timeouts
        self.scoring = scoring
        self.retries = retries
        self._pool: ServerPool | None = None

    def check(self, task: Task[Any, Any, Any]) -> None:
        """Refuse what cannot work before any model call.

        Raises:
            ConfigError: the task does not fit the harness or the runtime, or cannot be scored.
        """
        task.check()
        self.harness.check_task(task)
        if task.has_tools():
            check_tools(task, self.harness.name, supported=self.harness.SUPPORTS_MCP)
        _check_hooks(self.harness, task)
        check_placement(task, self.runtime)
        self.scoring.check(task, self.runtime)

    async def run(self, task: Task[Any, Any, Any]) -> Trace:
        """Run one task and score it; nothing is stored. Errors are on the trace, not raised.

        Raises:
            ConfigError: the endpoint, the task or the pairing cannot work.
        """
        task = task.with_hooks(plug(type(task), task.config))  # files are read here, not on the engine loop
        self.check(task)
        self.client.check()
        return await loops.engine().do(self._alone(task))

    async def _alone(self, task: Task[Any, Any, Any]) -> Trace:
        pool, tools = ServerPool(), ToolService()
        try:
            episode = new_id()
            return await self.attempts(
                task,
                lambda attempt: Ids(trace=new_id(), episode=episode, group=task.key, attempt=attempt),
                journal=MemoryJournal(),
                pool=pool,
                tools=tools,
            )
        finally:
            await tools.close()
            await pool.close()

    async def attempts(
        self,
        task: Task[Any, Any, Any],
        ids: Callable[[int], Ids],
        *,
        journal: Journal,
        pool: ServerPool,
        tools: ToolService,
        logs: Path | None = None,
    ) -> Trace:
        """Run a task until it ends without an error that a further attempt may mend. Engine loop only.

        Failed attempts stay in the journal as traces of their own; the last trace lists them.
        """
        failed: list[dict[str, Any]] = []
        for attempt in range(self.retries + 1):
            rollout = Rollout(task, self, ids(attempt), journal=journal, pool=pool, tools=tools, logs=logs)
            rollout.trace.attempts = list(failed)
            trace = await rollout.run()
            if trace.end_state != "error" or attempt == self.retries or not rollout.retryable:
                return trace
            failed.append({"trace": trace.id, "error": trace.errors[-1].type})
            await asyncio.sleep(RETRY_WAIT_S * 2**attempt)
        raise AssertionError("unreachable: the last attempt returns")

    def identity(self) -> dict[str, Any]:
        """What decides, with the task, whether an old rollout may be reused. Plain JSON values, no secrets."""
        return {
            "harness": self.harness.identity(),
            "model": self.client.identity(),
            "sampling": self.sampling.given() | {"extra_body": self.sampling.extra_body},
            "runtime": self.runtime.model_dump(mode="json"),
            "limits": self.limits.model_dump(mode="json"),
            "agent_timeout": self.timeouts.agent,
        }

    def __repr__(self) -> str:
        return f"<Agent {self.harness.name} x {self.client.name} in {self.runtime.type}>"


def _check_hooks(harness: Harness[Any], task: Task[Any, Any, Any]) -> None:
    task.hooks("stop")  # the config's functions are there and fit
    gates = [hook.spec.name for hook in task.hooks("intercept") if hook.spec.on == "tool"]
    if gates and not harness.SUPPORTS_TOOL_INTERCEPTION:
        raise ConfigError(
            f"{type(task).__name__}.{gates[0]} intercepts tool calls, which harness {harness.name!r} does not ask "
            "about before it runs them; use a harness with SUPPORTS_TOOL_INTERCEPTION, or a vf.Response stop"
        )


def make_agent(
    harness: str | Harness[Any] | Callable[..., Any] = "null",
    *,
    model: AnyModel | None = None,
    runtime: str | RuntimeConfig | dict[str, Any] | None = None,
    sampling: SamplingConfig | dict[str, Any] | None = None,
    limits: Limits | dict[str, Any] | None = None,
    timeouts: Timeouts | dict[str, Any] | None = None,
    scoring: ScoringConfig | dict[str, Any] | None = None,
    retries: int = 0,
) -> Agent:
    """Put an agent together.

    Args:
        harness: a registered name, a `Harness` object, or an async function of (session, task).
        model: a model object, or a name that is relayed to `OPENAI_BASE_URL`.
        runtime: `"inprocess"`, `"subprocess"` or a config; None takes the harness's default.
        sampling: overrides of what the program asks for.
        limits: bounds on turns and tokens of a rollout.
        timeouts: seconds per stage.
        scoring: where and whether rollouts are scored.
        retries: further attempts after an error that may pass.

    Raises:
        ConfigError: unknown names or keys, or a pairing that cannot work.
    """
    program = resolve_harness(harness)
    default = program.RUNTIMES[0] if program.RUNTIMES else "inprocess"
    if not isinstance(retries, int) or retries < 0:
        raise ConfigError(f"retries={retries!r} must be a whole number, 0 or more")
    return Agent(
        program,
        resolve_model(model),
        runtime=runtime_config(runtime if runtime is not None else default),
        sampling=build(SamplingConfig, sampling, path="sampling"),
        limits=build(Limits, limits, path="limits"),
        timeouts=build(Timeouts, timeouts, path="timeouts"),
        scoring=build(ScoringConfig, scoring, path="scoring"),
        retries=retries,
    )
