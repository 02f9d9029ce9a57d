"""The loop: ask the model, run the tools that it calls, until it answers without a call."""

from __future__ import annotations

import http.client
import json
import os
import sys

from .mcp import Server, content
from .wire import Failed, Overflow, send
from .words import SUMMARISE, arguments, check, resumed, unseen

TYPE_CHECKING = False  # importing typing would cost start time
if TYPE_CHECKING:
    from collections.abc import Callable
    from typing import Any

__all__ = ["MAX_TURNS_STATUS", "Loop", "main"]

MAX_TURNS_STATUS = 75  # the exit status that says: ended by `max_turns`


class Loop:
    """One segment of a conversation.

    Args:
        request: what `vfnb_harnesses.launch.loop_request` makes.
    """

    def __init__(self, request: dict[str, Any]) -> None:
        self.request = request
        self.history: list[dict[str, Any]] = request["messages"]
        opening, new = request["keep"]
        self.kept = self.history[:opening] + (self.history[-new:] if new else [])
        self.tools: dict[str, dict[str, Any]] = {
            tool["function"]["name"]: tool["function"] for tool in request["tools"]
        }
        self.compact_at: int | None = request["compact_at"]
        """Prompt tokens; 0 compacts only when the context is exceeded, None never."""
        self.limit: int = request["max_output"]
        self.turns = 0
        self.remote: dict[str, tuple[Server, str]] = {}
        self.local: dict[str, Callable[[dict[str, Any]], str]] = {}
        self.url = os.environ["OPENAI_BASE_URL"] + "/chat/completions"
        self.auth = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}

    def run(self) -> str | None:
        """The last reply's text; None if the turns are used up. Raises Failed."""
        self._connect()
        try:
            return self._converse()
        finally:
            for server in {id(server): server for server, _ in self.remote.values()}.values():
                server.close()

    def _connect(self) -> None:
        if self.request["local"] is not None:
            from .box import Local

            box = Local(self.request["local"], self.limit)
            self.local = {"bash": box.bash, "read": box.read, "write": box.write, "edit": box.edit}
        for name, url in self.request["mcp"].items():
            server = Server(name, url, self.request["tool_timeout"])
            for tool in server.tools():
                # `search_query`, also for a second server of the prefix, which is named `search_2`
                names = (f"{name}_{tool}", f"{name.rpartition('_')[0]}_{tool}", tool)
                offered = next((found for found in names if found in self.tools), None)
                if offered is not None:
                    self.remote[offered] = server, tool

    def _converse(self) -> str | None:
        fresh = False  # nothing was asked since the last compaction
        while self.request["max_turns"] is None or self.turns < self.request["max_turns"]:
            try:
                reply, used = self._ask(self.history)
            except Overflow:
                if fresh or self.compact_at is None or not self._compact(overflow=True):
                    raise
                fresh = True
                continue
            self.history.append(reply)
            calls = reply.get("tool_calls")
            if not calls or not self.tools:
                return _text(reply)
            self.history += self._results(calls)
            if not self.compact_at or used <= self.compact_at:
                fresh = False
            elif fresh or not self._compact():
                self.compact_at, fresh = 0, False  # it does not help, and would be tried each turn
            else:
                fresh = True
        return None

    def _ask(self, history: list[dict[str, Any]], **more: Any) -> tuple[dict[str, Any], int]:
        """The reply, and how many tokens its prompt had."""
        headers = self.auth | more.pop("headers", {})
        asked = {"model": self.request["model"], **more}
        if self.tools:
            asked["tools"] = self.request["tools"]
        try:
            response = send(self.url, asked | {"messages": history}, headers, 3600)
            data = response.read()
        except (OSError, http.client.HTTPException) as error:
            raise Failed(f"the model's endpoint broke off: {error or type(error).__name__}") from error
        if response.status != 200:
            kind = Overflow if response.status == 400 and b"context_length_exceeded" in data else Failed
            raise kind(f"{response.status} {data[:2000].decode(errors='replace')}")
        self.turns += 1
        answer = json.loads(data)
        return answer["choices"][0]["message"], (answer.get("usage") or {}).get("prompt_tokens") or 0

    # tools

    def _results(self, calls: list[dict[str, Any]]) -> list[dict[str, Any]]:
        """The tool messages of all calls, in their order; the program's own tools run one after another."""
        results: list[Any] = [None] * len(calls)

        def run(numbers: list[int]) -> None:
            for number in numbers:
                results[number] = self._result(calls[number])

        own = [i for i, call in enumerate(calls) if (call.get("function") or {}).get("name") in self.local]
        lines = [own, *([i] for i in range(len(calls)) if i not in own)]
        if len(lines) == 1:
            run(own)
        else:
            from threading import Thread

            threads = [Thread(target=run, args=(numbers,)) for numbers in lines]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        return results

    def _result(self, call: dict[str, Any]) -> dict[str, Any]:
        asked = call.get("function") or {}
        try:
            found = self._run(asked.get("name", ""), asked.get("arguments") or "")
        except Exception as error:  # whatever a tool does, the model hears of it
            found = f"Error: {error or type(error).__name__}"
        return {"role": "tool", "tool_call_id": call.get("id", ""), "content": found}

    def _run(self, name: str, given: str) -> str | list[dict[str, Any]]:
        if name not in self.tools:
            raise ValueError(f"there is no tool {name!r}; there are {', '.join(self.tools)}")
        values = arguments(given)
        if name in self.local:
            check(self.tools[name]["parameters"], values)
            return self.local[name](values)
        if name not in self.remote:
            raise ValueError(f"no tool server offers {name!r} any more")
        server, tool = self.remote[name]
        return content(server.ask("tools/call", {"name": tool, "arguments": values}), self.limit)

    # compaction

    def _compact(self, *, overflow: bool = False) -> bool:
        """Put the model's own summary in the place of the history; False if there is none to be had."""
        tries = [(self.history, "")]
        newest = max((i for i, entry in enumerate(self.history) if entry["role"] == "assistant"), default=0)
        if newest >= len(self.kept):
            tries.append((self.history[:newest], unseen(_steps(self.history[newest:]), self.limit // 8)))
        for history, note in tries[1:] if overflow else tries:
            ask = {"role": "user", "content": SUMMARISE + note}
            more: dict[str, Any] = {"headers": {"x-vfnb-kind": "compaction"}}
            if self.tools:
                more["tool_choice"] = "none"
            try:
                reply, _ = self._ask([*history, ask], **more)
            except Overflow:
                continue
            text = _text(reply).strip()
            if text:
                self.history = [*self.kept, {"role": "user", "content": resumed(text)}]
            return bool(text)
        return False


def _text(message: dict[str, Any]) -> str:
    found = message.get("content") or ""
    return found if isinstance(found, str) else "".join(part.get("text", "") for part in found)


def _steps(turn: list[dict[str, Any]]) -> list[tuple[str, str, str]]:
    """The calls of an assistant message with their results."""
    calls = turn[0].get("tool_calls") or []
    return [
        (call["function"]["name"], call["function"]["arguments"], _text(result))
        for call, result in zip(calls, turn[1:], strict=False)
    ]


def main(path: str) -> int:
    """Run the request in the file `path`, which is deleted. The exit status."""
    with open(path, "rb") as file:
        request = json.load(file)
    os.unlink(path)
    try:
        answer = Loop(request).run()
    except Failed as error:
        sys.stderr.write(f"{error}\n")
        return 1
    if answer is None:
        return MAX_TURNS_STATUS
    print(answer)
    return 0
