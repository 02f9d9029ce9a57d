"""A trace as an ATIF trajectory (v1.8, the form of Harbor): its main line as steps, other branches embedded."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from vfnb.exchange.atif_media import MediaWriter
from vfnb.exchange.imports.atif import step_message
from vfnb.trace.calls import plain_call
from vfnb.trace.identity import content
from vfnb.types import AssistantMessage, ToolMessage
from vfnb.utils.plain import decode_json, plain

if TYPE_CHECKING:
    from vfnb.trace import Branch, ModelCall, Trace
    from vfnb.trace.node import Node

__all__ = ["VERSION", "lost_on_the_way", "trajectory"]

VERSION = "ATIF-v1.8"
_DERIVED = ("index", "prompt_node", "reply_node", "shown_node", "usage", "rewrites", "retry_of")
"""Fields of a call that are elsewhere in a step, or are made again from the steps."""


def trajectory(trace: Trace, folder: Path) -> dict[str, Any]:
    """The document of a trace; images and sounds are written into `folder`.

    What the format has no field for (rewards, how a call was sampled, messages that it would change) stands under
    `extra`, key `vfnb`, so that `vf.load` gives the same trace again.

    Args:
        trace: one with at least one message.
        folder: where the document will be.
    """
    return _Writer(trace, folder).root()


def lost_on_the_way(trace: Trace) -> list[str]:
    """What the format cannot carry of a trace."""
    found = []
    silent = sum(call.reply_node is None for call in trace.dag.calls)
    if silent:
        found.append(f"{silent} calls without a reply are not carried")
    if any(call.shown_node is not None or call.rewrites for call in trace.dag.calls):
        found.append("what intercepts changed is not carried")
    columns = trace.dag.columns
    if columns is not None and columns.experts:
        found.append("its expert routing is not carried")
    if columns is not None and columns.kept:
        found.append("which tokens the sampling filters had left is not carried")
    return found


class _Writer:
    def __init__(self, trace: Trace, folder: Path) -> None:
        self.trace, self.graph = trace, trace.dag
        self.media = MediaWriter(folder)
        self.written: set[int] = set()
        """Nodes that an earlier document has."""

    def root(self) -> dict[str, Any]:
        trace = self.trace
        main = trace.main
        assert main is not None
        document = self.document(main, trace.id)
        tools = {digest: decode_json(raw) for digest, raw in self.graph.tools.items()}
        usage = trace.usage
        document |= {
            "session_id": trace.episode_id or trace.id,
            "final_metrics": {
                "total_prompt_tokens": usage.prompt_tokens,
                "total_completion_tokens": usage.completion_tokens,
                "total_cached_tokens": usage.cached_tokens,
                "total_steps": len(document["steps"]),
                **({} if usage.cost is None else {"total_cost_usd": usage.cost}),
            },
            "extra": {"vfnb": {"trace": plain(trace.header()), "tools": tools}},
        }
        others = [branch for branch in trace.branches if branch.id != main.id]
        if others:
            document["subagent_trajectories"] = [
                self.document(branch, f"{trace.id}-{branch.id}") for branch in others
            ]
        return document

    def document(self, branch: Branch, id: str) -> dict[str, Any]:
        steps: list[dict[str, Any]] = []
        open_calls: set[str] = set()
        """Tool calls of the last step, as long as only their results came after it."""
        for index in branch.path:
            node = self.graph.nodes[index]
            message = node.message
            if isinstance(message, ToolMessage) and steps:
                answered = message.tool_call_id in open_calls
                result: dict[str, Any] = {"content": self.media.content(message.content)}
                if answered:
                    result["source_call_id"] = message.tool_call_id
                result = self.exact(result, node, {}, result=True)
                if not answered:
                    steps.append({"source": "system", "message": ""})
                    self.mark(steps[-1], node)
                steps[-1].setdefault("observation", {"results": []})["results"].append(result)
            else:
                steps.append(self.step(node, branch))
                open_calls = {call["tool_call_id"] for call in steps[-1].get("tool_calls", ())}
            self.written.add(index)
        fork = branch.cause
        why = {} if fork is None else {"cause": fork.cause, "detail": fork.detail, "after": branch.shared}
        return {
            "schema_version": VERSION,
            "trajectory_id": id,
            "agent": self.agent(),
            "steps": [{"step_id": at, **step} for at, step in enumerate(steps, 1)],
            "extra": {"vfnb": {"branch": branch.index, **why}},
        }

    def agent(self) -> dict[str, Any]:
        program = self.trace.info.get("program")
        program = program if isinstance(program, dict) else {}
        model = next((call.served_model or call.model for call in self.graph.calls), "")
        definitions: dict[str, Any] = {}
        for raw in self.graph.tools.values():
            for tool in decode_json(raw):
                function = {
                    key: tool[key] for key in ("name", "description", "parameters", "strict") if key in tool
                }
                definitions[str(tool.get("name"))] = {"type": "function", "function": function}
        return {
            "name": str(program.get("name") or self.trace.agent),
            "version": str(program.get("version") or "unknown"),
            **({"model_name": model} if model else {}),
            **({"tool_definitions": list(definitions.values())} if definitions else {}),
        }

    # Steps

    def mark(self, step: dict[str, Any], node: Node) -> None:
        """Say that a step stands in an earlier document already."""
        if node.index in self.written:
            step["is_copied_context"] = True

    def step(self, node: Node, branch: Branch) -> dict[str, Any]:
        message = node.message
        given = self.media.content(message.content)
        if not isinstance(message, AssistantMessage):
            source = "user" if message.role == "user" else "system"
            step: dict[str, Any] = {"source": source, "message": given}
            self.mark(step, node)
            return self.exact(step, node, {})
        step = {"source": "agent", "message": given}
        calls = [_tool_call(call) for call in message.tool_calls]
        if calls:
            step["tool_calls"] = calls
        call = self.graph.calls[node.call]
        if node.index in self.written:
            self.mark(step, node)
        elif not node.sampled:
            step["llm_call_count"] = 0
        else:
            step |= self.sampled(node, call, branch)
        if message.reasoning_content is not None and step.get("llm_call_count") != 0:
            step["reasoning_content"] = message.reasoning_content
        own = {"order": call.index, "call": _call(call)} if step.get("llm_call_count") == 1 else {}
        return self.exact(step, node, own | step.pop("tokens", {}))

    def sampled(self, node: Node, call: ModelCall, branch: Branch) -> dict[str, Any]:
        found: dict[str, Any] = {"llm_call_count": 1}
        if call.end:
            found["timestamp"] = datetime.fromtimestamp(call.end, UTC).isoformat()
        if call.served_model or call.model:
            found["model_name"] = call.served_model or call.model
        metrics: dict[str, Any] = {}
        if call.usage is not None:
            usage = call.usage
            metrics = {
                "prompt_tokens": usage.prompt_tokens,
                "completion_tokens": usage.completion_tokens,
                "cached_tokens": usage.cached_tokens,
                **({} if usage.cost is None else {"cost_usd": usage.cost}),
                **({"extra": {"reasoning_tokens": usage.reasoning_tokens}} if usage.reasoning_tokens else {}),
            }
        columns = self.graph.columns
        if columns is not None and node.has_tokens:
            middle = node.start + node.lead
            begin = node.total - (node.end - node.start)
            metrics |= {
                "prompt_token_ids": branch.token_ids[: begin + node.lead].tolist(),
                "completion_token_ids": columns.ids[middle : node.end].tolist(),
                "logprobs": columns.logprobs[middle : node.end].tolist(),
            }
            mask = columns.mask[middle : node.end]
            found["tokens"] = {"spans": self.spans(node)} | ({} if mask.all() else {"sampled": mask.tolist()})
        if metrics:
            found["metrics"] = metrics
        return found

    def spans(self, node: Node) -> list[list[int]]:
        """Where the messages that the call brought lie in its prompt."""
        found = []
        nodes = self.graph.nodes
        above = node.parent
        while above >= 0 and nodes[above].call == node.call and nodes[above].has_tokens:
            found.append([nodes[above].total - (nodes[above].end - nodes[above].start), nodes[above].total])
            above = nodes[above].parent
        return found[::-1]

    def exact(
        self, step: dict[str, Any], node: Node, own: dict[str, Any], *, result: bool = False
    ) -> dict[str, Any]:
        """The step with our own extras: the message itself where reading the step would give another one."""
        message = node.message
        probe = step
        if isinstance(message.content, list):
            key = "content" if result else "message"
            probe = step | {key: [part.model_dump(exclude_none=True) for part in message.content]}
        if self.media.changed(message) or content(step_message(probe, result=result))[1] != node.raw:
            own = own | {"message": decode_json(node.raw)}
        return step | ({"extra": {"vfnb": own}} if own else {})


def _tool_call(call: Any) -> dict[str, Any]:
    """Arguments that are no JSON object have no place here; the message itself stands under `extra` then."""
    arguments = call.parsed
    return {
        "tool_call_id": call.id,
        "function_name": call.name,
        "arguments": arguments if isinstance(arguments, dict) else {},
    }


def _call(call: ModelCall) -> dict[str, Any]:
    return {key: value for key, value in plain_call(call).items() if key not in _DERIVED}
