"""Every fork has a cause. One small history for each row of the table, and for each of their look-alikes."""

from __future__ import annotations

from support.graphs import Recorder, assistant, system, tool, user

from vfnb.trace import CAUSES
from vfnb.types import AssistantMessage, Message

S, U = system(), user("fix the bug in the parser")
A1 = assistant("looking", ("c1", "bash", '{"cmd": "ls"}'))
T1 = tool("c1", "parser.py")
A2 = assistant("reading", ("c2", "bash", '{"cmd": "cat parser.py"}'))
T2 = tool("c2", "def parse(): ...")
SUMMARY = "The parser drops the last token; next: fix parse()."


def started() -> Recorder:
    recorder = Recorder()
    recorder.call([S, U], A1)
    recorder.call([S, U, A1, T1], A2)
    return recorder


def test_the_table_is_complete() -> None:
    assert len(set(CAUSES)) == 8


def test_subagent_by_its_task_text() -> None:
    recorder = started()
    spawn = assistant("delegate", ("c3", "task", '{"prompt": "Count the tests in tests/ and report."}'))
    recorder.call([S, U, A1, T1, A2, T2], spawn)
    sub: list[Message] = [system("You are a subagent."), user("Count the tests in tests/ and report.")]
    recorder.call(sub, assistant("12 tests"))
    recorder.call([S, U, A1, T1, A2, T2, spawn, tool("c3", "12 tests")], assistant("done"))
    assert recorder.causes == [None, "subagent/task of node 6"]
    fork = recorder.trace.branches[1].cause
    assert fork is not None
    assert (fork.index, fork.node, fork.call) == (0, 7, 3)


def test_subagents_below_one_system_message() -> None:
    recorder = Recorder()
    calls = [
        ("c1", "task", '{"prompt": "first part of it"}'),
        ("c2", "task", '{"prompt": "second part of it"}'),
    ]
    recorder.call([S, U], assistant("split", *calls))
    for text in ("first part of it", "second part of it"):
        recorder.call([S, user(text)], assistant(f"did the {text[:5]}"))
    assert recorder.causes == [None, "subagent/task of node 2", "subagent/task of node 2"]


def test_subagent_by_marker() -> None:
    recorder = started()
    recorder.call([S, user("anything")], assistant("x"), markers={"agent": "a7"})
    recorder.call([S, user("anything else")], assistant("y"), markers={"kind": "subagent"})
    assert recorder.causes[1:] == ["subagent/a7", "subagent/declared"]


def test_compaction_on_the_branch() -> None:
    recorder = started()
    recorder.call([S, U, A1, T1, A2, T2, user("Summarise the work so far.")], assistant(SUMMARY))
    recorder.call([S, U, user(f"Continue from this summary: {SUMMARY}")], assistant("going on"))
    assert recorder.causes == [None, "compaction/summary"]


def test_compaction_in_a_request_of_its_own() -> None:
    recorder = started()
    recorder.call([system("You summarise."), user("the conversation ...")], assistant(SUMMARY))
    carried: list[Message] = [S, user("What did we do?"), assistant(SUMMARY), user("Continue.")]
    recorder.call(carried, assistant("going on"))
    assert recorder.causes == [None, "compaction/request", "compaction/summary"]


def test_a_summary_in_tags_is_handed_on_without_them() -> None:
    recorder = started()
    tagged = f"<analysis>What was asked: a fix.</analysis>\n\n<summary>\n{SUMMARY}\n</summary>"
    recorder.call([S, U, A1, T1, user("Analyse, then summarise.")], assistant(tagged))
    recorder.call([S, user(f"This goes on from:\n{SUMMARY}\nContinue.")], assistant("going on"))
    assert recorder.causes == [None, "compaction/request", "compaction/summary"]


def test_declared_compaction_needs_no_text() -> None:
    recorder = started()
    recorder.call([S, U, A1, T1, A2, T2, user("compact")], assistant(SUMMARY), markers={"kind": "compaction"})
    recorder.call([S, U, user("a summary that the program rewrote")], assistant("going on"))
    assert recorder.causes == [None, "compaction/summary"]


def test_a_second_attempt_that_was_not_used() -> None:
    recorder = started()
    recorder.call([S, U, A1, T1, user("summarise")], assistant(SUMMARY))
    recorder.call([S, U, A1, T1, user("summarise again, please")], assistant("no"))
    recorder.call([S, user(f"Summary: {SUMMARY}")], assistant("going on"))
    assert recorder.causes == [
        None,
        "compaction/request",
        "compaction/unused_request",
        "compaction/summary",
    ]


def test_a_history_that_only_lost_its_oldest_turns_is_no_compaction() -> None:
    recorder = started()
    recorder.call([S, U, A1, T1, A2, T2], assistant("more"))
    recorder.call([S, A2, T2], assistant("rest"))
    assert recorder.causes == [None, "history_edited"]


def test_side_call_with_a_root_of_its_own() -> None:
    recorder = started()
    recorder.call([system("Make a title."), U], assistant("Parser bug"))
    recorder.call([S, U, A1, T1, A2, T2], assistant("done"))
    assert recorder.causes == [None, "side_call"]


def test_side_call_by_marker() -> None:
    recorder = started()
    recorder.call([S, user("title?")], assistant("Parser bug"), markers={"kind": "side_call"})
    assert recorder.causes == [None, "side_call/declared"]


def test_side_call_on_the_line_itself() -> None:
    recorder = started()
    recorder.call([S, U, A1, T1, A2, user("Is the task done? Say yes or no.")], assistant("no"))
    recorder.call([S, U, A1, T1, A2, T2], assistant("done"))
    assert recorder.causes == [None, "side_call/call 2 left this line for one reply"]


def test_retry_of_an_undelivered_reply() -> None:
    recorder = started()
    recorder.graph.update_call(1, delivered=False)
    recorder.call([S, U, A1, T1], A2)
    recorder.call([S, U, A1, T1], A2, retry_of=1)
    assert recorder.causes[1:] == ["retry/of call 1", "retry/of call 1"]


def test_a_retry_after_a_failure_is_no_fork() -> None:
    recorder = started()
    recorder.call([S, U, A1, T1, A2, T2], None, status=500)
    recorder.call([S, U, A1, T1, A2, T2], assistant("done"))
    assert recorder.causes == [None]


def test_resample() -> None:
    recorder = started()
    for _ in range(3):
        recorder.call([S, U, A1, T1, A2, T2], assistant("done"))
    assert recorder.causes == [None, "resample/of call 2", "resample/of call 3"]


def test_a_dropped_reply() -> None:
    recorder = started()
    recorder.call([S, U, A1, T1, user("No tool call found. Try again.")], assistant("again"))
    recorder.call(
        [S, U, A1, T1, user("No tool call found. Try again."), user("Last try.")], assistant("last")
    )
    assert recorder.causes == [None, "history_edited/reply_dropped", "history_edited/reply_dropped"]


def test_a_partial_echo() -> None:
    recorder = started()
    recorder.call([S, U, A1, T1, A2, T2], None, partial_text="I thi")
    recorder.call([S, U, A1, T1, A2, T2], assistant("full"))
    recorder.call([S, U, A1, T1, A2, T2, assistant("I thi")], assistant("nk so"))
    recorder.call([S, U, A1, T1, A2, T2, assistant("I thi"), assistant("nk so"), U], assistant("ok"))
    assert recorder.causes == [None, "history_edited/partial_echo"]


def test_a_rewritten_turn() -> None:
    recorder = started()
    edited = assistant("looking harder", ("c1", "bash", '{"cmd": "ls"}'))
    recorder.call([S, U, edited, T1], A2)
    recorder.call([S, U, edited, T1, A2, T2], assistant("done"))
    assert recorder.causes == [None, "history_edited/reply_rewritten"]
    fork = recorder.trace.branches[1].cause
    assert fork is not None
    assert fork.index == 2
    assert "looking" in fork.diff.splitlines()[0]
    assert "looking harder" in fork.diff.splitlines()[1]


def test_a_changed_system_message_is_a_new_root() -> None:
    recorder = started()
    recorder.call([system("You are careful."), U, A1, T1, A2, T2], assistant("one"))
    recorder.call([system("You are careful."), U, A1, T1, A2, T2, assistant("one"), U], assistant("two"))
    assert recorder.causes == [None, "history_edited/new_root"]


def test_the_difference_is_short_and_shows_the_place() -> None:
    recorder = Recorder()
    long = "the same beginning of a long message, word for word, " * 40
    recorder.call([S, user(long + "then this")], assistant("a"))
    recorder.call([S, user(long + "then that")], assistant("b"))
    recorder.call([S, user(long + "then that"), assistant("b"), U], assistant("c"))
    fork = recorder.trace.branches[1].cause
    assert fork is not None
    assert fork.cause == "history_edited"
    assert len(fork.diff) < 250
    assert "then this" in fork.diff
    assert "then that" in fork.diff


def test_causes_are_looked_at_again_when_the_trace_grows() -> None:
    recorder = started()
    recorder.call([system("You summarise."), user("the conversation ...")], assistant(SUMMARY))
    assert recorder.causes == [None, "side_call"]
    recorder.call([S, user(SUMMARY)], assistant("going on"))
    assert recorder.causes == [None, "compaction/request", "compaction/summary"]


def test_branches_keep_their_names_and_calls() -> None:
    recorder = started()
    recorder.call([S, user("title?")], assistant("Parser bug"))
    before = [branch.id for branch in recorder.trace.branches]
    recorder.call([S, U, A1, T1, A2, T2], assistant("done"))
    branches = recorder.trace.branches
    assert [branch.id for branch in branches] == before
    assert [[call.index for call in branch.calls] for branch in branches] == [[0, 1, 3], [2]]
    assert [branch.shared for branch in branches] == [0, 1]
    assert len(branches[0]) == 7
    assert isinstance(branches[1].messages[-1], AssistantMessage)
    assert repr(branches[1]) == "Branch(1: 3 messages, side_call)"
