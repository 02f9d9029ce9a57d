"""What an intercept may return: the rules by themselves."""

from __future__ import annotations

import pytest

import vfnb as vf
from vfnb.errors import HookFailed
from vfnb.tasks import answer_of, call_result, copy_of, edits_of, shortened


def response(**changes: object) -> vf.Response:
    given: dict[str, object] = {
        "message": vf.AssistantMessage(content="text", reasoning_content="thoughts"),
        "usage": vf.Usage(prompt_tokens=1),
        "id": "r1",
        "model": "m",
        "hosted_results": [
            vf.HostedResult(id="s1", tool="web_search", text="found"),
            vf.HostedResult(id="s2", tool="web_search", text="sealed", signed=True),
        ],
    }
    return vf.Response(**{**given, **changes})  # type: ignore[arg-type]


def test_hosted_tool_results_may_get_another_text() -> None:
    after = response()
    after.hosted_results[0].text = "removed"
    answer = answer_of("hook", response(), after)
    assert answer is not None and answer.hosted_results[0].text == "removed"


def test_signed_hosted_results_may_not() -> None:
    after = response()
    after.hosted_results[1].text = "removed"
    with pytest.raises(
        HookFailed, match=r"hook changed the result 's2' of web_search, which the provider has signed"
    ):
        answer_of("hook", response(), after)


@pytest.mark.parametrize("change", [{"id": "s9"}, {"tool": "other"}, {"signed": True}])
def test_hosted_results_may_not_be_renamed_added_or_removed(change: dict[str, object]) -> None:
    after = response()
    after.hosted_results[0] = after.hosted_results[0].model_copy(update=change)
    with pytest.raises(HookFailed, match="added, removed or renamed hosted tool results"):
        answer_of("hook", response(), after)
    with pytest.raises(HookFailed, match="added, removed or renamed hosted tool results"):
        answer_of("hook", response(), response(hosted_results=[]))


@pytest.mark.parametrize(
    "changes", [{"usage": vf.Usage(prompt_tokens=2)}, {"id": "r2"}, {"model": "another"}]
)
def test_a_replacement_keeps_what_the_provider_reported(changes: dict[str, object]) -> None:
    with pytest.raises(HookFailed, match=f"changed the answer's {next(iter(changes))}"):
        answer_of("hook", response(), response(**changes))


def test_a_replacement_may_drop_the_reasoning_and_not_invent_any() -> None:
    dropped = response(message=vf.AssistantMessage(content="other"))
    assert answer_of("hook", response(), dropped) is dropped
    invented = response(message=vf.AssistantMessage(content="other", reasoning_content="new thoughts"))
    with pytest.raises(HookFailed, match="changed the reasoning"):
        answer_of("hook", response(), invented)


def test_a_replacement_without_tool_calls_is_an_ordinary_end() -> None:
    called = response(
        message=vf.AssistantMessage(tool_calls=[vf.ToolCall(id="a", name="f")]), finish_reason="tool_calls"
    )
    answer = answer_of(
        "hook", called, called.model_copy(update={"message": vf.AssistantMessage(content="no")})
    )
    assert answer is not None and answer.finish_reason == "stop"


def test_a_replacement_says_something() -> None:
    empty = response(message=vf.AssistantMessage(content=None), hosted_results=[])
    with pytest.raises(HookFailed, match="an answer without text"):
        answer_of("hook", response(hosted_results=[]), empty)


def test_a_rewritten_message_keeps_its_other_keys() -> None:
    before = vf.Request(messages=[vf.UserMessage.model_validate({"content": "a", "name": "ann"})])
    after = copy_of(before)
    after.messages[0].content = [vf.TextContentPart(text="b")]
    assert edits_of("hook", before, after, 0) == {0: after.messages[0]}
    after.messages[0] = vf.UserMessage.model_validate({"content": "b", "name": "bob"})
    with pytest.raises(HookFailed, match=r"message 0 \(user\) has another name now"):
        edits_of("hook", before, after, 0)
    after.messages[0] = vf.SystemMessage(content="b")
    with pytest.raises(HookFailed, match="became a system message; the role must stay"):
        edits_of("hook", before, after, 0)


def test_the_result_of_a_blocked_call_answers_that_call() -> None:
    call = vf.ToolCall(id="a", name="f")
    assert call_result("hook", call, "no") == vf.ToolMessage(tool_call_id="a", content="no")
    with pytest.raises(HookFailed, match="hook answered the call 'b'; it was asked about 'a'"):
        call_result("hook", call, vf.ToolMessage(tool_call_id="b", content="no"))


def test_long_texts_are_cut_at_whole_characters_over_all_parts() -> None:
    parts = [vf.TextContentPart(text="ää"), vf.TextContentPart(text="bbbb")]
    message = vf.UserMessage(content=parts)
    short, cut = shortened(message, 6)
    assert (short.text, cut) == ("ääbb", 2)
    assert shortened(message, 3)[0].text == "ä" + "" and shortened(message, None) == (message, 0)
    assert message.text == "ääbbbb"
