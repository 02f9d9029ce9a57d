"""Tokens: exact, owned once, never dropped."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.graphs import Recorder, assistant, system, user

from vfnb.errors import TraceError
from vfnb.trace import Branch, TokenTurn, Trace, pack, unpack
from vfnb.trace.tokens import TokenColumns, flips_of

S, U, A = system(), user("u"), assistant("a")


def first(**changes: Any) -> TokenTurn:
    """Prompt: system 3 tokens, user 2, generation prompt 1; completion 2."""
    fields: dict[str, Any] = {
        "prompt_ids": [1, 2, 3, 4, 5, 6],
        "completion_ids": [7, 8],
        "logprobs": [-0.1, -0.123456789],
        "spans": [(0, 3), (3, 5)],
    }
    return TokenTurn(**(fields | changes))


def second(**changes: Any) -> TokenTurn:
    """One new message of 2 tokens after the first turn's 8."""
    fields: dict[str, Any] = {
        "prompt_ids": [9, 10, 6],
        "completion_ids": [11],
        "logprobs": [-0.5],
        "spans": [(8, 10)],
        "start": 8,
    }
    return TokenTurn(**(fields | changes))


def two_turns(**changes: Any) -> Recorder:
    recorder = Recorder()
    recorder.call([S, U], A, tokens=first(**changes))
    recorder.call([S, U, A, user("v")], assistant("b"), tokens=second())
    return recorder


def branch(recorder: Recorder, index: int = 0) -> Branch:
    return recorder.trace.branches[index]


def forms(recorder: Recorder) -> list[Trace]:
    """The trace and all its copies by way of a record."""
    header = recorder.trace.header()
    return [
        recorder.trace,
        recorder.reload(),
        Trace.model_validate(recorder.trace.model_dump()),
        Trace.model_validate_json(recorder.trace.model_dump_json()),
        Trace.from_header(header, unpack(pack(recorder.graph))),
    ]


def test_a_branch_is_exactly_prompt_and_completion() -> None:
    for trace in forms(two_turns()):
        sample = trace.samples()[0]
        assert sample.token_ids.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 6, 11]
        assert sample.token_ids.dtype == np.int32
        assert np.flatnonzero(sample.mask).tolist() == [6, 7, 11]
        assert sample.logprobs.dtype == np.float32
        assert sample.logprobs[7] == np.float32(-0.123456789)
        assert sample.logprobs[8] == 0.0
        assert (sample.branch, sample.weight, sample.cause) == (0, 1.0, None)


def test_an_unbranched_sample_is_a_view() -> None:
    recorder = two_turns()
    columns = recorder.graph.columns
    assert columns is not None
    sample = recorder.trace.samples()[0]
    for mine, theirs in ((sample.token_ids, columns.ids), (sample.mask, columns.mask)):
        assert np.shares_memory(mine, theirs)


def test_a_held_sample_survives_growth() -> None:
    recorder = two_turns()
    held = recorder.trace.samples()[0]
    before = held.token_ids.tolist()
    history = [S, U, A, user("v"), assistant("b")]
    for index in range(40):
        size = recorder.trace.samples()[0].token_ids.size
        history.append(user(f"more {index}"))
        turn = TokenTurn([5] * 100, [6] * 50, [-1.0] * 50, [(size, size + 99)], start=size)
        recorder.call(history, assistant(f"r{index}"), tokens=turn)
        history.append(assistant(f"r{index}"))
    assert held.token_ids.tolist() == before
    assert recorder.trace.samples()[0].token_ids.size == 12 + 40 * 150


def test_nodes_carry_their_own_tokens() -> None:
    nodes = two_turns().trace.nodes
    assert [node.token_ids.tolist() for node in nodes] == [[1, 2, 3], [4, 5], [6, 7, 8], [9, 10], [6, 11]]
    assert [node.mask.tolist() for node in nodes][2] == [False, True, True]
    assert nodes[2].content_mask.tolist() == [False, True, True]
    assert nodes[0].logprobs.tolist() == [0.0, 0.0, 0.0]


def test_usage_is_counted_from_tokens_if_the_engine_gave_none() -> None:
    recorder = two_turns()
    assert (recorder.trace.usage.prompt_tokens, recorder.trace.usage.completion_tokens) == (6 + 11, 3)


def test_shared_samples_train_once() -> None:
    recorder = Recorder()
    recorder.call([S, U], A, tokens=first())
    recorder.call([S, U, A, user("v")], assistant("b"), tokens=second())
    recorder.call([S, U, A, user("w")], assistant("c"), tokens=second(prompt_ids=[12, 13, 6]))
    one, two = recorder.trace.samples()
    assert two.token_ids.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 6, 11]
    assert np.flatnonzero(one.mask).tolist() == [6, 7, 11]
    assert np.flatnonzero(two.mask).tolist() == [11]
    assert np.flatnonzero(branch(recorder, 1).sampled_mask).tolist() == [6, 7, 11]
    assert (one.weight, two.weight) == (0.5, 0.5)
    assert two.cause == "side_call" or two.cause == "history_edited"


def test_samples_carry_the_names_of_their_trace() -> None:
    recorder = two_turns()
    trace = recorder.trace
    trace.group_id, trace.episode_id, trace.end_state = "g", "e", "completed"
    trace.rewards = {"r": {"value": 0.5}}  # type: ignore[dict-item]
    trace = Trace.model_validate(trace.model_dump(warnings=False))
    sample = trace.samples()[0]
    assert (sample.trace_id, sample.group_id, sample.episode_id, sample.reward) == (trace.id, "g", "e", 0.5)


def test_no_tokens_no_samples() -> None:
    recorder = Recorder()
    recorder.call([S, U], A)
    assert recorder.trace.samples() == []
    assert recorder.trace.nodes[0].token_ids is None
    assert branch(recorder).token_ids is None


def test_unused_declared_compactions_are_not_trained() -> None:
    recorder = two_turns()
    history = [S, U, A, user("w")]
    marked: dict[str, Any] = {"markers": {"kind": "compaction"}}
    recorder.call(history, assistant("a summary of it all"), tokens=second(prompt_ids=[12, 13, 6]), **marked)
    assert len(recorder.trace.samples()) == 1
    assert len(recorder.trace.samples(unused_compactions=True)) == 2
    line = two_turns()
    history = [S, U, A, user("v"), assistant("b"), user("compact")]
    line.call(
        history, assistant("a summary of it all"), tokens=TokenTurn([4, 6], [7], [-1.0], start=12), **marked
    )
    assert np.flatnonzero(line.trace.samples()[0].mask).tolist() == [6, 7, 11]
    assert np.flatnonzero(line.trace.samples(unused_compactions=True)[0].mask).tolist() == [6, 7, 11, 14]
    carried = [S, user("go on: a summary of it all")]
    turn = TokenTurn([4, 6], [7], [-1.0], [(3, 4)], start=3)
    recorder.call(carried, assistant("x"), tokens=turn)
    assert len(recorder.trace.samples()) == 3


# Other tokens for the same messages


def test_other_tokens_for_the_same_history_are_a_fork() -> None:
    recorder = Recorder()
    recorder.call([S, U], A, tokens=first())
    whole = [1, 2, 3, 4, 5, 6, 7, 99, 9, 10, 6]
    turn = second(prompt_ids=whole, start=0, spans=[(0, 3), (3, 5), (6, 8), (8, 10)])
    recorder.call([S, U, A, user("v")], assistant("b"), tokens=turn)
    assert branch(recorder, 1).token_ids.tolist() == [*whole, 11]
    fork = branch(recorder, 1).cause
    assert fork is not None
    assert (fork.cause, fork.position, fork.index) == ("retokenized", 7, 2)
    assert [node.sampled for node in recorder.graph.nodes] == [False, False, True, False, False, True]
    grown = [*whole, 11, 20, 6]
    turn = TokenTurn(grown, [21], [-1.0], [(12, 13)], start=0)
    history = [S, U, A, user("v"), assistant("b"), user("x")]
    recorder.call(history, assistant("c"), tokens=turn)
    assert len(recorder.trace.branches) == 2
    assert branch(recorder, 1).token_ids.tolist() == [*grown, 21]
    for trace in forms(recorder):
        assert [len(sample) for sample in trace.samples()] == [8, 15]


def test_the_same_other_tokens_again_find_their_branch() -> None:
    recorder = Recorder()
    recorder.call([S, U], A, tokens=first())
    whole = [1, 2, 3, 44, 5, 6]
    for _ in range(2):
        recorder.call([S, U], assistant("b"), tokens=first(prompt_ids=whole))
    assert len(recorder.graph.nodes) == 6
    assert [fork.cause for fork in (branch(recorder, 1).cause, branch(recorder, 2).cause) if fork] == [
        "retokenized",
        "resample",
    ]


def test_a_shorter_prompt_than_the_history_is_a_fork() -> None:
    recorder = Recorder()
    recorder.call([S, U], A, tokens=first())
    turn = TokenTurn([1, 2], [3], [-1.0], [(0, 1), (1, 2)])
    recorder.call([S, U], A, tokens=turn)
    assert branch(recorder, 1).token_ids.tolist() == [1, 2, 3]


def test_changed_tools_are_told_from_other_tokens() -> None:
    recorder = Recorder()
    recorder.call([S, U], A, tokens=first(), tools=[{"name": "a"}])
    whole = [77, 2, 3, 4, 5, 6]
    recorder.call([S, U], A, tokens=first(prompt_ids=whole), tools=[{"name": "b"}])
    fork = branch(recorder, 1).cause
    assert fork is not None
    assert (fork.cause, fork.position, fork.index) == ("tools_changed", 0, 0)


def test_tokens_that_come_later_cover_the_whole_line() -> None:
    recorder = Recorder()
    recorder.call([S, U], None, status=500)
    recorder.call([S, U], A, tokens=first())
    assert branch(recorder).token_ids.tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    recorder = Recorder()
    recorder.call([S, U], A)
    turn = TokenTurn([1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 6], [11], [-0.5], [(0, 3), (3, 5), (6, 8), (8, 10)])
    recorder.call([S, U, A, user("v")], assistant("b"), tokens=turn)
    for trace in forms(recorder):
        sample = trace.samples()[0]
        assert sample.token_ids.tolist() == [1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 6, 11]
        assert np.flatnonzero(sample.mask).tolist() == [11]


# Masks, experts, wrong input


def test_a_sampling_mask_marks_forced_tokens() -> None:
    for trace in forms(two_turns(sampling_mask=[True, False])):
        assert np.flatnonzero(trace.samples()[0].mask).tolist() == [6, 11]


def test_the_content_mask_is_kept() -> None:
    given = [False, True, True, False, True, False, True, False]
    for trace in forms(two_turns(content_mask=given)):
        found = trace.branches[0].content_mask.tolist()
        assert found[:8] == given
        assert found[8:] == [False, False, False, True]


@given(st.lists(st.lists(st.booleans(), max_size=12), max_size=8))
def test_content_masks_of_any_form(masks: list[list[bool]]) -> None:
    columns = TokenColumns()
    ranges = []
    for mask in masks:
        ids = np.arange(len(mask), dtype=np.int32)
        ranges.append(columns.add(ids, flips=flips_of(np.array(mask, np.bool_))))
    for (begin, end), mask in zip(ranges, masks, strict=True):
        assert columns.content(begin, end).tolist() == mask
    assert columns.content(0, columns.size).tolist() == [flag for mask in masks for flag in mask]
    assert len(columns.flips) == len(set(columns.flips))


def test_routed_experts_are_kept_and_gaps_reported() -> None:
    rows = np.arange(7 * 4, dtype=np.uint8).reshape(7, 2, 2)
    recorder = two_turns(routed_experts=rows)
    for trace in forms(recorder):
        line = trace.branches[0]
        assert line.routed_experts.shape == (12, 2, 2)
        assert line.routed_experts.dtype == np.uint8
        assert np.array_equal(line.routed_experts[:7], rows)
        assert not line.routed_experts[7:].any()
        assert line.experts_missing == [2, 3, 4]
    assert branch(two_turns()).routed_experts is None


def test_rows_that_the_line_has_already_are_not_stored_again() -> None:
    rows = np.arange(11 * 4, dtype=np.uint16).reshape(11, 2, 2)
    recorder = Recorder()
    recorder.call([S, U], A, tokens=first(routed_experts=rows[:7]))
    recorder.call([S, U, A, user("v")], assistant("b"), tokens=second(routed_experts=rows))
    columns = recorder.graph.columns
    assert columns is not None
    assert [len(experts.rows) for experts in columns.experts.values()] == [7, 4]
    for trace in forms(recorder):
        assert np.array_equal(trace.branches[0].routed_experts[:11], rows)
        assert trace.branches[0].experts_missing == []


@pytest.mark.parametrize(
    ("changes", "text"),
    [
        ({"logprobs": [-0.1]}, r"logprobs has shape \(1,\), but completion_ids has 2 tokens"),
        ({"sampling_mask": [True]}, "sampling_mask"),
        ({"content_mask": [True]}, "content_mask"),
        ({"logprobs": [float("nan"), 0]}, "NaN"),
        ({"spans": [(0, 3), (2, 9)]}, "span"),
        ({"start": 4}, "start at position 4, but the history has 0 tokens"),
        ({"routed_experts": np.zeros((9, 2, 2), np.uint8)}, "routed_experts"),
    ],
)
def test_contradictions_are_refused_and_nothing_is_recorded(changes: dict[str, Any], text: str) -> None:
    recorder = Recorder()
    with pytest.raises(TraceError, match=text):
        recorder.call([S, U], A, tokens=first(**changes))
    assert recorder.graph.nodes == []
    assert recorder.graph.calls == []


def test_a_reader_sees_whole_tokens_while_they_are_written() -> None:
    recorder = Recorder()
    done = threading.Event()
    problems: list[BaseException] = []

    def read() -> None:
        try:
            while not done.is_set():
                for sample in recorder.trace.samples():
                    assert len(sample.token_ids) == len(sample.mask) == len(sample.logprobs)
                    assert not sample.token_ids[sample.mask].tolist().count(5)
                copy = unpack(pack(recorder.graph))
                assert all(node.end >= node.start for node in copy.nodes)
        except BaseException as error:
            problems.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    history = [S, U]
    size = 0
    for index in range(150):
        prompt = [5] * 40
        turn = TokenTurn(prompt, [6] * 20, [-1.0] * 20, [(size, size + 39)], start=size)
        recorder.call(history, assistant(f"r{index}"), tokens=turn)
        size += 60
        history = [*history, assistant(f"r{index}"), user(f"m{index}")]
    done.set()
    reader.join()
    assert problems == []
