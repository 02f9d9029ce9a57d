"""When a stop or an intercept runs is known at its definition."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import pytest

import vfnb as vf
from vfnb.errors import HookError
from vfnb.tasks.hooks import plain_spec, spec_of

if TYPE_CHECKING:
    from vfnb import Request, Response
    from vfnb import Request as Asked

Outgoing = vf.Request


def staged(function: Any) -> tuple[str, str]:
    spec = spec_of(function)
    assert spec is not None
    return spec.on, spec.payload


def refused(define: Callable[[], Any]) -> str:
    with pytest.raises(HookError) as caught:
        define()
    return str(caught.value)


def test_the_type_annotation_controls_where_the_check_runs() -> None:
    class Stops(vf.Task):
        @vf.stop
        def a(self, request: vf.Request) -> bool:
            return True

        @vf.stop
        async def b(self, answer: vf.Response, trace: vf.Trace) -> bool:
            return True

        @vf.stop
        def c(self, trace: vf.Trace) -> bool:
            return True

        @vf.intercept
        def d(self, call: vf.ToolCall) -> str | None:
            return None

        @vf.stop
        @staticmethod
        def e(turn: vf.Response | None) -> bool:
            return True

        @staticmethod
        @vf.stop
        def f(turn: vf.Response) -> bool:
            return True

    task = Stops(vf.TaskData())
    found = {hook.spec.name: (hook.spec.on, hook.spec.payload) for hook in task.hooks("stop")}
    assert found == {
        "a": ("request", "request"),
        "b": ("response", "answer"),
        "c": ("trace", "trace"),
        "e": ("response", "turn"),
        "f": ("response", "turn"),
    }
    assert [hook.spec.on for hook in task.hooks("intercept")] == ["tool"]


def test_postponed_annotations_with_local_aliases_are_looked_up_where_they_were_written() -> None:
    def make() -> Any:
        Coming = vf.Request  # noqa: N806
        module = vf

        class Stops(vf.Task):
            Mine = vf.Response

            @vf.stop
            def local(self, sent: Coming) -> bool:
                return True

            @vf.stop
            def inner(self, got: Mine) -> bool:
                return True

            @vf.stop(priority=1)
            def through_a_module(self, got: module.Response) -> bool:
                return True

            @vf.stop
            def of_the_file(self, sent: Outgoing) -> bool:
                return True

        return Stops

    found = {hook.spec.name: hook.spec.on for hook in make()(vf.TaskData()).hooks("stop")}
    assert found == {
        "local": "request",
        "inner": "response",
        "through_a_module": "response",
        "of_the_file": "request",
    }


def test_names_that_only_a_type_checker_sees_go_by_their_spelling() -> None:
    @vf.stop
    def spelled(sent: Request) -> bool:
        return True

    @vf.stop
    def spelled_too(got: Response) -> bool:
        return True

    @vf.stop
    def by_parameter(request: Asked) -> bool:
        return True

    assert staged(spelled) == ("request", "sent")
    assert staged(spelled_too) == ("response", "got")
    assert staged(by_parameter) == ("request", "request")

    def define() -> None:
        @vf.stop
        def hidden(sent: Asked) -> bool:
            return True

    text = refused(define)
    assert "stop hidden" in text and "test_stages.py" in text
    assert "cannot tell when it runs" in text and "@vf.stop(on='request')" in text


def test_the_stage_can_be_named_outright() -> None:
    @vf.stop(on="response")
    def named(turn: Any, trace: vf.Trace) -> bool:
        return True

    @vf.stop(on="request")
    def only_the_trace(trace: vf.Trace) -> bool:
        return True

    @vf.intercept(on="tool")
    def gate(wanted: Any, state: vf.State) -> str | None:
        return None

    assert staged(named) == ("response", "turn")
    assert staged(only_the_trace) == ("request", "")
    assert staged(gate) == ("tool", "wanted")
    assert "on='reply' is none of 'request', 'response', 'trace'" in refused(
        lambda: vf.stop(on="reply")(gate)
    )
    assert "on='tool' is none of" in refused(lambda: vf.stop(on="tool")(lambda call: True))
    assert "but it takes a vf.Response" in refused(lambda: vf.stop(on="request")(by_response))


def by_response(response: vf.Response) -> bool:
    return True


def test_wrong_parameters_fail_at_the_definition() -> None:
    def misnamed() -> None:
        class Bad(vf.Task):
            @vf.stop
            def late(self, request: vf.Request, trase: vf.Trace) -> bool:
                return True

    assert "stop Bad.late" in refused(misnamed) and "did you mean `trace`" in refused(misnamed)

    def both() -> None:
        @vf.stop
        def two(a: vf.Request, b: vf.Response) -> bool:
            return True

    assert "takes both vf.Request and vf.Response" in refused(both)
    assert "cannot tell when it runs" in refused(lambda: vf.intercept(lambda trace: None))
    assert "cannot tell when it runs" in refused(lambda: vf.stop(lambda state: True))

    def limit() -> None:
        @vf.stop
        def max_turns(trace: vf.Trace) -> bool:
            return True

    assert "its name is that of a limit" in refused(limit)

    def taken() -> None:
        class Bad(vf.Task):
            @vf.stop
            def hooks(self, trace: vf.Trace) -> bool:  # type: ignore[override]
                return True

    assert "Bad.hooks: every task has a `hooks` of its own" in refused(taken)


def test_a_plain_function_needs_no_decorator() -> None:
    spec = plain_spec(by_response, "stop", "mine")
    assert (spec.name, spec.on, spec.payload) == ("mine", "response", "response")
    with pytest.raises(HookError, match="by_response is a stop"):
        plain_spec(vf.stop(by_response), "reward")
    with pytest.raises(HookError, match="a stop cannot be called 'timeout'"):
        plain_spec(by_response, "stop", "timeout")
