"""Random histories against a naive model of the graph: nothing lost, nothing twice, everything exact."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule
from support.graphs import Recorder
from support.renderer import completion, render, turn

from vfnb.trace import TokenTurn, Trace, identity, pack, unpack
from vfnb.types import AssistantMessage, Message, SystemMessage, ToolCall, ToolMessage, Usage, UserMessage

WORDS = st.sampled_from(["a", "b", "cc", "look at this", "é漢", " x\n", ""])
REPLIES = st.sampled_from(["ok", "no", "a longer reply, in words", "  spaced\n"])


@dataclass
class Sent:
    """One call as it was made: the ids that the model saw and sampled, and where its reply went."""

    prompt_node: int
    reply_node: int | None
    prompt: list[int] = field(default_factory=list)
    sampled: list[int] = field(default_factory=list)


class GraphMachine(RuleBasedStateMachine):
    """A program that keeps several histories and treats them as real programs do."""

    with_tokens = True

    def __init__(self) -> None:
        super().__init__()
        self.recorder = Recorder()
        self.histories: list[list[Message]] = [[SystemMessage(content="s"), UserMessage(content="task")]]
        self.sent: list[Sent] = []
        self.committed = 0
        self.ids = 0

    # What a program does

    def make_call(self, history: list[Message], text: str, salt: int, bridge: bool, **how: Any) -> None:
        graph = self.recorder.graph
        items = [(message, identity(message)) for message in history]
        tip, known = graph.walk(-1, items)
        self.committed += len(history) - known + 1
        self.ids += 1
        call_id = f"c{self.ids}"
        reply = AssistantMessage(
            content=text,
            reasoning_content="thought " if salt % 2 else None,
            tool_calls=[ToolCall(id=call_id, name="run", arguments='{"n":  1}')] if salt == 2 else [],
        )
        tokens = self.tokens(history, text, salt, tip, known, bridge) if self.with_tokens else None
        fields = {} if tokens else {"usage": Usage(prompt_tokens=len(history), completion_tokens=1)}
        call = self.recorder.call(history, reply, tokens=tokens, **fields, **how)
        sent = Sent(call.prompt_node, call.reply_node)
        if tokens is not None:
            full, _, _ = render(history)
            start = tokens.start
            path = self.ids_of(tip)[:start]
            sent.prompt = [*path, *tokens.prompt_ids.tolist()]
            sent.sampled = completion(text, salt)
            assert start or sent.prompt == full
        self.sent.append(sent)
        echo = AssistantMessage(
            content=reply.content,
            tool_calls=[
                ToolCall(id=call.id, name=call.name, arguments='{"n":1}') for call in reply.tool_calls
            ],
        )
        history.append(echo if salt else reply)
        if reply.tool_calls:
            history.append(ToolMessage(tool_call_id=call_id, content="result"))

    def tokens(
        self, history: list[Message], text: str, salt: int, tip: int, known: int, bridge: bool
    ) -> TokenTurn:
        """A client that keeps the history's ids (bridge), or one that renders all messages again."""
        whole = turn(history, text, salt=salt, experts=salt == 1)
        start = len(self.ids_of(tip))
        if not bridge or not start:
            return whole
        tail, spans, content = render(history[known:])
        return TokenTurn(
            tail,
            whole.completion_ids,
            whole.logprobs,
            [(begin + start, end + start) for begin, end in spans],
            start=start,
            content_mask=content + [True] * len(whole.completion_ids),
        )

    def ids_of(self, node: int) -> list[int]:
        graph = self.recorder.graph
        found: list[int] = []
        for index in graph.path(node):
            item = graph.nodes[index]
            if graph.columns is not None and item.has_tokens:
                found += graph.columns.ids[item.start : item.end].tolist()
        return found

    def pick(self, data: st.DataObject) -> list[Message]:
        return data.draw(st.sampled_from(self.histories), label="history")

    @rule(data=st.data(), text=REPLIES, salt=st.integers(0, 2), bridge=st.booleans(), more=WORDS)
    def extend(self, data: st.DataObject, text: str, salt: int, bridge: bool, more: str) -> None:
        history = self.pick(data)
        self.make_call(history, text, salt, bridge)
        history.append(UserMessage(content=more))

    @rule(data=st.data(), text=REPLIES, salt=st.integers(0, 2), bridge=st.booleans())
    def resample(self, data: st.DataObject, text: str, salt: int, bridge: bool) -> None:
        self.make_call(list(self.pick(data)), text, salt, bridge)

    @rule(data=st.data(), text=REPLIES, bridge=st.booleans())
    def parallel(self, data: st.DataObject, text: str, bridge: bool) -> None:
        history = self.pick(data)
        for salt in (0, 1, 1):
            self.make_call(list(history), text, salt, bridge)

    @rule(data=st.data(), more=WORDS)
    def fork(self, data: st.DataObject, more: str) -> None:
        history = self.pick(data)
        keep = data.draw(st.integers(1, len(history)), label="keep")
        self.histories.append([*history[:keep], UserMessage(content=more)])

    @rule(data=st.data(), more=WORDS)
    def compact(self, data: st.DataObject, more: str) -> None:
        history = self.pick(data)
        self.make_call([*history, UserMessage(content="summarise")], "a longer reply, in words", 0, True)
        self.histories.append([history[0], UserMessage(content=f"a longer reply, in words {more}")])

    @rule(data=st.data())
    def rewrite(self, data: st.DataObject) -> None:
        history = self.pick(data)
        at = data.draw(st.integers(0, len(history) - 1), label="at")
        changed = history[at].model_copy(update={"content": history[at].text + "!"})
        self.histories.append([*history[:at], changed, *history[at + 1 :]])

    @rule(data=st.data(), text=REPLIES, bridge=st.booleans())
    def retry(self, data: st.DataObject, text: str, bridge: bool) -> None:
        history = self.pick(data)
        graph = self.recorder.graph
        known = graph.walk(-1, [(message, identity(message)) for message in history])[1]
        self.committed += len(history) - known
        failed = self.recorder.call(history, None, status=500)
        self.sent.append(Sent(failed.prompt_node, None))
        self.make_call(history, text, 0, bridge, retry_of=failed.index)

    @rule(data=st.data())
    def cut(self, data: st.DataObject) -> None:
        history = self.pick(data)
        graph = self.recorder.graph
        known = graph.walk(-1, [(message, identity(message)) for message in history])[1]
        self.committed += len(history) - known
        call = self.recorder.call(history, AssistantMessage(content="par"), partial=True, usage=None)
        self.sent.append(Sent(call.prompt_node, None))
        history.append(AssistantMessage(content="par"))

    @precondition(lambda self: self.sent)
    @rule()
    def lose_the_end(self) -> None:
        self.recorder.deltas.append(self.recorder.graph.update_call(len(self.sent) - 1, delivered=False))

    @rule()
    def free_and_go_on(self) -> None:
        self.recorder.trace.release()

    # What must hold

    @invariant()
    def size_is_linear(self) -> None:
        graph = self.recorder.graph
        sampled = sum(1 for sent in self.sent if sent.reply_node is not None)
        assert sum(1 for _ in graph.sampled()) == sampled
        again = sum(1 for node in graph.nodes if node.retokenized >= 0)
        if not again:
            assert len(graph.nodes) <= self.committed
        keys = {(node.parent, node.identity.key) for node in graph.nodes if not node.sampled}
        if not self.with_tokens:
            assert len(keys) >= len(graph.nodes) - sampled - again

    @invariant()
    def branches_cover_everything_once(self) -> None:
        graph, branches = self.recorder.graph, self.recorder.trace.branches
        parents = {node.parent for node in graph.nodes}
        assert {branch.leaf for branch in branches} == {
            n.index for n in graph.nodes if n.index not in parents
        }
        owned = [index for branch in branches for index in branch.own]
        assert sorted(owned) == list(range(len(graph.nodes)))
        calls = sorted(call.index for branch in branches for call in branch.calls)
        assert calls == list(range(len(graph.calls)))

    @invariant()
    def every_fork_is_explained(self) -> None:
        for branch in self.recorder.trace.branches:
            if branch.index:
                assert branch.cause is not None
                assert branch.cause.index == branch.shared
            else:
                assert branch.cause is None

    @invariant()
    def ids_are_what_was_sent_and_sampled(self) -> None:
        for sent in self.sent:
            if sent.reply_node is not None and self.with_tokens:
                assert self.ids_of(sent.reply_node) == [*sent.prompt, *sent.sampled]

    @invariant()
    def sampled_tokens_train_once(self) -> None:
        total = sum(len(sent.sampled) for sent in self.sent)
        samples = self.recorder.trace.samples()
        assert sum(int(sample.mask.sum()) for sample in samples) == total
        for sample in samples:
            assert len(sample.token_ids) == len(sample.mask) == len(sample.logprobs)
            assert np.all(sample.logprobs[sample.mask] < 0)
            assert sample.mask.any()
        if samples:
            assert sum(sample.weight for sample in samples) == pytest.approx(1)

    @invariant()
    def counters_equal_a_recount(self) -> None:
        graph = self.recorder.graph
        assert graph.counters == graph.recount()
        assert graph.counters.calls == len(self.sent)
        if self.with_tokens:
            assert graph.counters.completion_tokens == sum(len(sent.sampled) for sent in self.sent)

    def teardown(self) -> None:
        trace = self.recorder.trace
        dump = trace.model_dump()
        copies = [
            self.recorder.reload(),
            Trace.model_validate(dump),
            Trace.model_validate_json(trace.model_dump_json()),
            Trace.from_header(trace.header(), unpack(pack(trace.dag))),
        ]
        for copy in copies:
            assert copy.model_dump() == dump
            assert [branch.id for branch in copy.branches] == [branch.id for branch in trace.branches]
            for mine, theirs in zip(trace.samples(), copy.samples(), strict=True):
                for name in ("token_ids", "mask", "logprobs"):
                    assert getattr(mine, name).tobytes() == getattr(theirs, name).tobytes()
        assert pack(copies[0].dag) == pack(trace.dag)


class TextMachine(GraphMachine):
    """The same without tokens."""

    with_tokens = False


SLOW = [HealthCheck.too_slow, HealthCheck.data_too_large]
QUICK = settings(max_examples=40, stateful_step_count=30, deadline=None, suppress_health_check=SLOW)
LONG = settings(max_examples=1500, stateful_step_count=60, deadline=None, suppress_health_check=SLOW)

TestTokenGraph = GraphMachine.TestCase
TestTokenGraph.settings = QUICK
TestTextGraph = TextMachine.TestCase
TestTextGraph.settings = QUICK


class LongTokenMachine(GraphMachine):
    """The token machine for a long run."""


TestLongTokenGraph = pytest.mark.soak(pytest.mark.timeout(0)(LongTokenMachine.TestCase))
TestLongTokenGraph.settings = LONG
