"""Recorded runs of real agent programs give the expected graph."""

from __future__ import annotations

import pytest
from support.graphs import shape
from support.trace_captures import replay

from vfnb.trace import Trace, pack, unpack

EXPECTED = {
    "mini-swe-agent-basic": (11, 5, 3, 1),
    "openai-agents-chat": (7, 3, 1, 1),
    "pi-basic-chat": (7, 3, 1, 1),
    "codex-basic": (9, 3, 1, 1),
    "pi-basic-responses": (7, 3, 1, 1),
    "claude-code-basic": (8, 3, 1, 1),
    "pi-basic-anthropic": (7, 3, 1, 1),
    "codex-mcp": (7, 2, 1, 1),
    "codex-compact": (14, 5, 2, 1),
    "claude-code-compact": (17, 5, 4, 1),
    "opencode-compact": (14, 5, 3, 2),
    "claude-code-subagent": (13, 4, 2, 2),
    "codex-e500": (9, 3, 1, 1),
    "kimi-code-cut1": (10, 3, 1, 1),
}
DROPPED = "history_edited/reply_dropped"
CAUSES = {
    "mini-swe-agent-basic": [None, DROPPED, DROPPED],
    "opencode-compact": [None, "compaction/request", "compaction/summary"],
    "codex-compact": [None, "compaction/summary"],
    "claude-code-compact": [None, "compaction/request", "compaction/unused_request", "compaction/summary"],
    "claude-code-subagent": [None, "subagent/a8884fe0935950f0d"],
}


@pytest.mark.parametrize("name", EXPECTED)
def test_counts_and_causes(name: str) -> None:
    recorder = replay(name)
    assert shape(recorder.graph) == EXPECTED[name]
    assert recorder.causes == CAUSES.get(name, [None])


@pytest.mark.parametrize("name", ["claude-code-subagent"])
def test_a_subagent_is_known_by_its_task_text_without_a_marker(name: str) -> None:
    assert replay(name, markers=False).causes == [None, "subagent/task of node 3"]


@pytest.mark.parametrize("name", EXPECTED)
def test_every_record_form_gives_the_capture_back(name: str) -> None:
    recorder = replay(name)
    dump = recorder.trace.model_dump()
    assert recorder.reload().model_dump() == dump
    assert Trace.model_validate(dump).model_dump() == dump
    assert Trace.model_validate_json(recorder.trace.model_dump_json()).model_dump() == dump
    assert Trace.from_header(recorder.trace.header(), unpack(pack(recorder.graph))).model_dump() == dump
    assert recorder.graph.counters == recorder.graph.recount()


def test_reasoning_that_the_client_drops_stays_on_the_node() -> None:
    recorder = replay("openai-agents-chat")
    sampled = [node.message for node in recorder.graph.sampled()]
    assert [message.reasoning_content for message in sampled] == [  # type: ignore[union-attr]
        "I think about step 0. ",
        "I think about step 1. ",
        "All done now.",
    ]
    assert [call.dropped_reasoning for call in recorder.trace.calls] == [False, True, True]
    assert recorder.trace.branches[0].dropped_reasoning
    assert not replay("pi-basic-chat").trace.branches[0].dropped_reasoning


def test_raw_arguments_stay_as_sampled() -> None:
    recorder = replay("pi-basic-chat")
    first = next(recorder.graph.sampled()).message
    assert first.tool_calls[0].arguments == '{"command":  "echo step0" }'  # type: ignore[union-attr]


def test_a_cut_stream_is_a_call_without_a_node_and_its_echo_is_context() -> None:
    recorder = replay("kimi-code-cut1")
    first = recorder.trace.calls[0]
    assert first.reply_node is None
    assert first.partial_text == "  Runn"
    echo = recorder.trace.nodes[4]
    assert (echo.text, echo.sampled, echo.partial) == ("  Runn", False, True)
    assert recorder.graph.counters.failed == 1


def test_failed_calls_share_the_prompt_and_add_no_leaf() -> None:
    recorder = replay("codex-e500")
    calls = recorder.trace.calls
    assert [call.reply_node is None for call in calls] == [True, True, False, False, False]
    assert len({call.prompt_node for call in calls[:3]}) == 1


def test_a_sampled_turn_sent_again_elsewhere_is_context() -> None:
    for name, text in (("claude-code-compact", "run 2"), ("opencode-compact", "SUMMARY")):
        graph = replay(name).graph
        found = [node for node in graph.nodes if node.message.text.startswith(text)]
        assert [node.sampled for node in found if node.message.role == "assistant"] == [True, False]
        assert found[0].parent != found[-1].parent


def test_the_main_line_is_that_of_the_last_reply() -> None:
    for name, reply in (
        ("mini-swe-agent-basic", "The answer is 42.\n"),
        ("opencode-compact", "The answer is 42."),
        ("claude-code-subagent", "final 7"),
    ):
        trace = replay(name).trace
        assert trace.last_reply == reply
        assert trace.messages[-1].text == reply
