"""ATIF trajectories (Harbor's Agent Trajectory Interchange Format, v1.0 to v1.8): one document, one trace.

Embedded sub-trajectories, files that a document refers to and its continuation become branches of its trace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from os.path import normpath
from pathlib import Path
from typing import Any

import msgspec

from vfnb.errors import TraceError
from vfnb.exchange.imports.build import Episode, Lost, Recording, Said, checked, ended, said
from vfnb.exchange.imports.fields import UNREADABLE, BadField, fault, get, message, need, seconds
from vfnb.exchange.imports.finding import Found
from vfnb.exchange.imports.media import parts
from vfnb.exchange.imports.report import Fault
from vfnb.trace import MessageGraph, ModelCall, TaskInfo, Trace
from vfnb.trace.calls import call_from
from vfnb.types import AssistantMessage, Message, Usage
from vfnb.utils.ids import digest
from vfnb.utils.plain import decode_json

__all__ = ["Documents", "fill", "read_documents", "step_message"]


@dataclass
class _Turn:
    """One agent step that a model made."""

    history: list[Said]
    reply: AssistantMessage
    call: ModelCall
    tools: list[dict[str, Any]]
    tokens: Any
    path: str
    order: int


class _Head(msgspec.Struct):
    """What tells a trajectory; the rest is passed over without being made into objects."""

    schema_version: Any = None


class Documents:
    """The documents of a folder, read when they are needed, and which of them are parts of others."""

    def __init__(self, root: Path, lost: Lost) -> None:
        self.root, self.lost = root, lost
        self.faults: list[Fault] = []
        self.named: dict[Path, list[Path]] = {}
        """By document: the files that it names, in order."""

    def add(self, file: Path) -> None:
        """Look at one; a damaged one is a fault."""
        raw = file.read_bytes()
        try:
            if not str(_head(raw).schema_version).startswith("ATIF"):
                return
            refers = b"continued_trajectory_ref" in raw or b"trajectory_path" in raw
            names = list(_named(decode_json(raw))) if refers else []
        except UNREADABLE as error:
            name = str(file.relative_to(self.root)) if file != self.root else file.name
            self.faults.append(fault(name, error, fix="write it again, or leave it out"))
            return
        self.named[file] = [Path(normpath(file.parent / name)) for name in names]

    def read(self, file: Path) -> dict[str, Any]:
        """A document that was added."""
        record: dict[str, Any] = decode_json(file.read_bytes())
        return record

    def others(self, file: Path) -> list[Path]:
        """The files that a document names, as far as they are here: its continuation and sub-agents."""
        return [other for other in self.named[file] if other in self.named and other != file]

    def roots(self) -> list[Path]:
        """The documents that no other one names."""
        named = {other for file in self.named for other in self.others(file)}
        return [file for file in self.named if file not in named] or list(self.named)


def _head(raw: bytes) -> _Head:
    try:
        return msgspec.json.decode(raw, type=_Head)
    except msgspec.DecodeError:  # NaN, which Python writes
        return msgspec.convert(decode_json(raw), _Head)


def _named(record: dict[str, Any]) -> Iterator[str]:
    names = [record.get("continued_trajectory_ref")]
    for step in get(record, "steps", list, []):
        for result in _results(step):
            names += [ref.get("trajectory_path") for ref in result.get("subagent_trajectory_ref") or ()]
    return (name for name in names if isinstance(name, str))


def read_documents(found: Found, lost: Lost) -> Iterator[Episode | Fault]:
    """A trace for each document that is not a part of another one."""
    documents = Documents(found.root, lost)
    for file in found.files:
        if file.suffix == ".json":
            documents.add(file)
    yield from documents.faults
    seen: set[str] = set()
    rollouts = Counter[str]()
    for file in documents.roots():
        name = found.name(file)
        try:
            record = documents.read(file)
            trace = _header(record, file)
            if trace.id in seen:
                raise BadField("trajectory_id", f"{trace.id!r} is the id of an earlier trajectory")
            fill(trace, documents, file, record)
            checked(trace)
            ours = "trace" in _own(record)
        except UNREADABLE as error:
            yield fault(name, error)
            continue
        seen.add(trace.id)
        if not ours:
            trace.rollout = rollouts[trace.task.key]
            rollouts[trace.task.key] += 1
        yield Episode(trace.episode_id or trace.id, [trace], trace.group_id or "")


def _header(record: dict[str, Any], file: Path) -> Trace:
    """An export of ours has the trace's own fields; otherwise the first thing a user says is the task."""
    own = _own(record).get("trace")
    if isinstance(own, dict):
        try:
            return Trace.from_header(own, MessageGraph())
        except (TraceError, ValueError) as error:
            raise BadField("extra.vfnb.trace", str(error)) from error
    steps = need(record, "steps", list)
    first = next((step for step in steps if isinstance(step, dict) and step.get("source") == "user"), {})
    prompt = first.get("message")
    text = prompt if isinstance(prompt, str) else ""
    id = get(record, "trajectory_id", str, "") or get(record, "session_id", str, "")
    trace = Trace(
        id=id or digest(file.name, repr(steps)),
        task=TaskInfo(
            key=digest(text or file.name, size=6), name=text[:60] or file.stem, data={"prompt": text}
        ),
    )
    for name in ("notes", "final_metrics", "extra"):
        if record.get(name) is not None:
            trace.info[name] = record[name]
    ended(trace)
    return trace


def fill(trace: Trace, documents: Documents, file: Path, record: dict[str, Any]) -> None:
    """Put a document, with everything that belongs to it, into a trace.

    Raises:
        BadField: a step is not what it should be.
    """
    reader = _Reader(documents)
    reader.document(record, file, "", {}, {file})
    recording = Recording(trace)
    if all(turn.order >= 0 for turn in reader.turns):  # ours: in the order in which they were made
        reader.turns.sort(key=lambda turn: turn.order)
    for turn in reader.turns:
        recording.call(
            turn.history, turn.reply, turn.call, tools=turn.tools, tokens=turn.tokens, path=turn.path
        )
    for history in reader.ends:
        recording.rest(history)
    if not reader.turns:
        documents.lost.add("trajectories without a model's reply (their messages)")


class _Reader:
    """Collects the turns of a document and its parts."""

    def __init__(self, documents: Documents) -> None:
        self.documents = documents
        self.own_tools: dict[str, Any] = {}
        self.turns: list[_Turn] = []
        self.ends: list[list[Said]] = []

    def document(
        self, record: dict[str, Any], file: Path, path: str, markers: dict[str, str], seen: set[Path]
    ) -> None:
        agent = get(record, "agent", dict, {}, path)
        tools = [_tool(one) for one in get(agent, "tool_definitions", list, [], f"{path}agent")]
        model = get(agent, "model_name", str, "", f"{path}agent")
        self.own_tools |= _own(record).get("tools") or {}
        history: list[Said] = []
        for at, step in enumerate(need(record, "steps", list, path.rstrip("."))):
            where = f"{path}steps[{at}]"
            if not isinstance(step, dict):
                raise BadField(where, "is no object")
            self.step(step, where, history, tools, model, markers, file.parent)
        self.ends.append(list(history))
        for at, part in enumerate(get(record, "subagent_trajectories", list, [], path.rstrip("."))):
            where = f"{path}subagent_trajectories[{at}]."
            if not isinstance(part, dict):
                raise BadField(where.rstrip("."), "is no object")
            mine = {} if _own(part) else {"kind": "subagent", "agent": str(part.get("trajectory_id") or at)}
            self.document(part, file, where, mine, seen)
        for other in self.documents.others(file):
            if other not in seen:
                seen.add(other)
                self.document(self.documents.read(other), other, f"{other.name}: ", markers, seen)

    def step(
        self,
        step: dict[str, Any],
        path: str,
        history: list[Said],
        tools: list[dict[str, Any]],
        model: str,
        markers: dict[str, str],
        folder: Path,
    ) -> None:
        source = need(step, "source", str, path)
        own = _own(step)
        given = step.get("message")
        if source == "agent":
            reply = _reply(step, own, path, self._parts(given, f"{path}.message", folder))
            if step.get("is_copied_context") is not True and step.get("llm_call_count") != 0:
                call = _call(step, own, path, model)
                call.markers = call.markers or dict(markers)
                tokens = self._tokens(step, own, path)
                order = own.get("order")
                tools = self.own_tools.get(call.tools or "", [] if "call" in own else tools)
                self.turns.append(
                    _Turn(
                        list(history),
                        reply,
                        call,
                        tools,
                        tokens,
                        path,
                        order if isinstance(order, int) else -1,
                    )
                )
            history.append(said(reply))
        elif source in ("user", "system"):
            results = _results(step)
            if "message" in own:
                history.append(said(message(own["message"], f"{path}.extra.vfnb.message")))
            elif given or not results:
                content = self._parts(given if given is not None else "", f"{path}.message", folder)
                history.append(said(message({"role": source, "content": content}, f"{path}.message")))
        else:
            raise BadField(f"{path}.source", f"is {source!r}, expected system, user or agent")
        for at, result in enumerate(_results(step)):
            where = f"{path}.observation.results[{at}]"
            history.append(said(self._result(result, where, folder)))

    def _result(self, result: dict[str, Any], path: str, folder: Path) -> Message:
        own = _own(result)
        if "message" in own:
            return message(own["message"], f"{path}.extra.vfnb.message")
        content = self._parts(result.get("content") or "", f"{path}.content", folder)
        return _result_message(result, path, content)

    def _parts(self, given: Any, path: str, folder: Path) -> Any:
        return parts(given, path, folder, self.documents.root, self.documents.lost)

    def _tokens(self, step: dict[str, Any], own: dict[str, Any], path: str) -> Any:
        """The step's tokens, if it has ids and logprobs of all that was sampled."""
        from vfnb.exchange.imports.fields import numbers
        from vfnb.trace.tokens import TokenTurn

        where = f"{path}.metrics"
        metrics = get(step, "metrics", dict, {}, path)
        if not metrics.get("completion_token_ids"):
            return None
        prompt, completion = (
            numbers(metrics, f"{name}_token_ids", "int32", where) for name in ("prompt", "completion")
        )
        logprobs = numbers(metrics, "logprobs", "float32", where)
        if not len(prompt) or len(logprobs) != len(completion):
            self.documents.lost.add("token ids that lack those of the prompt or logprobs")
            return None
        spans = [tuple(span) for span in own.get("spans") or ()]
        sampled = numbers(own, "sampled", "bool", f"{path}.extra.vfnb") if own.get("sampled") else None
        return TokenTurn(prompt, completion, logprobs, spans=spans, sampling_mask=sampled)


def step_message(step: dict[str, Any], *, result: bool = False) -> Message:
    """The message that reading a step (or a result of one) gives, its images and sounds aside.

    Raises:
        BadField: it is none.
    """
    given = step.get("content" if result else "message") or ""
    if result:
        return _result_message(step, "", given)
    if step["source"] == "agent":
        return _reply(step, {}, "", given)
    return message({"role": step["source"], "content": given}, "")


def _result_message(result: dict[str, Any], path: str, content: Any) -> Message:
    """A tool's result; what answers no call is what the program said to the model next."""
    call = get(result, "source_call_id", str, "", path)
    if call:
        return message({"role": "tool", "tool_call_id": call, "content": content}, path)
    return message({"role": "user", "content": content}, path)


def _own(record: Mapping[str, Any]) -> dict[str, Any]:
    """What an export of ours has put beside the format's own fields."""
    extra = record.get("extra")
    own = extra.get("vfnb") if isinstance(extra, dict) else None
    return own if isinstance(own, dict) else {}


def _results(step: Any) -> list[dict[str, Any]]:
    observation = step.get("observation") if isinstance(step, dict) else None
    results = observation.get("results") if isinstance(observation, dict) else None
    return [one for one in results if isinstance(one, dict)] if isinstance(results, list) else []


def _tool(definition: Any) -> dict[str, Any]:
    tool = definition.get("function", definition) if isinstance(definition, dict) else {}
    tool = tool if isinstance(tool, dict) else {}
    return {"description": "", "parameters": {}, **tool, "name": str(tool.get("name", ""))}


def _reply(step: dict[str, Any], own: dict[str, Any], path: str, content: Any) -> AssistantMessage:
    if "message" in own:
        made = message(own["message"], f"{path}.extra.vfnb.message")
    else:
        calls = []
        for at, call in enumerate(get(step, "tool_calls", list, [], path)):
            where = f"{path}.tool_calls[{at}]"
            if not isinstance(call, dict):
                raise BadField(where, "is no object")
            calls.append(
                {
                    "id": need(call, "tool_call_id", str, where),
                    "name": need(call, "function_name", str, where),
                    "arguments": _arguments(need(call, "arguments", dict, where)),
                }
            )
        made = message(
            {
                "role": "assistant",
                "content": content or None,
                "reasoning_content": get(step, "reasoning_content", str, "", path) or None,
                "tool_calls": calls,
            },
            path,
        )
    if not isinstance(made, AssistantMessage):
        raise BadField(path, "is an agent's step with a message of another role")
    return made


def _arguments(value: dict[str, Any]) -> str:
    import json

    return json.dumps(value, ensure_ascii=False)


def _call(step: dict[str, Any], own: dict[str, Any], path: str, model: str) -> ModelCall:
    metrics = get(step, "metrics", dict, {}, path)
    where = f"{path}.metrics"
    at = seconds(step.get("timestamp"), f"{path}.timestamp")
    call = ModelCall(start=at, end=at, finish_reason="tool_calls" if step.get("tool_calls") else None)
    if isinstance(own.get("call"), dict):
        try:
            call = call_from(own["call"])
        except ValueError as error:
            raise BadField(f"{path}.extra.vfnb.call", str(error)) from error
    call.model = call.model or get(step, "model_name", str, model, path)
    if any(metrics.get(name) is not None for name in ("prompt_tokens", "completion_tokens", "cost_usd")):
        call.usage = Usage(
            prompt_tokens=get(metrics, "prompt_tokens", int, 0, where),
            completion_tokens=get(metrics, "completion_tokens", int, 0, where),
            cached_tokens=get(metrics, "cached_tokens", int, 0, where),
            cost=get(metrics, "cost_usd", float, 0.0, where) if metrics.get("cost_usd") is not None else None,
            reasoning_tokens=get(get(metrics, "extra", dict, {}, where), "reasoning_tokens", int, 0, where),
        )
    return call
