"""Timelines: how long each message was, in tokens, seconds and turns."""

from __future__ import annotations

import numpy as np
import pytest
from support.bigrun import token_trace
from support.html_rules import check_bundle
from support.talks import family, forked, say
from support.views import HOSTILE

import vfnb as vf
from vfnb.errors import ConfigError
from vfnb.lab.extents import extents, known_extents
from vfnb.trace import Trace
from vfnb.types import UserMessage


def test_exact_tokens_add_up_along_the_branch() -> None:
    trace, _ = token_trace(5)
    places = extents(trace.dag, "tokens")
    for node in trace.dag.nodes:
        assert places[node.index] == (node.total - (node.end - node.start), node.total)
    assert places[-1][1] == len(trace.branches[0].token_ids)


def test_counted_tokens_end_where_the_prompt_and_the_reply_end() -> None:
    trace = Trace()
    end = say(
        trace, -1, [UserMessage(content="abc")], "x", usage=vf.Usage(prompt_tokens=10, completion_tokens=3)
    )
    say(
        trace,
        end,
        [UserMessage(content="d" * 50), UserMessage(content="e" * 50)],
        "y",
        usage=vf.Usage(prompt_tokens=33, completion_tokens=7),
    )
    assert extents(trace.dag, "tokens") == [(0, 10), (10, 13), (13, 23), (23, 33), (33, 40)]


def test_seconds_are_those_of_the_calls_and_of_the_gaps_between_them() -> None:
    trace = Trace()
    end = say(trace, -1, [UserMessage(content="a")], "x", start=50.0, end=52.0)
    end = say(trace, end, [UserMessage(content="b")], "y", start=55.0, end=56.5)
    say(trace, trace.dag.nodes[end].parent, [], "z", start=57.0, end=60.0)
    assert extents(trace.dag, "seconds") == [(0, 0), (0, 2), (2, 5), (5, 6.5), (7, 10)]
    assert [trace.graph().nodes[2][name] for name in ("start", "end")] == [52.0, 55.0]


def test_turns_begin_at_whole_numbers() -> None:
    trace = forked(40, 7)
    places = extents(trace.dag, "turns")
    for node in trace.dag.nodes:
        start, end = places[node.index]
        assert start < end
        if node.sampled:
            assert end == int(end)
        if node.parent >= 0:
            assert start == places[node.parent][1]


def test_what_the_trace_does_not_know_is_refused_with_what_it_knows() -> None:
    trace = Trace()
    say(trace, -1, [UserMessage(content="a")], "x", usage=None, start=0.0, end=0.0)
    assert known_extents(trace.dag) == ["turns"]
    for x in ("tokens", "seconds"):
        with pytest.raises(ConfigError, match=f"no {x}; use x='turns'"):
            trace.plot("timeline", x=x)
    assert "turns 0.0 to 1.0" in trace.plot("timeline").text
    with pytest.raises(ConfigError, match="x='time' is none of tokens, seconds, turns"):
        trace.plot("timeline", x="time")
    with pytest.raises(ConfigError, match="kind='bush' is none of tree, timeline"):
        trace.plot("bush")
    with pytest.raises(ConfigError, match="kind='timeline'"):
        trace.plot(x="turns")


@pytest.mark.parametrize("color", ["role", "cause"])
@pytest.mark.parametrize("x", ["tokens", "seconds", "turns"])
def test_the_bars_are_the_extents(x: str, color: str) -> None:
    trace = family(HOSTILE)
    plot = trace.plot("timeline", x=x, color=color)
    page = check_bundle(plot._repr_mimebundle_())
    assert "branch at node 7 (subagent)" in page.text
    drawn = {}
    for part in plot.figure.data:
        if part.type == "bar":
            drawn |= {
                node: (start, start + length)
                for node, start, length in zip(part.customdata, part.base, part.x, strict=True)
            }
            assert not any("<script" in text for text in part.hovertext)
    places = extents(trace.dag, x)
    span = max(end for _, end in places)
    assert len(drawn) == len(trace.nodes)
    for node, (start, end) in enumerate(places):
        assert drawn[node] == pytest.approx((start, max(end, start + span / 500)))


def test_logprobs_colour_replies_by_their_mean_surprise() -> None:
    trace, _ = token_trace(4)
    plot = trace.plot("timeline", color="logprob")
    check_bundle(plot._repr_mimebundle_())
    means = [-float(np.mean(node.logprobs[node.mask])) for node in trace.nodes if node.sampled]
    axis = plot.figure.layout.coloraxis
    assert (axis.cmin, axis.cmax) == (0, pytest.approx(max(means)))
    assert axis.colorbar.title.text == "-logprob (nats)"
    sampled = [part for part in plot.figure.data if part.type == "bar" and "context" not in part.name]
    assert sum(len(part.x) for part in sampled) == len(means)


def test_logprobs_and_entropy_that_were_not_stored_are_not_invented() -> None:
    with pytest.raises(ConfigError, match="no logprobs: its model was called without token ids"):
        family().plot("timeline", color="logprob")
    with pytest.raises(ConfigError, match="color='logprob' shows the mean -logprob"):
        token_trace(2)[0].plot("timeline", color="entropy")
    with pytest.raises(ConfigError, match="color='mood' is none of"):
        family().plot("timeline", color="mood")


def test_long_and_empty_timelines_stay_in_bounds() -> None:
    page = check_bundle(forked(3000, 3).plot("timeline")._repr_mimebundle_())
    assert "more lines" in page.text
    check_bundle(Trace().plot("timeline")._repr_mimebundle_())
