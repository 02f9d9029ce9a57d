"""Programs that compact, start subagents and ask aside: every fork has its cause, every branch its links."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.graphs import Recorder, assistant, system, tool, user
from support.trace_captures import replay

from vfnb.trace import LINKS, Link, TokenTurn, Trace
from vfnb.types import AssistantMessage, Message

WORDS = (
    "amber",
    "birch",
    "cedar",
    "delta",
    "ember",
    "fjord",
    "grove",
    "harbor",
    "island",
    "kelp",
    "lagoon",
    "otter",
)


class Program:
    """An agent program with one conversation per agent. Texts are random and never repeat by chance.

    Attributes:
        expected: cause of each fork, by its first node.
        links: the links that must be found.
    """

    def __init__(self, seed: int, *, declares: bool, preamble: int = 1) -> None:
        self.recorder = Recorder()
        self.random = random.Random(seed)
        self.declares = declares
        self.count = 0
        self.preamble: list[Message] = [system("You are an agent.")]
        if preamble > 1:
            self.preamble += [system("Skills: none."), user("<environment>linux</environment>")][
                : preamble - 1
            ]
        self.history: dict[str, list[Message]] = {"main": [*self.preamble, user(self.text())]}
        self.expected: dict[int, str] = {}
        self.links: list[tuple[str, int, int]] = []

    def text(self, words: int = 9) -> str:
        self.count += 1
        return f"{' '.join(self.random.choice(WORDS) for _ in range(words))} {self.random.getrandbits(60):x}"

    def call(
        self, messages: list[Message], reply: AssistantMessage, agent: str, cause: str = "", **more: Any
    ) -> tuple[int, int]:
        """Call; returns the first node of the branch that the call began (-1 for none), and the reply's node."""
        markers = more.pop("markers", {})
        markers = dict(markers) if self.declares else {}
        if self.declares and agent != "main":
            markers["agent"] = agent
        more.setdefault("tools", [{"name": "bash"}])
        before = set(self.recorder.graph.tips)
        made = self.recorder.call(messages, reply, markers=markers, **more)
        began = sorted(set(self.recorder.graph.tips) - before)
        assert made.reply_node is not None
        if began and began[0] != 0:
            self.expected[began[0]] = cause
        return (began[0] if began else -1), made.reply_node

    def turn(self, agent: str, cause: str = "") -> int:
        """One tool turn; returns the first node of a new branch."""
        history, number = self.history[agent], f"c{self.count}"
        reply = assistant(self.text(4), (number, "bash", f'{{"command": "{self.text(3)}"}}'))
        first, _ = self.call(list(history), reply, agent, cause)
        history += [reply, tool(number, self.text(12))]
        return first

    def compact(self, agent: str, *, apart: bool) -> None:
        """Ask for a summary, on the line or in a request of its own, and go on from it."""
        history = self.history[agent]
        summary = self.text(14)
        if apart:
            dump = "\n".join(message.text for message in history)
            request: list[Message] = [system("You summarise conversations."), user(dump)]
        else:
            request = [*history, user("Summarise the work so far, for another agent.")]
        _, reply = self.call(
            request, assistant(summary), agent, "compaction", markers={"kind": "compaction"}, tools=[]
        )
        self.history[agent] = [*self.preamble, user(f"A summary of the work so far: {summary}")]
        first = self.turn(agent, "compaction")
        self.links.append(("compaction_of", first, reply))

    def spawn(self, agent: str, names: list[str]) -> None:
        """Start subagents, all by one reply."""
        tasks = [self.text(10) for _ in names]
        made = [
            (f"t-{name}", "task", f'{{"prompt": "{task}"}}') for name, task in zip(names, tasks, strict=True)
        ]
        reply = assistant(self.text(4), *made)
        _, node = self.call(list(self.history[agent]), reply, agent)
        self.history[agent].append(reply)
        for name, task in zip(names, tasks, strict=True):
            self.history[name] = [*self.preamble, user(task)]
            first = self.turn(name, "subagent")
            self.links.append(("spawned_by", first, node))

    def answer(self, agent: str, names: list[str]) -> None:
        """End subagents and hand their answers to the one that started them."""
        waiting = []
        for name in names:
            text = self.text(8)
            _, reply = self.call(list(self.history.pop(name)), assistant(text), name)
            self.history[agent].append(tool(f"t-{name}", f"The agent said: {text}"))
            waiting.append(reply)
        self.turn(agent)
        nodes = self.recorder.graph.nodes
        results = {node.message.tool_call_id: node.index for node in nodes if node.message.role == "tool"}  # type: ignore[union-attr]
        for name, reply in zip(names, waiting, strict=True):
            self.links.append(("returned_to", reply, results[f"t-{name}"]))

    def title(self) -> None:
        """A side call whose answer is of no use to any history."""
        request: list[Message] = [system("Make a title."), user(self.text(6))]
        self.call(
            request, assistant(self.text(3)), "main", "side_call", markers={"kind": "side_call"}, tools=[]
        )

    def check(self) -> None:
        trace = self.recorder.trace
        found = {branch.id: branch.cause.cause for branch in trace.branches if branch.cause is not None}
        assert found == self.expected
        assert sorted((link.kind, link.source, link.target) for link in trace.links) == sorted(self.links)
        assert {link.kind for link in trace.links} <= set(LINKS)
        again = Trace.model_validate(trace.model_dump())
        assert again.links == trace.links == self.recorder.reload().links


both = pytest.mark.parametrize("declares", [True, False], ids=["declared", "by structure"])


@both
@pytest.mark.parametrize("apart", [True, False])
def test_two_compactions_in_a_row(declares: bool, apart: bool) -> None:
    program = Program(1, declares=declares)
    for _ in range(2):
        program.turn("main")
        program.turn("main")
        program.compact("main", apart=apart)
    program.turn("main")
    program.check()
    assert [kind for kind, _, _ in program.links] == ["compaction_of"] * 2
    details = [link.detail for link in program.recorder.trace.links]
    assert details[0] == "branch 0"
    assert details[1] == f"branch {program.recorder.trace.links[0].source}"


@both
@pytest.mark.parametrize("preamble", [1, 2, 3], ids=["system", "skills", "environment"])
def test_parallel_subagents_below_the_same_preamble(declares: bool, preamble: int) -> None:
    program = Program(2, declares=declares, preamble=preamble)
    program.turn("main")
    program.spawn("main", ["a", "b", "c"])
    program.turn("b")
    program.answer("main", ["a", "b", "c"])
    program.turn("main")
    program.check()
    assert Counter(program.expected.values()) == {"subagent": 3}


@both
def test_nested_subagents(declares: bool) -> None:
    program = Program(3, declares=declares)
    program.spawn("main", ["a"])
    program.spawn("a", ["b"])
    program.spawn("b", ["c"])
    for parent, child in (("b", "c"), ("a", "b"), ("main", "a")):
        program.answer(parent, [child])
    program.check()
    trace = program.recorder.trace
    owners = {trace.dag.nodes[link.target].branch for link in trace.links if link.kind == "spawned_by"}
    assert len(owners) == 3


@both
@pytest.mark.parametrize("apart", [True, False])
def test_a_compaction_inside_a_subagent(declares: bool, apart: bool) -> None:
    program = Program(4, declares=declares)
    program.turn("main")
    program.spawn("main", ["a"])
    program.turn("a")
    program.compact("a", apart=apart)
    program.turn("a")
    program.answer("main", ["a"])
    program.check()


@both
def test_a_side_call_between_turns_and_beside_subagents(declares: bool) -> None:
    program = Program(5, declares=declares)
    program.turn("main")
    program.title()
    program.turn("main")
    program.spawn("main", ["a"])
    program.title()
    program.turn("a")
    program.answer("main", ["a"])
    program.check()


@settings(max_examples=60, deadline=None)
@given(st.integers(0, 2**32), st.booleans(), st.integers(1, 3))
def test_any_mixture(seed: int, declares: bool, preamble: int) -> None:
    """Programs that do all of it in any order: causes and links are those of what they did."""
    program = Program(seed, declares=declares, preamble=preamble)
    choose = random.Random(seed)
    names = iter(f"s{number}" for number in range(100))
    program.turn("main")
    program.turn("main")
    for _ in range(choose.randint(2, 7)):
        match choose.choice(["turn", "compact", "apart", "spawn", "title"]):
            case "turn":
                program.turn("main")
            case "compact":
                program.turn("main")
                program.compact("main", apart=False)
            case "apart":
                program.turn("main")
                program.compact("main", apart=True)
            case "spawn":
                children = [next(names) for _ in range(choose.randint(1, 3))]
                program.spawn("main", children)
                for child in choose.sample(children, choose.randint(0, len(children))):
                    program.turn(child)
                program.answer("main", children)
            case _:
                program.title()
                program.turn("main")
    program.check()


def test_captures_of_real_programs() -> None:
    for name in ("codex-compact", "claude-code-compact", "opencode-compact"):
        for markers in (True, False):
            trace = replay(name, markers=markers).trace
            (link,) = trace.links
            assert link.kind == "compaction_of"
            assert trace.dag.nodes[link.target].message.text.startswith("SUMMARY")
            assert trace.dag.nodes[link.target].sampled
            assert trace.dag.nodes[link.source].branch == link.source
            assert link.detail == "branch 0"
    for markers in (True, False):
        links = replay("claude-code-subagent", markers=markers).trace.links
        assert [(link.kind, link.detail) for link in links] == [
            ("spawned_by", "toolu_sub1"),
            ("returned_to", "toolu_sub1"),
        ]
    for name in ("kimi-code-cut1", "mini-swe-agent-basic", "codex-basic"):
        assert replay(name).trace.links == []


def test_a_subagent_that_answers_by_a_message_long_after_its_call_returned() -> None:
    recorder = Recorder()
    start: list[Message] = [system("You are an agent."), user("Do the work of many.")]
    spawn = assistant("", ("c1", "spawn_agent", '{"message": "count all tests of the project"}'))
    recorder.call(start, spawn)
    begun = tool("c1", '{"agent_id": "a1"}')
    wait = assistant("", ("c2", "wait_agent", '{"ids": ["a1"]}'))
    recorder.call([*start, spawn, begun], wait)
    recorder.call(
        [start[0], user("count all tests of the project")], assistant("There are 312 tests in all.")
    )
    told = user("<subagent_notification>There are 312 tests in all.</subagent_notification>")
    recorder.call([*start, spawn, begun, wait, tool("c2", "done"), told], assistant("312"))
    assert recorder.causes == [None, "subagent/task of node 2"]
    spawned, returned = recorder.trace.links
    assert (spawned.kind, spawned.target, spawned.detail) == ("spawned_by", 2, "c1")
    assert recorder.graph.nodes[returned.target].message == told


def test_a_path_in_a_tool_call_makes_no_subagent_of_a_text_that_mentions_it() -> None:
    recorder = Recorder()
    start: list[Message] = [system("You are an agent."), user("Mend the parser.")]
    read = assistant("", ("c1", "read", '{"path": "src/parser/tokens.py"}'))
    recorder.call(start, read)
    recorder.call([*start, read, tool("c1", "def tokens(): ...")], assistant("Mended."))
    dump = "A title for this: Mend the parser. It read src/parser/tokens.py and changed the function of that name."
    recorder.call([system("Make a title."), user(dump)], assistant("Parser mended"))
    assert recorder.causes == [None, "side_call"]


def test_a_turn_that_is_kept_while_older_ones_go_is_no_summary() -> None:
    recorder = Recorder()
    first, second, third = user("the first question"), user("the second question"), user("the third question")
    one, two = (
        assistant("A long answer to the first question."),
        assistant("A long answer to the second one."),
    )
    recorder.call([system(), first], one)
    recorder.call([system(), first, one, second], two)
    recorder.call([system(), second, two, third], assistant("and a third answer"))
    assert recorder.causes == [None, "history_edited"]
    assert recorder.trace.links == []


def test_links_leave_every_sampled_token_with_one_owner() -> None:
    recorder = Recorder()
    start: list[Message] = [system("You are an agent."), user("Work.")]
    carried: list[Message] = [start[0], user("From: A summary of all the work there was.")]
    first = TokenTurn([1, 2, 3, 4], [5, 6, 7], [-0.5] * 3, [(0, 2), (2, 4)])
    second = TokenTurn([1, 2, 8, 9, 10], [11, 12], [-0.25] * 2, [(0, 2), (2, 5)])
    recorder.call(start, assistant("A summary of all the work there was."), tokens=first)
    recorder.call(carried, assistant("going on from there, it is done"), tokens=second)
    assert recorder.causes == [None, "compaction/summary"]
    assert [link.kind for link in recorder.trace.links] == ["compaction_of"]
    owned = [sample.token_ids[sample.mask].tolist() for sample in recorder.trace.samples()]
    assert owned == [[5, 6, 7], [11, 12]]


def test_a_link_is_a_plain_value() -> None:
    link = Link("spawned_by", 4, 3, 1, "toolu_1")
    assert link == Link("spawned_by", 4, 3, 1, "toolu_1")
    assert repr(link) == "Link(kind='spawned_by', source=4, target=3, call=1, detail='toolu_1')"
