"""Packing a finished trace: small, exact, and damage is told."""

from __future__ import annotations

import numpy as np
import pytest
from support.conversations import compaction, linear, record, subagents
from support.graphs import Recorder, assistant, system, user

from vfnb.errors import TraceError
from vfnb.trace import MessageGraph, Packed, Trace, pack, unpack
from vfnb.trace.pack import token_counts, unpack_structure
from vfnb.trace.records import TokenRecord
from vfnb.trace.table import token_records

SHAPES = {"linear": linear, "compaction": compaction, "subagents": subagents}


def graph_of(shape: str, turns: int) -> MessageGraph:
    graph = MessageGraph()
    for turn in SHAPES[shape](turns):
        record(graph, turn)
    return graph


@pytest.mark.parametrize("shape", SHAPES)
def test_packing_is_exact(shape: str) -> None:
    graph = graph_of(shape, 45)
    packed = pack(graph)
    loaded = unpack(packed)
    assert pack(loaded) == packed
    assert token_records(loaded) == token_records(graph)
    assert [node.raw for node in loaded.nodes] == [node.raw for node in graph.nodes]
    assert loaded.calls == graph.calls
    assert loaded.counters == graph.counters
    assert loaded.linear == graph.linear
    for mine, theirs in zip(graph.tips, loaded.tips, strict=True):
        assert mine == theirs
    dump = Trace.from_header({"id": "x"}, graph).model_dump()
    assert Trace.from_header({"id": "x"}, loaded).model_dump() == dump


def test_a_long_token_trace_is_small_and_grows_evenly() -> None:
    graph = MessageGraph()
    sizes = {}
    for index, turn in enumerate(linear(200), 1):
        record(graph, turn)
        if index in (10, 50, 100, 200):
            sizes[index] = pack(graph).nbytes
    assert graph.columns is not None
    assert graph.columns.size > 200_000
    assert sizes[200] <= 850_000
    slope = (sizes[200] - sizes[10]) / 190
    assert (sizes[100] - sizes[10]) / 90 == pytest.approx(slope, rel=0.06)
    per_token = pack(graph).nbytes / graph.columns.size
    assert per_token < 4


def test_a_finished_token_trace_is_light_in_memory() -> None:
    graph = unpack(pack(graph_of("linear", 50)))
    assert graph.columns is not None
    assert graph.columns.nbytes < 9.2 * graph.columns.size
    assert graph.nodes[3]._raw == 3  # texts stay compressed until they are read


def test_tokens_can_be_left_out_and_counted_alone() -> None:
    graph = graph_of("linear", 5)
    packed = pack(graph)
    assert unpack(packed, tokens=False).columns is None
    counts = token_counts(packed.tokens)
    assert counts == {node.index: node.end - node.start for node in graph.nodes}
    assert token_counts(b"") == {}


def test_bodies_can_be_kept_elsewhere() -> None:
    recorder = Recorder()
    rules = system("long rules " * 100)
    recorder.call([rules, user("u")], assistant("a"), tools=[{"name": "bash"}])
    kept: dict[bytes, bytes] = {}

    def elsewhere(key: bytes, raw: bytes) -> bool:
        if len(raw) > 500 or raw.startswith(b"["):
            kept[key] = raw
            return True
        return False

    packed = pack(recorder.graph, elsewhere)
    assert len(kept) == 2
    assert packed.nbytes < pack(recorder.graph).nbytes
    loaded = unpack(packed, fetch=kept.__getitem__)
    assert Trace.from_header(recorder.trace.header(), loaded).model_dump() == recorder.trace.model_dump()
    assert pack(loaded) == pack(recorder.graph)
    assert unpack_structure(packed, kept.__getitem__)[1] == [node.raw for node in recorder.graph.nodes]
    with pytest.raises(TraceError, match="kept elsewhere"):
        unpack(packed)


def test_damage_is_told() -> None:
    packed = pack(graph_of("linear", 3))
    broken = b"\x00" * 20
    with pytest.raises(TraceError, match="structure"):
        unpack(Packed(packed.texts, broken, packed.tokens))
    with pytest.raises(TraceError, match="tokens"):
        unpack(Packed(packed.texts, packed.structure, broken))
    with pytest.raises(TraceError, match="messages"):
        unpack(Packed(broken, packed.structure, packed.tokens)).nodes[0].raw  # noqa: B018
    other = pack(graph_of("linear", 2))
    with pytest.raises(TraceError, match="their lengths say"):
        unpack(Packed(other.texts, packed.structure)).nodes[0].raw  # noqa: B018
    with pytest.raises(TraceError, match="names a node beyond"):
        unpack(Packed(other.texts, other.structure, packed.tokens))


def test_wrong_token_records_are_refused() -> None:
    graph = graph_of("linear", 1)
    records = token_records(graph)
    ids = np.arange(3, dtype=np.int32).tobytes()
    for wrong, text in (
        (TokenRecord(node=99, lead=0, ids=ids), "names node 99"),
        (TokenRecord(node=0, lead=4, ids=ids), "lead 4 of 3"),
        (TokenRecord(node=0, lead=0, ids=ids), "0 logprobs for 3 tokens"),
    ):
        with pytest.raises(TraceError, match=text):
            MessageGraph.restore([], {}, [], [wrong]) if wrong.node == 99 else graph._restore_tokens([wrong])
    assert token_records(graph)[: len(records)] == records


def test_an_empty_graph_packs() -> None:
    assert unpack(pack(MessageGraph())).nodes == []
