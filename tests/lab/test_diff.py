"""Two conversations, runs or configs side by side."""

from __future__ import annotations

import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.html_rules import check_bundle
from support.sums import Data, Sum

import vfnb as vf
from vfnb.errors import ConfigError
from vfnb.lab.aligning import common
from vfnb.lab.diff import Diff, spans_of
from vfnb.lab.run_diff import RunDiff
from vfnb.trace.calls import ModelCall
from vfnb.trace.identity import identity
from vfnb.types import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, UserMessage

items = st.lists(st.sampled_from("abcde"), max_size=12)


def lcs(a: list[int], b: list[int]) -> int:
    """The length of a longest common subsequence, by the definition."""
    row = [0] * (len(b) + 1)
    for x in a:
        new = [0]
        for j, y in enumerate(b):
            new.append(row[j] + 1 if x == y else max(row[j + 1], new[j]))
        row = new
    return row[-1]


@given(items, items)
def test_pairs_are_equal_and_in_order(a: list[str], b: list[str]) -> None:
    pairs = common(a, b)
    assert all(a[i] == b[j] for i, j in pairs)
    assert all(i < k and j < m for (i, j), (k, m) in pairwise(pairs))
    assert bool(pairs) == bool(set(a) & set(b))


@given(st.permutations(list(range(9))), st.permutations(list(range(9))))
def test_of_different_items_the_longest_chain_is_found(a: list[int], b: list[int]) -> None:
    assert len(common(a, b)) == lcs(a, b)


def test_repeated_items_between_anchors_are_aligned() -> None:
    assert common("xaaby", "xabby") == [(0, 0), (1, 1), (3, 3), (4, 4)]
    assert common("", "abc") == []
    assert len(common("ab" * 400, "ba" * 400)) >= 790  # no anchor, too large for a table


@given(st.text("ab \n", max_size=40), st.text("ab \n", max_size=40))
def test_pieces_give_both_texts_back(a: str, b: str) -> None:
    pieces = spans_of(a, b)
    assert "".join(piece.text for piece in pieces if piece.kind != "right") == a
    assert "".join(piece.text for piece in pieces if piece.kind != "left") == b


def test_long_texts_are_compared_by_lines_first() -> None:
    lines = [f"line {i} of {random.Random(i).random()}\n" for i in range(4000)]
    other = [*lines[:1000], "line 1000 has changed\n", *lines[1001:]]
    pieces = spans_of("".join(lines), "".join(other))
    assert "".join(piece.text for piece in pieces if piece.kind != "right") == "".join(lines)
    assert sum(len(piece.text) for piece in pieces if piece.kind != "same") < 100


def trace_of(*messages: Message, **fields: Any) -> vf.Trace:
    """A trace of one line; assistant messages are sampled."""
    trace = vf.Trace(**fields)
    fresh: list[Message] = []
    parent = -1
    for message in messages:
        if not isinstance(message, AssistantMessage):
            fresh.append(message)
            continue
        call = ModelCall(id=f"c{parent}", dialect="chat", model="m", finish_reason="stop")
        trace.dag.commit(call, parent=parent, new=[(one, identity(one)) for one in fresh], reply=message)
        assert call.reply_node is not None
        parent, fresh = call.reply_node, []
    trace.end_state = "completed"
    return trace


def ask(id: str, **arguments: Any) -> AssistantMessage:
    import json

    return AssistantMessage(
        content="Let me look.", tool_calls=[ToolCall(id=id, name="read", arguments=json.dumps(arguments))]
    )


START = (SystemMessage(content="Be brief."), UserMessage(content="How many lines has the file?"))


def two() -> tuple[vf.Trace, vf.Trace]:
    left = trace_of(
        *START,
        ask("call_1", path="a.txt", count=3),
        ToolMessage(tool_call_id="call_1", content="one\ntwo\nthree"),
        AssistantMessage(content="The file has three lines."),
    )
    right = trace_of(
        *START,
        ask("call_9", count=3, path="a.txt"),
        ToolMessage(tool_call_id="call_9", content="one\ntwo\nthree"),
        ask("call_10", path="a.txt", count=9),
        ToolMessage(tool_call_id="call_10", content="one\ntwo\nthree\nfour"),
        AssistantMessage(content="The file has four lines.", reasoning_content="Count again."),
    )
    return left, right


def test_two_traces() -> None:
    left, right = two()
    diff = vf.diff(left, right)
    assert isinstance(diff, Diff)
    assert (diff.kind, len(diff)) == ("traces", 7)
    assert [row.kind for row in diff] == ["same", "same", "same", "same", "right", "right", "changed"]
    assert diff.counts == {"same": 4, "changed": 1, "left": 0, "right": 2}
    assert diff.first is diff.rows[4]
    assert (diff.first.left_at, diff.first.right_at, diff.first.right_node) == (None, 4, 4)
    assert [(piece.kind, piece.text) for piece in diff.rows[-1].spans if piece.kind != "same"] == [
        ("right", "[reasoning] Count again.\n"),
        ("left", " three"),
        ("right", " four"),
    ]
    table = diff.frame()
    assert list(table["kind"]) == [row.kind for row in diff]
    assert table["left_text"][6] == "The file has three lines."
    assert list(table["right_calls"]) == [0, 0, 1, 0, 1, 0, 0]
    assert table["left_at"].isna().sum() == 2
    assert diff.tokens == (None, None)


def test_tool_calls_by_name_and_arguments() -> None:
    left = trace_of(*START, ask("a", path="a.txt", count=3))
    right = trace_of(*START, ask("b", path="b.txt", count=3))
    row = vf.diff(left, right).rows[-1]
    assert row.kind == "changed"
    assert [(call.kind, call.arguments) for call in row.calls] == [("changed", ("path",))]
    assert row.spans == [("same", "Let me look.")]
    assert "read(path)" in str(vf.diff(left, right))


def test_nothing_differs() -> None:
    left, _ = two()
    diff = vf.diff(left, left)
    assert diff.first is None
    assert "no difference" in str(diff)
    assert vf.diff(vf.Trace(), vf.Trace()).rows == []
    check_bundle(vf.diff(vf.Trace(), vf.Trace())._repr_mimebundle_())


def test_branches_of_one_trace() -> None:
    trace = trace_of(*START, AssistantMessage(content="One."))
    other = [(one, identity(one)) for one in (SystemMessage(content="Be long."), START[1])]
    call = ModelCall(id="x", dialect="chat", model="m", finish_reason="stop")
    trace.dag.commit(call, parent=-1, new=other, reply=AssistantMessage(content="Two."))
    first, second = trace.branches
    diff = vf.diff(first, second)
    assert (diff.kind, [row.kind for row in diff]) == ("branches", ["changed", "same", "changed"])
    assert "has 2 branches" in vf.diff(trace, trace).notes[0]


def test_a_thousand_messages() -> None:
    def long(seed: int) -> vf.Trace:
        rng = random.Random(seed)
        messages: list[Message] = [*START]
        for turn in range(500):
            word = "same" if turn % 3 else f"{rng.random()}"
            messages.append(AssistantMessage(content=f"Step {turn}: {word} " + "and so on " * 50))
            messages.append(UserMessage(content="Go on." if turn % 2 else f"Go on with {turn}."))
        messages.append(AssistantMessage(content="Done."))
        return trace_of(*messages)

    left, right = long(1), long(2)
    diff = vf.diff(left, right)
    assert diff.counts == {"same": 836, "changed": 167, "left": 0, "right": 0}
    check_bundle(diff._repr_mimebundle_())


def test_hostile_text_is_escaped() -> None:
    left = trace_of(*START, AssistantMessage(content="<img src=x onerror=alert(1)>\x1b[2J" * 300))
    right = trace_of(*START, AssistantMessage(content="<script>alert(2)</script>\u202e" * 300))
    check_bundle(vf.diff(left, right)._repr_mimebundle_())


def test_configs() -> None:
    a = {"model": {"name": "small"}, "rollouts": 4, "tasks": ["a", "b"], "old": True}
    b = {"model": {"name": "large"}, "rollouts": 4, "tasks": ["a", "b"], "limits": {"max_turns": 3}}
    diff = vf.diff(a, b)
    assert {row.key: row.kind for row in diff} == {
        "limits.max_turns": "right",
        "model.name": "changed",
        "old": "left",
        "rollouts": "same",
        "tasks": "same",
    }
    assert "~ model.name: small → large" in str(diff)
    assert list(diff.frame().columns) == ["key", "kind", "left", "right"]
    check_bundle(diff._repr_mimebundle_())
    assert vf.diff(vf.SamplingConfig(temperature=1), vf.SamplingConfig(temperature=0)).first is not None


def test_what_cannot_be_compared() -> None:
    with pytest.raises(ConfigError, match="cannot compare Trace and dict"):
        vf.diff(vf.Trace(), {})


class Sums(vf.Taskset[Sum]):
    def load(self) -> list[Sum]:
        return [
            Sum(Data(key=f"sum-{i}", name=f"Sum {i}", prompt=f"{i} + {i}", answer=2 * i)) for i in range(6)
        ]


def model(right: set[int]) -> vf.Scripted:
    def say(messages: vf.Messages, tools: Any) -> str:
        number = int(messages[-1].text.split()[0])
        if number == 5 and 5 not in right:
            raise RuntimeError("no answer")
        return str(2 * number) if number in right else "?"

    return vf.Scripted(say)


def test_two_runs(tmp_path: Path) -> None:
    a = vf.evaluate(Sums().take(5), model=model({0, 1, 2}), dir=tmp_path / "a", rollouts=2).wait(quiet=True)
    b = vf.evaluate(
        Sums().exclude(idx=0), model=model({1, 3, 4, 5}), dir=tmp_path / "b", sampling={"temperature": 0.5}
    ).wait(quiet=True)
    diff = vf.diff(a, b)
    assert isinstance(diff, RunDiff)
    assert {row.key: row.kind for row in diff} == {
        "sum-0": "left",
        "sum-1": "same",
        "sum-2": "changed",
        "sum-3": "changed",
        "sum-4": "changed",
        "sum-5": "right",
    }
    assert (diff.wins, diff.ties, diff.losses) == (2, 1, 1)
    assert diff.flipped == ["sum-2", "sum-3", "sum-4"]
    assert diff.unmatched == ["sum-0", "sum-5"]
    assert diff.unscored == []
    # the changes are 0, -1, 1, 1: mean 0.25, s = sqrt(2.75 / 3), se = s / 2
    assert diff.change.mean == pytest.approx(0.25)
    assert diff.change.se == pytest.approx(0.9574271077563381 / 2)
    assert (diff.change.n, diff.change.method) == (4, "t")
    table = diff.frame().set_index("task")
    assert table.loc["sum-2", "left_passed"] == 2
    assert table.loc["sum-3", "change"] == 1.0
    assert "2 wins, 1 ties, 1 losses of the right; 3 flipped" in str(diff)
    assert "sampling.temperature" in str(diff)
    check_bundle(diff._repr_mimebundle_())


def test_tasks_without_a_reward_are_told(tmp_path: Path) -> None:
    a = vf.evaluate(Sums(), model=model({0, 5}), dir=tmp_path / "a").wait(quiet=True)
    b = vf.evaluate(Sums(), model=model({0}), dir=tmp_path / "b").wait(quiet=True)
    diff = vf.diff(a, b)
    assert diff.unscored == ["sum-5"]
    assert (diff.ties, diff.change.n) == (5, 5)
    assert "1 without a reward in one" in str(diff)


def test_two_versions_of_one_run(tmp_path: Path) -> None:
    run = vf.evaluate(Sums(), model=model({0, 5}), dir=tmp_path / "a").wait(quiet=True)
    run.rescore({"exact": lambda trace: 1.0})
    diff = vf.diff(run.use(0), run)
    assert (diff.left, diff.right) == ("a version 0", "a version 1")
    assert diff.wins == 4
