"""A harness from a plain function: `@vf.harness async def twice(session, task): ...`."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Awaitable, Callable
from typing import Any, ClassVar

from vfnb.agents.base import Harness, HarnessConfig
from vfnb.agents.session import HarnessSession
from vfnb.errors import HookError
from vfnb.loops import on_worker
from vfnb.tasks import Task
from vfnb.utils.source import code_hash

__all__ = ["FunctionHarness", "harness"]

Function = Callable[[HarnessSession, Task[Any, Any, Any]], Awaitable[str | None] | str | None]


class FunctionHarness(Harness[HarnessConfig]):
    """Runs a function of (session, task); what it returns is the final answer."""

    SUPPORTS_MCP: ClassVar[bool] = True  # it has session.tools, session.call_tool and session.mcp_servers

    def __init__(self, function: Function) -> None:
        super().__init__(HarnessConfig())
        self.function = function
        self.__doc__ = function.__doc__

    @property
    def name(self) -> str:
        return self.function.__name__

    @classmethod
    def described(cls) -> dict[str, Any]:
        return super().described() | {"kind": "function", "images": True}

    def identity(self) -> dict[str, Any]:
        return {"name": self.name, "config": {}, "code": code_hash(self.function)}

    async def run(self, session: HarnessSession, task: Task[Any, Any, Any]) -> str | None:
        if asyncio.iscoroutinefunction(self.function):
            answer = await self.function(session, task)
        else:
            answer = await on_worker(self.function, session, task)
            if inspect.isawaitable(answer):
                answer = await answer
        if answer is not None and not isinstance(answer, str):
            if inspect.iscoroutine(answer):
                answer.close()
                raise HookError(
                    f"harness {self.name!r} returned the coroutine {answer.__qualname__}; an `await` is missing"
                )
            raise HookError(
                f"harness {self.name!r} returned {type(answer).__name__}; return the final answer as str "
                "(the `text` of a completion), or None"
            )
        return answer

    def __call__(self, session: HarnessSession, task: Task[Any, Any, Any]) -> Any:
        """The plain function, for use inside another harness."""
        return self.function(session, task)


def harness(function: Function) -> FunctionHarness:
    """Make a harness of a function `(session, task)`, sync or async; its return value is the final answer.

    Raises:
        HookError: the function does not take exactly these two arguments.
    """
    parameters = list(inspect.signature(function).parameters.values())
    positional = [p for p in parameters if p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)]
    required = [p for p in parameters if p.default is p.empty and p.kind is not p.VAR_POSITIONAL]
    if len(positional) < 2 or len(required) > 2:
        names = ", ".join(p.name for p in parameters)
        raise HookError(
            f"harness {function.__name__}({names}) must take (session, task): "
            f"write `async def {function.__name__}(session, task)`"
        )
    return FunctionHarness(function)
