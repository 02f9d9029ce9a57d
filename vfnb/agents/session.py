"""What a harness holds while it solves a task: the endpoint, the trace, the runtime, a log."""

from __future__ import annotations

import importlib
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vfnb import loops
from vfnb.errors import MissingExtra
from vfnb.types import SamplingConfig, Tool, ToolCall, ToolMessage

if TYPE_CHECKING:
    from vfnb.interception import Completion, Endpoint, Session
    from vfnb.runtimes import Runtime
    from vfnb.tasks import RolloutTools
    from vfnb.trace import Trace
    from vfnb.types import Message, Messages

__all__ = ["HarnessSession"]

LOG_BYTES = 16 << 20  # of one rollout: a program in a loop must not fill the disk
IN_PROCESS_URL = "http://vfnb.invalid/v1"  # never resolved: the transport answers by itself


class HarnessSession:
    """One rollout as its agent program sees it.

    `complete`, `openai()` and `anthropic()` stay in process: the same recording, no socket. `base_url` opens a
    loopback server on first use, for any other client and for programs.
    """

    def __init__(
        self,
        session: Session,
        runtime: Runtime,
        *,
        model: str,
        sampling: SamplingConfig,
        connect: Callable[[], Endpoint],
        log_file: Path | None = None,
    ) -> None:
        self._session = session
        self._connect = connect
        self._endpoint: Endpoint | None = None
        self._clients: list[Any] = []
        self._log_file = log_file
        self._log_room = LOG_BYTES
        self.runtime = runtime
        self.model = model
        self.sampling = sampling
        self.tools: list[Tool] = []
        """What the task's toolsets and tool servers offer; give them to the model and answer by `call_tool`."""
        self._rollout_tools: RolloutTools | None = None
        self._mcp_servers: dict[str, str] | None = None
        self.conversation: Messages = []
        """What a resumable harness said and heard, up to the last answer; `Harness.resume` goes on from it."""
        self.memory: dict[str, Any] = {}
        """Free for the harness: what it must know of this rollout from `setup` to `run` to `resume`."""

    @property
    def trace(self) -> Trace:
        """The trace as recorded so far. Read it; the server writes it."""
        return self._session.trace

    @property
    def api_key(self) -> str:
        """The rollout's own credential; it opens nothing but this session."""
        return self._session.key

    @property
    def root_url(self) -> str:
        """The server without `/v1`, as Anthropic clients want it."""
        if self._endpoint is None:
            self._endpoint = self._connect()
        return self._endpoint.base_url

    @property
    def base_url(self) -> str:
        """The server with `/v1`, as OpenAI clients want it."""
        return self.root_url + "/v1"

    async def complete(
        self,
        messages: str | Sequence[Message | Mapping[str, Any]],
        tools: Sequence[Tool] | None = None,
        *,
        markers: Mapping[str, str] | None = None,
        **params: Any,
    ) -> Completion:
        """Ask the model for one reply.

        Args:
            messages: the whole history, of messages or of dicts as in a Chat request; or a prompt string.
            tools: tools offered with this call.
            markers: what the call is for: `{"kind": "compaction"}`, `"side_call"` or `"subagent"`, and `agent`.
            params: Chat Completions parameters such as `temperature` or `max_tokens`; the run's override them.

        Raises:
            vfnb.errors.ModelError: the upstream gave no answer.
            vfnb.interception.SessionStopped: a limit or a stop ended the rollout.
        """
        return await self._session.complete(messages, tools=tools, markers=markers, **params)

    def stop(self, name: str) -> None:
        """End the rollout by a stop of this name, as when a limit is reached: it is scored, and no call follows."""
        loops.engine().call(self._session.stop, name)

    async def allow_turns(self, turns: int) -> None:
        """From now on at most so many answered model calls, then the stop `max_turns`.

        For programs that cannot count by themselves. The bounds of the run hold besides.
        """

        async def bound() -> None:
            self._session.bound_turns(turns)

        await loops.engine().do(bound())

    def use(self, tools: RolloutTools) -> None:
        """Take over the task's tools. Called by the rollout."""
        self._rollout_tools = tools
        self.tools = list(tools.tools)

    async def call_tool(self, call: ToolCall) -> ToolMessage:
        """Answer a tool call of the model, in this process.

        A tool that does not exist, does not like its arguments, raises or runs over its time gives a message with
        `is_error`.

        Raises:
            vfnb.errors.ToolServerError: the tool's server is gone, and the rollout with it.
            vfnb.errors.StateConflict: the tool's change of the state was lost to another one's.
        """
        if self._rollout_tools is None:
            return ToolMessage(
                tool_call_id=call.id, content=f"Error: there is no tool {call.name!r}", is_error=True
            )
        return await self._rollout_tools.call(call)

    @property
    def mcp_servers(self) -> dict[str, str]:
        """Streamable-HTTP URLs of the tools by server name, for programs. Opened at the first look.

        Each URL is the rollout's own and opens nothing after its end.

        Raises:
            MissingExtra: the mcp SDK is not installed.
        """
        if self._mcp_servers is None:
            tools = self._rollout_tools
            self._mcp_servers = {} if tools is None else loops.hooks().run(tools.serve())
        return dict(self._mcp_servers)

    @property
    def served_tools(self) -> dict[str, tuple[str, str]]:
        """For each of `tools` by name, the server in `mcp_servers` that has it, and its name there."""
        return {} if self._rollout_tools is None else self._rollout_tools.served

    async def check_tool(self, call: ToolCall) -> ToolMessage | None:
        """Ask the task whether a tool may run. Harnesses with `SUPPORTS_TOOL_INTERCEPTION` ask before each call.

        Args:
            call: as it came in the model's answer; it is matched by its id.

        Returns:
            The result to send in the tool's place; None to run it. At once if the task has nothing to say.

        Raises:
            HarnessError: the model has made no such call.
            HookFailed: the task's intercept failed, and with it the rollout.
        """
        if not self._session.hooks.on_tool:
            return None
        from vfnb.interception import check_tool

        return await loops.engine().do(check_tool(self._session, call))

    def openai(self) -> Any:
        """An `openai.AsyncOpenAI` client of this rollout (needs the `openai` extra)."""
        sdk = self._sdk("openai")
        client = sdk.AsyncOpenAI(base_url=IN_PROCESS_URL, api_key=self.api_key, http_client=self._http(sdk))
        self._clients.append(client)
        return client

    def anthropic(self) -> Any:
        """An `anthropic.AsyncAnthropic` client of this rollout (needs the `anthropic` extra)."""
        sdk = self._sdk("anthropic")
        root = IN_PROCESS_URL.removesuffix("/v1")
        client = sdk.AsyncAnthropic(base_url=root, api_key=self.api_key, http_client=self._http(sdk))
        self._clients.append(client)
        return client

    def _sdk(self, name: str) -> Any:
        try:
            return importlib.import_module(name)
        except ImportError as error:
            raise MissingExtra(
                f"session.{name}() needs the {name} package: pip install 'vfnb[{name}]'"
            ) from error

    def _http(self, sdk: Any) -> Any:
        """A client without a socket, of the library that the SDK is made with."""
        from vfnb.interception.inprocess import transport

        base = next(cls for cls in sdk.DefaultAsyncHttpxClient.__mro__ if cls.__name__ == "AsyncClient")
        library = importlib.import_module(base.__module__.partition(".")[0])
        return library.AsyncClient(transport=transport(self._session, library))

    def log(self, *values: object) -> None:
        """Write a line to the rollout's log, `logs/<trace id>.log` of the run's folder; 16 MiB of it are kept."""
        if self._log_file is None:
            return
        if self._log_room <= 0:
            return
        line = f"{time.strftime('%H:%M:%S')} {' '.join(map(_shown, values))}\n"
        data = line.encode("utf-8", "backslashreplace")
        self._log_room -= len(data)
        if self._log_room <= 0:
            end = f"\n[the log ends here: {LOG_BYTES} bytes are kept of a rollout's log]\n"
            data = data[: len(data) + self._log_room] + end.encode()
        self._log_file.parent.mkdir(parents=True, exist_ok=True)
        with self._log_file.open("ab") as file:
            file.write(data)

    async def close(self) -> None:
        """Close the clients that were handed out. Called by the rollout."""

        async def close_clients() -> None:
            for client in self._clients:
                await client.close()

        if self._clients:
            await loops.user().do(close_clients())
        self._clients.clear()

    def __repr__(self) -> str:
        return f"<HarnessSession {self.trace.id} model={self.model}>"


def _shown(value: object) -> str:
    try:
        return str(value)
    except Exception as error:  # an integer of thousands of digits, a broken __str__
        return f"<{type(value).__name__}: {error}>"
