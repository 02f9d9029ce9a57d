"""The bash harness, in process and as a program in the subprocess runtime."""

from __future__ import annotations

import asyncio
import json
import time
from typing import Any

import pytest
from support.scripts import FixTask, asks, call, fix_task, results, turns
from vfnb_harnesses.bash import BashConfig, BashHarness
from vfnb_harnesses.shell import SHELL_TOOLS

import vfnb as vf
from vfnb.errors import ConfigError, ContextLengthError

BOTH = pytest.mark.parametrize("as_program", [False, True], ids=["inprocess", "program"])


def solve(
    model: vf.Scripted, as_program: bool, *, data: dict[str, Any] | None = None, **config: Any
) -> vf.Trace:
    harness = BashHarness(BashConfig(as_program=as_program, **config))
    agent = vf.make_agent(harness, model=model, runtime="subprocess")
    trace = asyncio.run(agent.run(fix_task()))
    assert not trace.errors, trace.errors
    return trace


@BOTH
def test_a_coding_task_is_solved_on_one_line(as_program: bool) -> None:
    model, asked = turns(
        asks(call("read", path="calc.py"), call("bash", command="ls -a; pwd >&2")),
        asks(call("edit", path="calc.py", old="a - b", new="a + b"), text="A wrong sign."),
        asks(call("bash", command="python3 -c 'import calc; print(calc.add(2, 3))'; exit 3")),
        asks(call("write", path="notes/done.txt", content="fixed\n"), call("bash", command="cat notes/*")),
        "Repaired.",
    )
    trace = solve(model, as_program)
    assert trace.reward == 1.0
    assert trace.info["calc"] == "def add(a, b):\n    return a + b\n"
    assert trace.last_reply == "Repaired."
    assert trace.end_state == "completed"
    assert len(trace.branches) == 1
    assert [m.role for m in trace.messages[:2]] == ["system", "user"]
    file, listing = results(asked[1])
    assert file == "def add(a, b):\n    return a - b\n"
    assert listing.splitlines()[:3] == [".", "..", "calc.py"]
    assert "request" not in listing  # what the program was told does not lie about
    assert listing.splitlines()[-1].endswith("/work")
    assert results(asked[2]) == ["edited calc.py in 1 place"]
    assert results(asked[3]) == ["5\n[exit status 3]"]
    (offered,) = {made.tools for made in trace.calls}
    assert offered is not None
    tools = json.loads(trace.dag.tools[offered])
    assert [tool["name"] for tool in tools] == ["bash", "read", "write", "edit"]
    assert [tool["description"] for tool in tools] == [tool.description for tool in SHELL_TOOLS]
    assert sum(node.sampled for node in trace.dag.nodes) == len(trace.calls) == 5


@BOTH
def test_what_the_model_does_wrong_it_is_told(as_program: bool) -> None:
    model, asked = turns(
        asks(
            call("bash", '{"command": "ls'),
            call("bash", "[1]"),
            call("bash", ""),
            call("bash", cmd="ls"),
            call("bash", command=5),
            call("shell", command="ls"),
            call("read", path="absent.txt"),
            call("read", path="/dev/zero"),
            call("edit", path="calc.py", old="nowhere", new="x"),
            call("edit", path="calc.py", old="a", new="x"),
            call("bash", command="printf '\\xff\\xfe' > raw"),
        ),
        asks(call("read", path="raw"), call("edit", path="calc.py", old="a", new="b", all=True)),
        "I give up.",
    )
    trace = solve(model, as_program)
    assert trace.reward == 0.0
    told = results(asked[1])
    wanted = [
        "not valid JSON",
        "one JSON object",
        "missing argument 'command'",
        "no argument 'cmd'",
        "command must be of type string",
        "no tool 'shell'",
        "absent.txt",
        "/dev/zero",
        "is not in calc.py",
        "times in calc.py",
        "(no output)",
    ]
    for words, text in zip(wanted, told, strict=True):
        assert words in text
        assert text.startswith("Error: ") or words == "(no output)"
    binary, edited = results(asked[2])
    assert "not a UTF-8 text file" in binary
    assert edited == "edited calc.py in 3 places"


@BOTH
def test_long_outputs_are_cut_and_say_so(as_program: bool) -> None:
    model, asked = turns(
        asks(
            call("bash", command="seq 1 40000; echo end"),
            call("bash", command="head -c 30000000 /dev/zero | tr '\\0' x"),
            call("bash", command="seq 1 9999 > numbers"),
        ),
        asks(call("read", path="numbers"), call("read", path="numbers", offset=500, limit=3)),
        "ok",
    )
    solve(model, as_program, max_output=2000)
    counted, zeros, _ = results(asked[1])
    assert counted.startswith("1\n2\n3\n")
    assert counted.endswith("\nend")
    assert "characters left out" in counted
    assert len(counted) < 2100
    assert "of 30000" in zeros  # what the runtime has dropped counts too
    whole, part = results(asked[2])
    assert whole.startswith("1\n2\n")
    assert "of 9999; read on with offset=" in whole
    assert part == "500\n501\n502\n[lines 500 to 502 of 9999; read on with offset=503]"


@BOTH
def test_commands_end_in_time_and_in_the_background(as_program: bool) -> None:
    model, asked = turns(
        asks(
            call("bash", command="echo before; sleep 60", timeout=0.5),
            call("bash", command="sleep 60 & echo went on"),
            call("bash", command="trap '' TERM; sleep 60 & wait", timeout=0.5),
        ),
        asks(call("bash", command="env | grep OPENAI_ || echo none; cat | wc -c")),
        "ok",
    )
    start = time.monotonic()
    solve(model, as_program, command_timeout=10)
    assert time.monotonic() - start < 30
    late, background, stubborn = results(asked[1])
    assert late == "before\n[ended after 0.5 s, its time limit]"
    assert background == "went on"
    assert "its time limit" in stubborn
    assert results(asked[2]) == ["none\n0"]  # no key of the model, no input


@BOTH
def test_own_tools_of_one_reply_run_in_their_order(as_program: bool) -> None:
    model, asked = turns(
        asks(
            call("write", path="a.txt", content="one two"),
            call("bash", command="sleep 0.3; cp a.txt b.txt"),
            call("edit", path="a.txt", old="one", new="1"),
            call("edit", path="a.txt", old="two", new="2"),
            call("bash", command="cat a.txt b.txt"),
        ),
        "ok",
    )
    solve(model, as_program)
    assert results(asked[1])[-1] == "1 2one two"


@BOTH
def test_a_threshold_cuts_the_conversation(as_program: bool) -> None:
    model, asked = turns(
        asks(call("bash", command="echo first"), prompt_tokens=100),
        asks(call("bash", command="echo second"), prompt_tokens=900),
        "calc.py has a wrong sign; it must be repaired with sed.",
        asks(call("bash", command="sed -i 's/a - b/a + b/' calc.py"), prompt_tokens=200),
        "Repaired.",
    )
    trace = solve(model, as_program, compact_at=500)
    assert trace.reward == 1.0
    assert [made.markers for made in trace.calls] == [{}, {}, {"kind": "compaction"}, {}, {}]
    assert len({made.tools for made in trace.calls}) == 1
    assert "Write a summary" in asked[2][-1].text
    assert asked[2][:-1][: len(asked[1])] == asked[1]
    assert [m.role for m in asked[3]] == ["system", "user", "user"]
    assert asked[3][:2] == asked[0]
    assert "calc.py has a wrong sign" in asked[3][2].text
    causes = [branch.cause.cause if branch.cause else None for branch in trace.branches]
    assert causes == [None, "compaction"]
    sampled = [made.reply_node for made in trace.calls]
    owned = [node for branch in trace.branches for node in branch.own if trace.dag.nodes[node].sampled]
    assert sorted(owned) == sampled  # each in one branch
    assert [len([node for node in branch.own if node in sampled]) for branch in trace.branches] == [3, 2]
    assert trace.last_reply == "Repaired."


@BOTH
def test_an_exceeded_context_is_cut_once(as_program: bool) -> None:
    too_long = ContextLengthError("This model's maximum context length is 10 tokens", status=400)
    model, asked = turns(
        asks(call("bash", command="echo first")),
        asks(call("bash", command="seq 1 3000")),
        too_long,
        "The sign is wrong.",
        asks(call("edit", path="calc.py", old="-", new="+")),
        "Repaired.",
    )
    trace = solve(model, as_program)
    assert trace.reward == 1.0
    assert trace.end_state == "completed"
    assert trace.calls[3].markers == {"kind": "compaction"}
    assert asked[3][:-1] == asked[1]  # what had fitted; the newest step is told in few words
    assert "seq 1 3000" in asked[3][-1].text
    assert "left out" in asked[3][-1].text
    assert "compaction" in [branch.cause.cause for branch in trace.branches if branch.cause]


@BOTH
def test_a_context_that_cutting_does_not_mend_is_a_stop(as_program: bool) -> None:
    too_long = ContextLengthError("This model's maximum context length is 10 tokens", status=400)
    model, _ = turns(asks(call("bash", command="ls")), too_long, "A summary of the work.", too_long)
    trace = solve(model, as_program)
    assert trace.end_state == "stopped"
    assert trace.stop_condition == "context_length"
    model, _ = turns(too_long)
    trace = solve(model, as_program)
    assert trace.stop_condition == "context_length"
    assert len(trace.calls) == 1


@BOTH
def test_a_threshold_below_the_opening_is_given_up(as_program: bool) -> None:
    again = asks(call("bash", command="true"), prompt_tokens=90)
    model, _ = turns(again, "a summary of it all", again, again, again, "done")
    trace = solve(model, as_program, compact_at=10)
    assert [bool(made.markers) for made in trace.calls] == [False, True, False, False, False, False]


@BOTH
@pytest.mark.parametrize("where", ["harness", "limits"])
def test_a_model_that_never_ends_is_stopped(as_program: bool, where: str) -> None:
    model = vf.Scripted(lambda messages: asks(call("bash", command="echo on")))
    own = {"max_turns": 3} if where == "harness" else {}
    agent = vf.make_agent(
        BashHarness(BashConfig(as_program=as_program, **own)),
        model=model,
        runtime="subprocess",
        limits={"max_turns": 3} if where == "limits" else None,
    )
    trace = asyncio.run(agent.run(fix_task()))
    assert trace.end_state == "stopped"
    assert trace.stop_condition == "max_turns"
    assert not trace.errors
    assert len(trace.calls) == 3
    assert trace.is_truncated
    assert trace.reward == 0.0


@BOTH
def test_a_second_segment_stays_on_one_line(as_program: bool) -> None:
    model, _ = turns(
        asks(call("bash", command="cat calc.py")),
        "Shall I repair it?",
        asks(call("edit", path="calc.py", old="-", new="+")),
        "Done.",
        "You are welcome.",
    )
    bash = BashHarness(BashConfig(as_program=as_program))

    @vf.harness
    async def talk(session: vf.HarnessSession, task: Any) -> None:
        await bash.run(session, task)
        await bash.resume(session, task, [vf.UserMessage(content="Yes, please.")])
        await bash.resume(session, task, [vf.UserMessage(content="Thanks.")])
        session.trace.info["said"] = [message.role for message in session.conversation]

    agent = vf.make_agent(talk, model=model, runtime="subprocess")
    trace = asyncio.run(agent.run(fix_task()))
    assert not trace.errors, trace.errors
    assert trace.reward == 1.0
    assert len(trace.branches) == 1
    step = ["assistant", "tool", "assistant"]
    roles = ["system", "user", *step, "user", *step, "user", "assistant"]
    assert [message.role for message in trace.messages] == roles
    assert trace.info["said"] == roles
    assert trace.last_reply == "You are welcome."


@BOTH
def test_a_cut_in_a_later_segment_keeps_what_was_asked_in_it(as_program: bool) -> None:
    model, asked = turns(
        "What shall I do?",
        asks(call("bash", command="cat calc.py"), prompt_tokens=900),
        "The user wants calc.py repaired.",
        asks(call("edit", path="calc.py", old="-", new="+"), prompt_tokens=50),
        "Done.",
    )
    bash = BashHarness(BashConfig(as_program=as_program, compact_at=500))

    @vf.harness
    async def talk(session: vf.HarnessSession, task: Any) -> None:
        await bash.run(session, task)
        await bash.resume(session, task, [vf.UserMessage(content="Repair it.")])

    trace = asyncio.run(vf.make_agent(talk, model=model, runtime="subprocess").run(fix_task()))
    assert not trace.errors, trace.errors
    assert trace.reward == 1.0
    assert [m.text for m in asked[3][1:3]] == ["add() in calc.py is wrong. Repair it.", "Repair it."]
    assert "wants calc.py repaired" in asked[3][3].text


class Guarded(FixTask):
    """Nothing may be deleted, and the model reads `minus` for `-`."""

    @vf.intercept
    def no_rm(self, call: vf.ToolCall) -> str | None:
        return "Error: deleting is not allowed" if "rm " in call.arguments else None

    @vf.intercept
    def in_words(self, request: vf.Request) -> vf.Request | None:
        last = request.messages[-1]
        if not isinstance(last, vf.ToolMessage):
            return None
        told = last.model_copy(update={"content": last.text.replace("-", "minus")})
        return request.model_copy(update={"messages": [*request.messages[:-1], told]})


class Worded(FixTask):
    """As Guarded, without the gate."""

    in_words = Guarded.in_words


def test_a_tool_call_can_be_blocked() -> None:
    model, asked = turns(
        asks(call("bash", command="rm calc.py"), call("read", path="calc.py")),
        asks(call("edit", path="calc.py", old="-", new="+")),
        "Done.",
    )
    agent = vf.make_agent(BashHarness(), model=model, runtime="subprocess")
    trace = asyncio.run(agent.run(Guarded(vf.TaskData(prompt="Repair it."))))
    assert not trace.errors, trace.errors
    assert results(asked[1]) == ["Error: deleting is not allowed", "def add(a, b):\n    return a minus b\n"]
    assert trace.reward == 1.0
    assert [rewrite.hook for rewrite in trace.calls[0].rewrites if rewrite.stage == "tool"] == ["no_rm"]
    assert len(trace.branches) == 1
    program = BashHarness(BashConfig(as_program=True))
    agent = vf.make_agent(program, model=model, runtime="subprocess")
    with pytest.raises(ConfigError, match=r"Guarded\.no_rm intercepts tool calls.*as_program=False"):
        agent.check(Guarded(vf.TaskData(prompt="Repair it.")))


@BOTH
def test_rewritten_results_stay_on_one_line_in_later_segments(as_program: bool) -> None:
    model, asked = turns(
        asks(call("bash", command="cat calc.py")), "A minus.", asks(call("bash", command="ls")), "ok"
    )
    bash = BashHarness(BashConfig(as_program=as_program))

    @vf.harness
    async def talk(session: vf.HarnessSession, task: Any) -> None:
        await bash.run(session, task)
        await bash.resume(session, task, [vf.UserMessage(content="Is it?")])

    agent = vf.make_agent(talk, model=model, runtime="subprocess")
    trace = asyncio.run(agent.run(Worded(vf.TaskData(prompt="Repair it."))))
    assert not trace.errors, trace.errors
    assert len(trace.branches) == 1
    assert all("minus" in sent[3].text for sent in asked[1:])


def test_a_runtime_without_programs_is_refused() -> None:
    with pytest.raises(ConfigError, match="runtime='subprocess'"):
        vf.make_agent(BashHarness(), model=vf.Scripted(["x"]), runtime="inprocess")
    assert vf.make_agent(BashHarness(), model=vf.Scripted(["x"])).runtime.type == "subprocess"


def test_resume_needs_a_conversation() -> None:
    @vf.harness
    async def early(session: vf.HarnessSession, task: Any) -> None:
        await BashHarness().resume(session, task, [vf.UserMessage(content="hi")])

    trace = asyncio.run(vf.make_agent(early, model=vf.Scripted(["x"]), runtime="subprocess").run(fix_task()))
    assert "needs a conversation" in trace.errors[0].message


class Hasty(FixTask):
    """Stopped before the third model call."""

    @vf.stop
    def two_turns(self, trace: vf.Trace) -> bool:
        return trace.num_turns >= 2


@BOTH
def test_a_stop_in_the_middle_ends_the_loop_and_is_scored(as_program: bool) -> None:
    model = vf.Scripted(lambda messages: asks(call("bash", command="sed -i 's/-/+/' calc.py")))
    agent = vf.make_agent(BashHarness(BashConfig(as_program=as_program)), model=model, runtime="subprocess")
    trace = asyncio.run(agent.run(Hasty(vf.TaskData(prompt="Repair it."))))
    assert not trace.errors, trace.errors
    assert (trace.end_state, trace.stop_condition) == ("stopped", "two_turns")
    assert len(trace.calls) == 2
    assert trace.reward == 1.0
