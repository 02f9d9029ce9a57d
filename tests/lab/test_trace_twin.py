"""What a trace and a branch show, in both twins, and what they leave out."""

from __future__ import annotations

from support.html_rules import check_bundle
from support.talks import ANSWER, chain, failed, family, say
from support.views import HOSTILE

from vfnb.lab.display import branch_bundle, branch_text, trace_bundle, trace_text
from vfnb.lab.rows import trace_row
from vfnb.trace import ErrorInfo, Trace
from vfnb.types import (
    AudioContentPart,
    AudioSource,
    FileContentPart,
    FileSource,
    ImageUrlContentPart,
    ImageUrlSource,
    OpaqueContentPart,
    ReasoningContentPart,
    RefusalContentPart,
    TextContentPart,
    UserMessage,
)


def test_both_twins_have_the_facts() -> None:
    trace = family()
    bundle = trace._repr_mimebundle_()
    page = check_bundle(bundle)
    for text in (bundle["text/plain"], page.text):
        for fact in (
            "Trace ffffffff", "the third", "rollout 1", "completed", "reward 1.0", "exact 1.0", "short 0.5 x 0.0",
            "turns 6.0", "unknown -", "6 turns, 6 calls", "60 tokens in, 18 out", "$0.006", "4 branches", "7.5 s",
            "boot 1 s, agent 6.5 s", '{"answer": "42"}', "side_call", "subagent", "resample", "forty-two", ANSWER,
        ):  # fmt: skip
            assert fact in text, fact
    assert len(page.images) == 1


def test_reasoning_and_tool_calls_can_be_unfolded() -> None:
    html = trace_bundle(family())["text/html"]
    assert "[reasoning] I had better ask." in html
    assert "→ agent({&quot;task&quot;: &quot;count all" in html


def test_a_failure_is_on_top() -> None:
    bundle = trace_bundle(failed())
    page = check_bundle(bundle)
    assert "✗ error" in page.text
    first, second = bundle["text/plain"].splitlines()[:2]
    assert first.endswith("error · no reward")
    assert (
        second
        == "error: UpstreamConnection at model (agent): cannot connect to 127.0.0.1:1; start the server"
    )
    assert "Traceback: x" in page.text


def test_a_mended_error_does_not_look_like_a_failure() -> None:
    trace = family()
    trace.errors = [
        ErrorInfo(type="UpstreamRateLimited", boundary="model", message="429", at=float(n)) for n in range(5)
    ]
    bundle = trace_bundle(trace)
    page = check_bundle(bundle)
    assert "✗" not in page.text
    assert "error on the way: UpstreamRateLimited at model: 429" in bundle["text/plain"]
    assert "2 earlier errors; trace.errors has them" in page.text


def test_each_end_is_told() -> None:
    trace = family()
    trace.end_state, trace.stop_condition = "stopped", "max_turns"
    assert "stopped by max_turns · reward 1.0" in trace_text(trace)
    trace.info["scoring_skipped"] = "max_turns"
    assert "reward 0.0 (scoring skipped)" in trace_text(trace)
    trace.end_state = "cancelled"
    assert "cancelled" in trace_text(trace)
    trace.end_state, trace.dropped = "dropped", "rubric: defect"
    assert "dropped: rubric: defect" in trace_text(trace)
    trace.end_state = None
    assert "running" in trace_text(trace)
    for state in ("stopped", "cancelled", "dropped", None):
        trace.end_state = state
        check_bundle(trace_bundle(trace))


def test_an_empty_trace_shows_itself() -> None:
    bundle = trace_bundle(Trace())
    assert "no messages yet" in check_bundle(bundle).text
    assert "running · no reward" in bundle["text/plain"]


def test_a_long_trace_is_cut_and_says_so() -> None:
    bundle = trace_bundle(chain(500, "word " * 2000))
    page = check_bundle(bundle)
    assert "50 of 1001 messages shown; trace.messages has all" in page.text
    assert "of 1001 messages shown; trace.messages has all" in bundle["text/plain"]
    assert "more characters)" in page.text
    assert "reply 499" in bundle["text/plain"]
    assert "Be brief." in bundle["text/plain"]


def test_html_stays_under_its_bound_when_escaping_swells_it() -> None:
    page = check_bundle(trace_bundle(chain(30, "<&>\"'" * 1000)))
    assert "parts left out for size; trace.messages has them" in page.text


def test_untrusted_text_is_shown_as_text() -> None:
    trace = family(HOSTILE)
    trace.task.name, trace.tags, trace.notes = HOSTILE, [HOSTILE], [HOSTILE * 50]
    trace.metrics[HOSTILE] = 1.0
    page = check_bundle(trace_bundle(trace))
    assert "alert(1)" in page.text
    for branch in trace.branches:
        check_bundle(branch_bundle(branch))
    check_bundle(trace_bundle(failed(HOSTILE * 100)))


def test_parts_that_are_no_text_are_named() -> None:
    parts = [
        TextContentPart(text="look:"),
        ImageUrlContentPart(image_url=ImageUrlSource(url="data:image/png;base64," + "A" * 5000)),
        ImageUrlContentPart(image_url=ImageUrlSource(url="https://example.test/a.png")),
        AudioContentPart(input_audio=AudioSource(data="AAAA", format="wav")),
        FileContentPart(file=FileSource(filename="a.pdf")),
        RefusalContentPart(refusal="I will not"),
        ReasoningContentPart(text="thinking", signature="sig"),
        OpaqueContentPart(raw={"type": "container_upload"}),
    ]
    trace = Trace()
    say(trace, -1, [UserMessage(content=list(parts))], "ok")
    page = check_bundle(trace_bundle(trace))
    for fact in (
        "look:", "[image 5,022 characters inline]", "[image https://example.test/a.png]", "[audio wav]",
        "[file a.pdf]", "[refusal] I will not", "[reasoning] thinking", "[container_upload]",
    ):  # fmt: skip
        assert fact in page.text, fact
    assert page.images == []


def test_a_branch_tells_what_it_shares() -> None:
    branch = family().branches[-1]
    assert branch_text(branch).splitlines() == [
        "Branch 12 · 7 messages, 6 shared with older branches",
        "branch at node 12: resample · of call 4 · - assistant: '42' + assistant: 'forty-two'",
        "     0 system     You count.",
        "     1 user       How many?",
        "     2 assistant* Let me see.",
        "     5 user       Go on.",
        '     6 assistant* → agent({"task": "count all the files in the folder"})',
        "    10 tool       There are exactly 42 files in it",
        "    12 assistant* forty-two",
    ]
    page = check_bundle(branch._repr_mimebundle_())
    assert "of an older branch" in branch_bundle(branch)["text/html"]
    assert "resample" in page.text


def test_reprs_are_one_short_line() -> None:
    trace = family(HOSTILE)
    for thing in (trace, trace.branches[0], trace.nodes):
        assert "\n" not in repr(thing)
        assert len(repr(thing)) < 200


def test_a_trace_as_a_row() -> None:
    row = trace_row(family())
    assert (row.task, row.name, row.rollout, row.reward, row.outcome) == (
        "files/3",
        "the third",
        1,
        1.0,
        "scored",
    )
    assert (row.turns, row.tokens_in, row.tokens_out, row.time_s) == (6, 60, 18, 7.5)
    assert dict(row.rewards) == {"exact": 1.0, "short": 0.5}
    assert dict(row.weights) == {"exact": 1.0, "short": 0.0}
    assert row.error is None
    bad = trace_row(failed())
    assert (bad.outcome, bad.error, bad.boundary, bad.reward) == (
        "error",
        "UpstreamConnection",
        "model",
        None,
    )


def test_links_are_told_in_both_twins_of_trace_and_branch() -> None:
    trace = family()
    assert "spawned by node 6, returned to node 10" in trace_text(trace)
    assert "spawned by node 6" in trace_bundle(trace)["text/html"]
    main, _, sub, _ = trace.branches
    assert "spawned by node 6 of branch 0 · returned to node 10 of branch 0" in branch_text(sub)
    assert "node 7 of branch 7 is spawned by node 6 here" in branch_text(main)
    assert "returned to node 10 of branch 0" in branch_bundle(sub)["text/html"]
