"""The message graph: matching, counting, what a commit hands to a store."""

from __future__ import annotations

import threading

import pytest
from support.graphs import Recorder, assistant, shape, system, tool, user

from vfnb.errors import TraceError
from vfnb.trace import MessageGraph, ModelCall, decode_call, identity
from vfnb.types import AssistantMessage, Tool, Usage

S, U = system(), user("do it")
A = assistant("on it", ("c1", "bash", '{"cmd":  "ls"}'), reasoning="hm ")
ECHO = assistant("on it", ("c1", "bash", '{"cmd":"ls"}'))
T = tool("c1", "file")


def test_a_conversation_is_one_line() -> None:
    recorder = Recorder()
    recorder.call([S, U], A)
    recorder.call([S, U, ECHO, T], assistant("done"))
    assert shape(recorder.graph) == (5, 2, 1, 1)
    assert recorder.graph.path(4) == [0, 1, 2, 3, 4]
    assert recorder.trace.messages == [S, U, A, T, assistant("done")]
    assert [node.depth for node in recorder.graph.nodes] == [0, 1, 2, 3, 4]
    assert recorder.graph.children(-1) == [0]
    assert recorder.graph.linear


def test_a_commit_hands_over_only_what_is_new() -> None:
    recorder = Recorder()
    tools = [{"name": "bash", "type": "function"}]
    recorder.call([S, U], A, tools=tools)
    recorder.call([S, U, A, T], assistant("done"), tools=tools)
    first, second = recorder.deltas
    assert [record.index for record in first.nodes] == [0, 1, 2]
    assert [record.index for record in second.nodes] == [3, 4]
    assert len(first.contents) == 3
    assert len(second.contents) == 2
    assert (len(first.tools), len(second.tools)) == (1, 0)
    call = decode_call(second.call)
    assert (call.index, call.prompt_node, call.reply_node) == (1, 3, 4)
    assert recorder.graph.tool_list(call.tools) == [Tool(name="bash")]


def test_the_same_text_elsewhere_is_stored_once() -> None:
    recorder = Recorder()
    recorder.call([S, U], A)
    recorder.call([system("other"), U], assistant("x"))
    assert [len(delta.contents) for delta in recorder.deltas] == [3, 2]
    assert shape(recorder.graph) == (6, 2, 2, 2)


def test_a_reply_is_always_a_new_node() -> None:
    recorder = Recorder()
    for _ in range(3):
        recorder.call([S, U], A)
    assert shape(recorder.graph) == (5, 3, 3, 1)
    assert [node.branch for node in recorder.graph.nodes] == [0, 0, 0, 3, 4]


def test_an_echo_is_matched_to_the_newest_sample() -> None:
    recorder = Recorder()
    recorder.call([S, U], A)
    recorder.call([S, U], A)
    recorder.call([S, U, ECHO, T], assistant("done"))
    assert recorder.graph.nodes[4].parent == 3


def test_a_sample_is_preferred_to_context() -> None:
    recorder = Recorder()
    recorder.call([S, U, assistant("hi"), user("x")], assistant("y"))
    recorder.call([S, U], assistant("hi"))
    found = recorder.graph.find_child(1, identity(assistant("hi")))
    assert found is not None
    assert recorder.graph.nodes[found].sampled
    assert recorder.graph.find_child(1, identity(assistant("ho"))) is None


def test_the_known_continuation_decides_between_equal_turns() -> None:
    recorder = Recorder()
    recorder.call([S, U], A)
    recorder.call([S, U, A, T], assistant("done"))
    recorder.call([S, U], A)
    items = [(message, identity(message)) for message in (S, U, A, T, assistant("done"))]
    assert recorder.graph.walk(-1, items) == (4, 5)


def test_reasoning_tells_equal_turns_apart_only_if_it_is_there() -> None:
    recorder = Recorder()
    recorder.call([S, U], assistant("a", reasoning="one"))
    recorder.call([S, U], assistant("a", reasoning="two"))
    recorder.call([S, U, assistant("a", reasoning="one"), user("x")], assistant("b"))
    recorder.call([S, U, assistant("a"), user("y")], assistant("c"))
    parents = {node.message.text: node.parent for node in recorder.graph.nodes if node.message.role == "user"}
    assert (parents["x"], parents["y"]) == (2, 3)


def test_dropped_reasoning_stays_recorded_for_the_rest_of_the_line() -> None:
    recorder = Recorder()
    recorder.call([S, U], A)
    recorder.call([S, U, ECHO, T], assistant("two"))
    recorder.call([S, U, ECHO, T, assistant("two"), user("more")], assistant("three"))
    recorder.call([S, U], assistant("again"))
    assert [call.dropped_reasoning for call in recorder.trace.calls] == [False, True, True, False]
    kept = recorder.graph.nodes[2].message
    assert isinstance(kept, AssistantMessage)
    assert kept.reasoning_content == "hm "


def test_walking_from_a_known_tip_needs_only_the_tail() -> None:
    recorder = Recorder()
    recorder.call([S, U], A)
    items = [(message, identity(message)) for message in (ECHO, T)]
    assert recorder.graph.walk(1, items) == (2, 1)
    assert recorder.graph.walk(-1, items) == (-1, 0)


def test_failed_and_cut_calls_have_no_reply_node() -> None:
    recorder = Recorder()
    recorder.call([S, U], None, status=500)
    cut = recorder.call([S, U], assistant("par"), partial=True)
    recorder.call([S, U, assistant("par")], assistant("tial"))
    assert (cut.reply_node, cut.partial_text) == (None, "par")
    assert shape(recorder.graph) == (4, 1, 1, 1)
    assert recorder.graph.nodes[2].partial
    assert recorder.graph.counters.failed == 2
    assert recorder.graph.counters.turns == 1


def test_counters_follow_each_commit_and_correction() -> None:
    recorder = Recorder()
    recorder.call([S, U], A, usage=Usage(prompt_tokens=5, completion_tokens=3, cost=0.5))
    recorder.call([S, U], A, usage=Usage(prompt_tokens=5, completion_tokens=4, cached_tokens=2))
    recorder.call([S, U], None)
    assert recorder.graph.counters == recorder.graph.recount()
    assert recorder.graph.counters.total_tokens == 17
    assert recorder.trace.usage == Usage(prompt_tokens=10, completion_tokens=7, cached_tokens=2, cost=0.5)
    delta = recorder.graph.update_call(1, usage=Usage(prompt_tokens=5, completion_tokens=9), delivered=False)
    recorder.deltas.append(delta)
    assert recorder.graph.counters == recorder.graph.recount()
    assert recorder.graph.counters.completion_tokens == 12
    assert recorder.reload().model_dump() == recorder.trace.model_dump()


def test_each_change_has_a_version() -> None:
    recorder = Recorder()
    seen = [recorder.graph.version]
    recorder.call([S, U], A)
    seen.append(recorder.graph.version)
    recorder.graph.update_call(0, delivered=False)
    seen.append(recorder.graph.version)
    assert seen == sorted(set(seen))


def test_parallel_calls_do_not_add_a_prompt_twice() -> None:
    graph = MessageGraph()
    items = [(message, identity(message)) for message in (S, U)]
    for text in ("a", "b"):  # both were read before either was committed
        graph.commit(ModelCall(), parent=-1, new=items, reply=assistant(text))
    assert shape(graph) == (4, 2, 2, 1)


def test_a_correction_names_a_field() -> None:
    recorder = Recorder()
    recorder.call([S, U], A)
    with pytest.raises(TraceError, match="no field flavour"):
        recorder.graph.update_call(0, flavour="sweet")
    assert recorder.graph.counters == recorder.graph.recount()


def test_an_unknown_parent_is_refused() -> None:
    graph = MessageGraph()
    with pytest.raises(TraceError, match="parent 3 is not a node"):
        graph.commit(ModelCall(), parent=3, new=[], reply=None)
    assert graph.calls == []


def test_a_loaded_graph_grows_on() -> None:
    recorder = Recorder()
    recorder.call([S, U], A)
    loaded = recorder.reload().dag
    items = [(message, identity(message)) for message in (S, U, ECHO, T)]
    parent, known = loaded.walk(-1, items)
    assert (parent, known) == (2, 3)
    delta = loaded.commit(ModelCall(), parent=parent, new=items[known:], reply=assistant("done"))
    assert [record.index for record in delta.nodes] == [3, 4]
    assert len(delta.contents) == 2
    assert loaded.calls[1].dropped_reasoning


def test_released_traces_read_and_grow() -> None:
    recorder = Recorder()
    recorder.call([S, U], A)
    before = recorder.trace.model_dump()
    recorder.trace.release()
    recorder.trace.release()
    assert recorder.trace.model_dump() == before
    recorder.call([S, U, ECHO, T], assistant("done"))
    recorder.trace.release()
    assert recorder.trace.messages == [S, U, A, T, assistant("done")]
    assert len(recorder.deltas[1].contents) == 2


def test_readers_see_whole_turns_while_another_thread_writes() -> None:
    recorder = Recorder()
    done = threading.Event()
    problems: list[BaseException] = []

    def read() -> None:
        try:
            while not done.is_set():
                trace = recorder.trace
                for branch in trace.branches:
                    assert branch.messages
                    assert branch.cause is None or branch.cause.cause
                assert all(node.parent < node.index for node in trace.nodes)
                assert trace.last_reply is not None
                trace.model_dump_json()
        except BaseException as error:
            problems.append(error)

    reader = threading.Thread(target=read)
    reader.start()
    history = [S, U]
    for index in range(60):
        reply = assistant(f"turn {index}")
        recorder.call(history, reply)
        if index % 5 == 4:
            recorder.call([S, user(f"side {index}")], assistant("title"))
        history = [*history, reply, user(f"go on {index}")]
    done.set()
    reader.join()
    assert problems == []
