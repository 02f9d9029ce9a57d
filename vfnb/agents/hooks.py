"""The bridge from a task's stops and intercepts to the calls of a rollout.

User code runs on the loop of hooks or in worker threads, never on the engine loop; what it returns is held to the
rules before anything is changed.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from vfnb.errors import HookFailed, VfnbError
from vfnb.interception import Edit, Hooks
from vfnb.tasks import answer_of, call_hook, call_result, copy_of, edits_of, shortened
from vfnb.trace.mending import held
from vfnb.types import Message, Request, Response, ToolCall, ToolMessage
from vfnb.utils.told import raised

if TYPE_CHECKING:
    from vfnb.runtimes import Runtime
    from vfnb.tasks import Hook, Task
    from vfnb.trace import Trace

__all__ = ["TaskHooks", "task_hooks"]


def task_hooks(
    task: Task[Any, Any, Any],
    trace: Trace,
    runtime: Runtime | None,
    log: Callable[[str], object] | None = None,
) -> Hooks | None:
    """The hooks of a task for one rollout; None if it has none, so that the rollout's calls pay nothing.

    Args:
        log: takes what hooks print.
    """
    hooks = [*task.hooks("stop"), *task.hooks("intercept")]
    return TaskHooks(task, hooks, trace, runtime, log) if hooks else None


class TaskHooks(Hooks):
    """Asks a task's stops and intercepts, each kind in its order; stops see what came, before any rewrite."""

    def __init__(
        self,
        task: Task[Any, Any, Any],
        hooks: Sequence[Hook],
        trace: Trace,
        runtime: Runtime | None,
        log: Callable[[str], object] | None,
    ) -> None:
        self._task, self._trace, self._runtime, self._log = task, trace, runtime, log
        self._limit = task.config.max_rewrite_bytes
        self._hooks: dict[tuple[str, str], list[Hook]] = {}
        for hook in hooks:
            self._hooks.setdefault((hook.spec.kind, hook.spec.on), []).append(hook)
        self.on_trace = ("stop", "trace") in self._hooks
        self.on_request = ("stop", "request") in self._hooks
        self.on_response = ("stop", "response") in self._hooks
        self.edits_request = ("intercept", "request") in self._hooks
        self.edits_response = ("intercept", "response") in self._hooks
        self.on_tool = ("intercept", "tool") in self._hooks

    async def trace(self, trace: Trace) -> str | None:
        return await self._stop("trace", trace)

    async def request(self, request: Request, trace: Trace) -> str | None:
        return await self._stop("request", request)

    async def response(self, response: Response, trace: Trace) -> str | None:
        return await self._stop("response", response)

    async def edit(self, request: Request, first: int, trace: Trace) -> dict[int, list[Edit]]:
        edits: dict[int, list[Edit]] = {}
        for hook in self._hooks["intercept", "request"]:
            result = await self._call(hook, copy_of(request))
            if result is None:
                continue
            messages: list[Message] = list(request.messages)
            for position, after in edits_of(_label(hook, self._task), request, result, first).items():
                after, cut = shortened(after, self._limit)
                edits.setdefault(position, []).append(Edit(hook.spec.name, messages[position], after, cut))
                messages[position] = after
            request = request.model_copy(update={"messages": messages})
        return edits

    async def answer(self, response: Response, trace: Trace) -> tuple[Response, Sequence[Edit]]:
        edits: list[Edit] = []
        for hook in self._hooks["intercept", "response"]:
            result = await self._call(hook, response.model_copy(deep=True))
            after = None if result is None else answer_of(_label(hook, self._task), response, result)
            if after is not None:
                message, cut = shortened(after.message, self._limit)
                edits.append(Edit(hook.spec.name, response.message, message, cut))
                response = after.model_copy(update={"message": message})
        return response, edits

    async def tool(self, call: ToolCall, trace: Trace) -> tuple[str, ToolMessage] | None:
        for hook in self._hooks["intercept", "tool"]:
            result = await self._call(hook, call.model_copy(deep=True))
            if result is not None:
                return hook.spec.name, call_result(_label(hook, self._task), call, result)
        return None

    async def _stop(self, stage: str, payload: Any) -> str | None:
        for hook in self._hooks["stop", stage]:
            result = await self._call(hook, payload)
            if result is not None and type(result).__name__ not in ("bool", "bool_"):  # the latter is numpy's
                raise HookFailed(
                    f"{_label(hook, self._task)} returned {result!r}; return True to end the run, False to go on"
                )
            if result:
                return hook.spec.name
        return None

    async def _call(self, hook: Hook, payload: Any) -> Any:
        trace = self._trace
        values = {
            "trace": trace,
            "runtime": self._runtime,
            "task": self._task.data,
            "state": trace.state,
            hook.spec.payload: payload,
        }
        label = _label(hook, self._task)
        with held(trace, label, HookFailed, trace.timing.get("agent")):
            try:
                return await call_hook(hook.function, values, label=label, log=self._log, blocked=self._note)
            except Exception as error:
                failure = HookFailed(f"{label} raised {raised(error)}")
                failure.retryable = isinstance(error, VfnbError) and error.retryable  # type: ignore[misc]
                raise failure from error

    def _note(self, line: str) -> None:
        self._trace.info.setdefault("warnings", []).append(line)


def _label(hook: Hook, task: Task[Any, Any, Any]) -> str:
    method = getattr(hook.function, "__self__", None) is task
    return f"{hook.spec.kind} {type(task).__name__ + '.' if method else ''}{hook.spec.name}"
