"""Intercepts in whole rollouts: the rules, what the model and the harness get, and what is recorded."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

import pytest

import vfnb as vf
from vfnb.errors import ConfigError, HarnessError

TOOL = vf.Tool(name="look", parameters={"type": "object"})


def ask(*ids: str, arguments: str = "{}") -> vf.AssistantMessage:
    return vf.AssistantMessage(
        tool_calls=[vf.ToolCall(id=name, name="look", arguments=arguments) for name in ids]
    )


class Model:
    """A scripted model that keeps what it was sent."""

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.sent: list[vf.Messages] = []

    def __call__(self, messages: vf.Messages) -> Any:
        self.sent.append(messages)
        return self.replies[len(self.sent) - 1]


class Looker(vf.Harness):
    """Runs every tool call and answers with `secret ID`."""

    SUPPORTS_TOOL_INTERCEPTION = True

    def __init__(self, turns: int = 3) -> None:
        super().__init__()
        self.turns = turns
        self.ran: list[str] = []
        self.got: list[vf.AssistantMessage] = []

    async def run(self, session: vf.HarnessSession, task: vf.Task[Any, Any, Any]) -> None:
        messages: Any = [vf.SystemMessage(content="You look."), vf.UserMessage(content=task.data.prompt_text)]
        for _ in range(self.turns):
            done = await session.complete(messages, tools=[TOOL])
            self.got.append(done.message)
            results: list[Any] = []
            for call in done.tool_calls:
                result = await session.check_tool(call)
                if result is None:
                    self.ran.append(call.id)
                    result = vf.ToolMessage(tool_call_id=call.id, content=f"secret {call.id}")
                results.append(result)
            messages = [*done.messages, *(results or [vf.UserMessage(content="go on")])]


def run(task_class: type[vf.Task], model: Callable[..., Any], harness: Any = None, **config: Any) -> vf.Trace:
    task = task_class(vf.TaskData(prompt="begin"), vf.TaskConfig(**config))
    return asyncio.run(vf.make_agent(harness or Looker(), model=vf.Scripted(model)).run(task))


def refused(hook: Callable[..., Any], on: str = "request", model: Any = None) -> str:
    hook.__name__, hook.__qualname__ = "hook", "Rules.hook"
    rules = type("Rules", (vf.Task,), {"hook": vf.intercept(on=on)(hook)})
    trace = run(rules, model or Model(ask("a"), "done", "end"))
    assert trace.end_state == "error" and trace.errors[-1].type == "HookFailed", trace.errors
    return trace.errors[-1].message


class Redact(vf.Task):
    @vf.intercept
    def redact(self, request: vf.Request) -> vf.Request | None:
        messages = [
            message.model_copy(update={"content": message.text.replace("secret", "public")})
            if message.role == "tool"
            else message
            for message in request.messages
        ]
        return request.model_copy(update={"messages": messages})


def test_request_interception_rewrites_new_messages_before_the_model_sees_them() -> None:
    model = Model(ask("a"), ask("b"), "done")
    trace = run(Redact, model)
    assert trace.end_state == "completed", trace.errors
    assert model.sent[1][-1].text == "public a"
    assert [message.text for message in model.sent[2] if message.role == "tool"] == ["public a", "public b"]


def test_rewritten_tool_results_are_pinned_in_later_turns() -> None:
    count = iter(range(100))

    class Unstable(vf.Task):
        @vf.intercept
        def number(self, request: vf.Request) -> vf.Request | None:
            last = request.messages[-1]
            if last.role != "tool":
                return None
            last.content = f"rewritten {next(count)}"
            return request

    model = Model(ask("a"), ask("b"), "done", "more")
    trace = run(Unstable, model, Looker(turns=4))
    results = [[message.text for message in sent if message.role == "tool"] for sent in model.sent]
    assert results == [[], ["rewritten 0"], ["rewritten 0", "rewritten 1"], ["rewritten 0", "rewritten 1"]]
    assert len(trace.branches) == 1  # each history is a prefix of the next one
    assert [m.text for m in trace.messages if m.role == "tool"] == ["rewritten 0", "rewritten 1"]


def test_before_and_after_of_a_rewrite_are_recorded() -> None:
    class Twice(Redact):
        @vf.intercept(priority=-1)
        async def shout(self, request: vf.Request, trace: vf.Trace) -> vf.Request | None:
            await asyncio.sleep(0)
            last = request.messages[-1]
            if last.role == "tool":
                last.content = last.text.upper()
            return request

    trace = run(Twice, Model(ask("a"), "done", "end"))
    trace = vf.Trace.model_validate_json(trace.model_dump_json())
    found = [(one.hook, one.stage, one.call, one.before.text, one.after.text) for one in trace.rewrites]
    assert found == [
        ("redact", "request", 1, "secret a", "public a"),
        ("shout", "request", 1, "public a", "PUBLIC A"),
    ]


def test_response_interception_replaces_the_text_before_the_harness_gets_it() -> None:
    class Polite(vf.Task):
        @vf.intercept
        def soften(self, response: vf.Response) -> vf.Response | None:
            if "damn" not in response.text:
                return None
            return response.model_copy(update={"message": vf.AssistantMessage(content="oh dear")})

        @vf.reward
        def polite(self, trace: vf.Trace) -> float:
            return float("damn" not in trace.last_reply)

    model = Model("damn it", "fine", "damn again")
    harness = Looker()
    trace = run(Polite, model, harness)
    assert [message.text for message in harness.got] == ["oh dear", "fine", "oh dear"]
    assert [message.text for message in model.sent[1]][2:] == ["oh dear", "go on"]  # the program's history
    assert trace.last_reply == "oh dear" and trace.messages[-1].text == "oh dear" and trace.reward == 1.0
    assert [(one.hook, one.before.text, one.after.text) for one in trace.rewrites] == [
        ("soften", "damn it", "oh dear"),
        ("soften", "damn again", "oh dear"),
    ]
    assert [node.text for node in trace.nodes if node.sampled] == ["damn it", "fine", "damn again"]
    causes = [(branch.cause.cause, branch.cause.detail) for branch in trace.branches if branch.cause]
    assert causes == [("history_edited", "intercepted")] * 2
    again = vf.Trace.model_validate_json(trace.model_dump_json())
    assert again.last_reply == "oh dear" and len(again.rewrites) == 2


def test_a_replacement_may_drop_the_tool_calls_of_an_answer() -> None:
    class Quiet(vf.Task):
        @vf.intercept
        def no_tools(self, response: vf.Response) -> vf.Response | None:
            if not response.message.tool_calls:
                return None
            return response.model_copy(update={"message": vf.AssistantMessage(content="I must not look.")})

    harness = Looker()
    trace = run(Quiet, Model(ask("a"), "done", "end"), harness)
    assert harness.ran == [] and harness.got[0].text == "I must not look."
    assert trace.calls[0].finish_reason == "tool_calls" and trace.end_state == "completed"


def test_none_leaves_the_payload_untouched() -> None:
    class Idle(vf.Task):
        @vf.intercept
        def a(self, request: vf.Request) -> vf.Request | None:
            request.messages[-1].content = "not returned, not applied"
            return None

        @vf.intercept
        def b(self, response: vf.Response) -> vf.Response | None:
            response.message.content = "nor this"
            return None

    model = Model("one", "two", "three")
    harness = Looker()
    trace = run(Idle, model, harness)
    assert [message.text for message in model.sent[0]] == ["You look.", "begin"]
    assert [message.text for message in harness.got] == ["one", "two", "three"]
    assert trace.rewrites == [] and trace.messages[1].text == "begin"


def test_request_interception_may_not_add_or_remove_messages() -> None:
    def hook(self: Any, request: vf.Request) -> vf.Request:
        return request.model_copy(update={"messages": [*request.messages, vf.UserMessage(content="psst")]})

    text = refused(hook)
    assert "intercept Rules.hook returned 3 messages for 2" in text and "not add or remove" in text


def test_request_interception_may_not_alter_tool_definitions() -> None:
    def hook(self: Any, request: vf.Request) -> vf.Request:
        return request.model_copy(update={"tools": []})

    assert "intercept Rules.hook changed the tool definitions" in refused(hook)

    def in_place(self: Any, request: vf.Request) -> vf.Request:
        request.tools[0].description = "other"
        return request

    assert "intercept Rules.hook changed the tool definitions" in refused(in_place)


def test_request_interception_may_not_change_tool_call_names_and_ids() -> None:
    def answered(self: Any, request: vf.Request) -> vf.Request:
        if request.messages[-1].role == "tool":
            request.messages[-1].tool_call_id = "other"
        return request

    assert "message 3 (tool) has another tool_call_id now: 'other' for 'a'" in refused(answered)

    def asked(self: Any, request: vf.Request) -> vf.Request:
        for message in request.messages:
            for call in getattr(message, "tool_calls", ()):
                call.name = "hide"
        return request

    assert "message 2 (assistant) is history" in refused(asked)


def test_request_interception_may_not_change_what_the_model_has_seen() -> None:
    def hook(self: Any, request: vf.Request) -> vf.Request | None:
        if len(request.messages) == 2:
            return None
        request.messages[1].content = "another beginning"
        return request

    assert "message 1 (user) is history that the model has seen already" in refused(hook)


def test_request_interception_may_change_user_and_tool_messages_only() -> None:
    def hook(self: Any, request: vf.Request) -> vf.Request:
        request.messages[0].content = "You hide."
        return request

    assert "message 0 (system) was rewritten; only new user and tool messages may be" in refused(hook)


@pytest.mark.parametrize("change", [{"model": "another"}, {"sampling": {"temperature": 0}}])
def test_request_interception_may_not_change_the_settings(change: dict[str, Any]) -> None:
    def hook(self: Any, request: vf.Request) -> vf.Request:
        return request.model_copy(update=change)

    assert f"changed the request's {next(iter(change))}" in refused(hook)


def test_replacement_responses_cannot_carry_tool_calls() -> None:
    def hook(self: Any, response: vf.Response) -> vf.Response:
        response.message.content = "And now:"
        return response

    text = refused(hook, "response")
    assert "intercept Rules.hook returned an answer with tool calls" in text and "vf.ToolCall" in text


@pytest.mark.parametrize("on", ["request", "response", "tool"])
def test_an_intercept_must_return_its_own_type(on: str) -> None:
    def hook(self: Any, payload: Any) -> int:
        return 3

    assert "intercept Rules.hook returned a int; return" in refused(hook, on)


@pytest.mark.parametrize("on", ["request", "response", "tool"])
def test_a_failing_intercept_is_an_error_of_the_rollout_that_names_it(on: str) -> None:
    def hook(self: Any, payload: Any) -> None:
        raise ZeroDivisionError("by zero")

    assert refused(hook, on) == "intercept Rules.hook raised ZeroDivisionError: by zero"


def test_rewritten_texts_are_cut_at_the_configured_size_and_the_cut_is_recorded() -> None:
    class Long(vf.Task):
        @vf.intercept
        def much(self, request: vf.Request) -> vf.Request:
            if request.messages[-1].role == "tool":
                request.messages[-1].content = "ä" * 30_000
            return request

    model = Model(ask("a"), "done", "end")
    trace = run(Long, model)
    assert len(model.sent[1][-1].text) == 30_000 and trace.rewrites[0].cut == 0  # no limit, no cut
    model = Model(ask("a"), "done", "end")
    trace = run(Long, model, max_rewrite_bytes=1001)
    assert model.sent[1][-1].text == "ä" * 500
    assert trace.rewrites[0].cut == 59_000


# Tool gating


class Gate(vf.Task):
    @vf.intercept
    def no_a(self, call: vf.ToolCall, trace: vf.Trace) -> vf.ToolMessage | str | None:
        return "You may not look there." if call.id == "a" else None


def test_a_tool_call_can_be_blocked_and_the_agent_keeps_going() -> None:
    model = Model(ask("a", "b"), "done", "end")
    harness = Looker()
    trace = run(Gate, model, harness)
    assert harness.ran == ["b"] and trace.end_state == "completed"
    assert [message.text for message in model.sent[1]][-2:] == ["You may not look there.", "secret b"]
    (one,) = trace.rewrites
    assert (one.hook, one.stage, one.call) == ("no_a", "tool", 0)
    assert isinstance(one.before, vf.ToolCall) and one.before.id == "a"
    assert one.after.text == "You may not look there."


def test_blocking_tools_needs_a_harness_that_checks_them() -> None:
    class Blind(Looker):
        SUPPORTS_TOOL_INTERCEPTION = False

    model = Model("unused")
    with pytest.raises(
        ConfigError, match=r"Gate\.no_a intercepts tool calls, which harness 'Blind' does not"
    ):
        run(Gate, model, Blind())
    assert model.sent == []


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (
            vf.ToolCall(id="toolu_a", name="look", arguments="{}"),
            "no answer of the model has a tool call with",
        ),
        (vf.ToolCall(id="a", name="loo", arguments="{}"), "is look({ }) in the model's answer, not loo({})"),
        (vf.ToolCall(id="a", name="look", arguments='{"x": 1}'), "pass the call as it came"),
    ],
)
def test_tool_calls_are_matched_exactly(call: vf.ToolCall, said: str) -> None:
    class Sloppy(Looker):
        async def run(self, session: vf.HarnessSession, task: vf.Task[Any, Any, Any]) -> None:
            await session.complete("look", tools=[TOOL])
            with pytest.raises(HarnessError) as caught:
                await session.check_tool(call)
            raise HarnessError(str(caught.value))

    trace = run(Gate, Model(ask("a", arguments="{ }")), Sloppy())
    assert said in trace.errors[-1].message


def test_an_id_that_comes_again_means_the_newest_call() -> None:
    class Paths(vf.Task):
        @vf.intercept
        def only_tmp(self, call: vf.ToolCall) -> str | None:
            return None if call.parsed["path"].startswith("/tmp") else "no"

    model = Model(ask("0", arguments='{"path": "/tmp/x"}'), ask("0", arguments='{"path": "/etc"}'), "done")
    harness = Looker()
    trace = run(Paths, model, harness)
    assert harness.ran == ["0"] and trace.rewrites[0].call == 1
