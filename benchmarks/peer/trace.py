"""The peer's trace, driven through what it offers. Imported by the peer's Python only."""

from __future__ import annotations

from typing import Any

from verifiers.v1 import graph
from verifiers.v1.clients import EvalClientConfig
from verifiers.v1.configs.agent import AgentConfig
from verifiers.v1.dialects.chat import parse_message
from verifiers.v1.task import TaskData
from verifiers.v1.trace import AgentInfo, ModelCall, TimeSpan, Trace, TraceTask
from verifiers.v1.types import Response, SamplingConfig, TurnTokens, Usage

from benchmarks.data import Turn, conversation

__all__ = ["new_trace", "record", "token_trace"]


def new_trace() -> Any:
    """An empty trace of a made-up task."""
    client = EvalClientConfig(base_url="http://127.0.0.1:1/v1")
    config = AgentConfig(model="mock", client=client, sampling=SamplingConfig())
    task = TraceTask(type="Bench", data=TaskData(idx=0, prompt="bench"), key="k", hash="h")
    return Trace(task=task, agent=AgentInfo(config=config))


def record(trace: Any, turn: Turn) -> None:
    """Record one turn with its tokens."""
    known = graph.prepare_turn(trace, [parse_message(message) for message in turn.messages], None)
    spans: list[tuple[int, int] | None] = [None] * turn.known
    inside = {position for start, end in turn.spans for position in range(start, end)}
    tokens = TurnTokens.model_construct(
        prompt_ids=turn.prompt_ids,
        renderer_prompt_ids=None,
        # A history that starts anew is a full render even where its system prompt is known.
        bridged=turn.known > 0,
        completion_ids=turn.completion_ids,
        completion_logprobs=turn.logprobs,
        message_spans=spans + turn.spans,
        is_content=[position in inside for position in range(len(turn.prompt_ids))],
        mm_placeholders=None,
        mm_token_type_id_map=None,
        routed_experts=None,
        sampling_mask=None,
    )
    usage = Usage(prompt_tokens=len(turn.prompt_ids), completion_tokens=len(turn.completion_ids))
    reply = parse_message(turn.reply)
    response = Response(
        id="r", created=0, model="mock", message=reply, finish_reason="tool_calls", usage=usage, tokens=tokens
    )
    response.tokens = tokens
    node = known.commit(response)
    span = TimeSpan(start=1.0, end=2.0)
    call = ModelCall(
        node=node,
        model="mock",
        endpoint="/chat/completions",
        finish_reason="tool_calls",
        usage=usage,
        time=span,
    )
    trace.calls.append(call)


def token_trace(shape: str, count: int) -> Any:
    """A recorded conversation."""
    trace = new_trace()
    for turn in conversation(shape, count):
        record(trace, turn)
    return trace
