"""Pinned prompts and replaced replies in the graph."""

from __future__ import annotations

import json

from support.talks import say

from vfnb.trace import ModelCall, Rewrite, Trace, identity, pack, unpack
from vfnb.types import AssistantMessage, Message, UserMessage


def items(*messages: Message) -> list[tuple[Message, object]]:
    return [(message, identity(message)) for message in messages]


def rewrite(message: Message, hook: str = "hook", stage: str = "request", back: int = 0) -> Rewrite:
    return Rewrite(hook=hook, stage=stage, before=message.model_dump_json(), back=back)


def test_a_pinned_message_matches_the_node_with_the_new_words() -> None:
    trace = Trace()
    dag = trace.dag
    said, sent = UserMessage(content="said"), UserMessage(content="sent")
    reply = say(trace, -1, [sent], "answer", rewrites=[rewrite(said)])
    dag.pin(identity(said), 0)
    more = UserMessage(content="more")
    assert dag.walk(-1, items(said)) == (0, 1)  # type: ignore[arg-type]
    assert dag.walk(-1, items(said, AssistantMessage(content="answer"), more)) == (reply, 2)  # type: ignore[arg-type]
    assert dag.walk(-1, items(sent)) == (0, 1)  # type: ignore[arg-type]
    assert dag.walk(reply, items(said)) == (reply, 0)  # type: ignore[arg-type]
    call = ModelCall()
    dag.commit(call, parent=-1, new=items(said), reply=None)  # type: ignore[arg-type]
    assert call.prompt_node == 0 and len(dag.nodes) == 2
    assert [(one.before.text, one.after.text) for one in trace.rewrites] == [("said", "sent")]  # type: ignore[union-attr]


def test_a_replaced_reply_stands_beside_the_sampled_one() -> None:
    trace = Trace()
    dag = trace.dag
    sampled = say(trace, -1, [UserMessage(content="hi")], "rude")
    shown = AssistantMessage(content="polite")
    delta = dag.show(0, shown, [rewrite(AssistantMessage(content="rude"), stage="response")])
    assert len(delta.nodes) == 1 and len(delta.contents) == 1
    assert (trace.last_reply, [m.text for m in trace.messages]) == ("polite", ["hi", "polite"])
    assert [node.sampled for node in dag.nodes] == [False, True, False]
    assert dag.nodes[sampled].message.text == "rude" and trace.num_turns == 1
    after = say(trace, 2, [UserMessage(content="go on")], "fine")
    assert dag.path(after) == [0, 2, 3, 4]
    first, second = trace.branches
    assert first.cause is None and second.cause is not None
    assert (second.cause.cause, second.cause.detail) == ("history_edited", "intercepted")
    for twin in (
        Trace.model_validate_json(trace.model_dump_json()),
        Trace.from_header(trace.header(), unpack(pack(dag))),
    ):
        assert twin.last_reply == "fine" and twin.calls[0].shown_node == 2
        assert [(one.before.text, one.after.text) for one in twin.rewrites] == [("rude", "polite")]  # type: ignore[union-attr]


def test_results_in_place_of_tools_and_steps_between_hooks_are_kept() -> None:
    trace = Trace()
    steps = [
        Rewrite(
            hook="first",
            stage="request",
            before=UserMessage(content="a").model_dump_json(),
            after=UserMessage(content="b").model_dump_json(),
            back=1,
        ),
        rewrite(UserMessage(content="b"), "second", back=1),
        Rewrite(
            hook="gate",
            stage="tool",
            before=json.dumps({"id": "t", "name": "rm", "arguments": "{}"}),
            after=json.dumps({"role": "tool", "tool_call_id": "t", "content": "no \ud800"}),
            cut=7,
        ),
    ]
    say(trace, -1, [UserMessage(content="c"), UserMessage(content="last")], "x", rewrites=steps)
    found = [(one.hook, one.stage, getattr(one.after, "content", None), one.cut) for one in trace.rewrites]
    assert found == [
        ("first", "request", "b", 0),
        ("second", "request", "c", 0),
        ("gate", "tool", "no \ud800", 7),
    ]


def test_the_schema_of_a_trace_describes_rewrites() -> None:
    schema = Trace.model_json_schema()
    rewrites = schema["properties"]["calls"]["items"]["properties"]["rewrites"]
    assert "hook" in rewrites["items"]["properties"] and "$ref" not in json.dumps(rewrites)
