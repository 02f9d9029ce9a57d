"""The base of installed agent programs, with a tiny program that is really installed and really run."""

from __future__ import annotations

import asyncio
import base64
from pathlib import Path
from typing import Any

import pytest
from support.addition import add, taskset
from support.scripts import asks, call
from support.tiny_programs import TinyAgent, TinyConfig, wheel
from support.toolbox import PIXEL, DeskTask, desk

import vfnb as vf
from vfnb.errors import ConfigError

pytestmark = pytest.mark.usefixtures("programs")


@pytest.fixture(scope="module")
def package(tmp_path_factory: pytest.TempPathFactory) -> str:
    return wheel(tmp_path_factory.mktemp("wheel"))


class Plain(vf.Task[vf.TaskData]):
    pass


def task(prompt: Any = "Say it.", **data: Any) -> Plain:
    return Plain(vf.TaskData(prompt=prompt, **data))


def solve(package: str, model: Any, what: Any = None, *, limits: Any = None, **settings: Any) -> vf.Trace:
    harness = TinyAgent(TinyConfig(package=package, **settings))
    agent = vf.make_agent(harness, model=vf.Scripted(model), limits=limits)
    return asyncio.run(agent.run(what or task()))


def test_a_task_is_solved_by_the_installed_program(tmp_path: Path) -> None:
    harness = TinyAgent(TinyConfig(package=wheel(tmp_path)))
    run = vf.evaluate(
        taskset(3), model=vf.Scripted(add), harness=harness, rollouts=2, dir=tmp_path / "run"
    ).wait()
    assert list(run.rewards.reward) == [1.0] * 6
    trace = run.traces[0]
    assert trace.end_state == "completed" and trace.answer == trace.last_reply == "0"
    assert trace.info["program"] == {
        "name": "tiny-agent",
        "version": "1.2.0",
        "printed": "tiny-agent 1.2.0 (test)",
    }
    logs = [path.read_text() for path in (run.dir / "logs").glob("*.log")]
    assert len(logs) == 6 and all("tiny-agent 1.2.0: installed in" in log for log in logs)


def test_the_box_is_its_own_and_the_program_is_first_on_its_path(
    package: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", "http://127.0.0.1:9/")
    monkeypatch.setenv("NO_PROXY", "example.org,localhost")
    monkeypatch.setenv("PYTHONPATH", "/nowhere")
    monkeypatch.setenv("SOME_API_KEY", "secret")
    variables = "[os.environ.get(name) for name in 'HOME PATH NO_PROXY PYTHONPATH SOME_API_KEY MINE'.split()]"
    facts = variables + " + [os.getcwd(), sys.prefix, open('notes.txt').read()]"
    trace = solve(package, ["fine"], args=["--tell", facts], env={"MINE": "x"})
    assert trace.answer is not None
    home, path, direct, pythonpath, key, mine, cwd, prefix, notes = eval(trace.answer)
    assert Path(cwd).parent == Path(home).parent != Path.home()
    first = Path(path.split(":")[0])
    assert (first.parent / "env").samefile(prefix) and first.name == "bin"
    assert direct == "example.org,127.0.0.1,localhost,::1"
    assert (pythonpath, key, notes, mine) == ("", None, "hello", "x")


def test_system_prompts_of_harness_and_task_are_joined(package: str) -> None:
    trace = solve(package, ["ok"], task(system_prompt="Be kind."), system_prompt="Be brief.")
    assert [(entry.role, entry.text) for entry in trace.messages] == [
        ("system", "Be brief.\n\nBe kind."),
        ("user", "Say it."),
        ("assistant", "ok"),
    ]


def test_a_program_without_a_system_prompt_gets_it_in_front(package: str) -> None:
    class Modest(TinyAgent):
        SYSTEM_PROMPT = False

    agent = vf.make_agent(Modest(TinyConfig(package=package)), model=vf.Scripted(["ok"]))
    trace = asyncio.run(agent.run(task(system_prompt="Be kind.")))
    assert [entry.text for entry in trace.messages] == ["Be kind.\n\nSay it.", "ok"]


def test_a_long_prompt_goes_through_standard_input_or_is_refused_with_words(package: str) -> None:
    long = task("word " * 40_000)
    trace = solve(package, ["ok"], long, pipe=True)
    assert trace.messages[0].text == long.data.prompt_text and trace.answer == "ok"
    trace = solve(package, ["ok"], long)
    assert trace.errors[0].type == "HarnessError" and "200000 bytes" in trace.errors[0].message


def test_images_are_handed_over_as_files(package: str) -> None:
    def picture(url: str) -> list[Any]:
        parts = [
            vf.TextContentPart(text="What is this?"),
            vf.ImageUrlContentPart(image_url=vf.ImageUrlSource(url=url)),
        ]
        return [vf.UserMessage(content=parts)]

    trace = solve(package, ["a dot"], task(picture(f"data:image/png;base64,{PIXEL}")))
    assert trace.messages[0].text == f"What is this? [{len(base64.b64decode(PIXEL))}]"
    agent = vf.make_agent(TinyAgent(TinyConfig(package=package)), model=vf.Scripted(["x"]))
    with pytest.raises(ConfigError, match="give it as a data: URL"):
        asyncio.run(agent.run(task(picture("https://example.org/x.png"))))

    class Blind(TinyAgent):
        IMAGES = False

    agent = vf.make_agent(Blind(TinyConfig(package=package)), model=vf.Scripted(["x"]))
    with pytest.raises(ConfigError, match="parts of type image_url"):
        asyncio.run(agent.run(task(picture(f"data:image/png;base64,{PIXEL}"))))


def test_skills_are_put_where_the_program_reads_them(package: str, tmp_path: Path) -> None:
    skill = tmp_path / "counting"
    (skill / "scripts").mkdir(parents=True)
    (skill / "SKILL.md").write_text("Count.")
    (skill / "scripts" / "one.py").write_text("#!/bin/sh\n")
    found = "for p in sorted((Path.home() / '.tiny/skills').rglob('*.*'))"
    facts = f"[(str(p.relative_to(Path.home())), os.access(p, os.X_OK)) {found}]"
    trace = solve(package, ["ok"], skills=[str(skill)], args=["--tell", facts])
    assert trace.answer is not None
    assert eval(trace.answer) == [
        (".tiny/skills/counting/SKILL.md", False),
        (".tiny/skills/counting/scripts/one.py", True),
    ]
    before = TinyAgent(TinyConfig(package=package, skills=[str(skill)])).identity()
    (skill / "SKILL.md").write_text("Count twice.")
    assert TinyAgent(TinyConfig(package=package, skills=[str(skill)])).identity() != before


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"skills": ["/nowhere"]}, "'/nowhere' is no folder"),
        ({"skills": ["/"]}, "'/' has no SKILL.md"),
        ({"disabled_tools": ["bash"]}, "cannot switch its own tools off"),
        ({"env": {"API_TOKEN": "sk-1234567890abcdef"}}, r"pass_env=\['API_TOKEN'\]"),
        ({"dialect": "messages"}, "does not speak the dialect 'messages'; harness.dialect is one of chat"),
    ],
)
def test_settings_that_cannot_be_honoured_are_refused_before_anything_runs(
    settings: dict[str, Any], words: str
) -> None:
    with pytest.raises(ConfigError, match=words):
        vf.make_agent(TinyAgent(TinyConfig(**settings)), model=vf.Scripted(["x"]))


@pytest.mark.parametrize(
    ("broken", "words"),
    [
        (lambda: 1 / 0, "recipe\\(\\) raised ZeroDivisionError"),
        (lambda: "pkg", "recipe\\(\\) gave str; return"),
    ],
)
def test_a_recipe_that_is_none_is_refused_before_anything_runs(broken: Any, words: str) -> None:
    class Broken(TinyAgent):
        def recipe(self) -> Any:
            return broken()

    with pytest.raises(ConfigError, match=f"harness 'tiny': {words}"):
        vf.make_agent(Broken(TinyConfig()), model=vf.Scripted(["x"]))


def test_what_a_program_needs_of_the_machine_is_looked_for(package: str) -> None:
    class Needy(TinyAgent):
        NEEDS = ("sh", "no-such-program")

    with pytest.raises(ConfigError, match="needs no-such-program on this machine's PATH"):
        vf.make_agent(Needy(TinyConfig(package=package)), model=vf.Scripted(["x"]))


def test_max_turns_is_kept_by_the_server(package: str) -> None:
    trace = solve(package, ["again"] * 9, max_turns=3)
    assert (trace.stop_condition, trace.end_state, len(trace.calls)) == ("max_turns", "stopped", 3)
    trace = solve(package, ["again"] * 9, max_turns=3, limits={"max_turns": 2})
    assert (trace.stop_condition, len(trace.calls)) == ("max_turns", 2)
    trace = solve(package, ["again", "done"], max_turns=2)
    assert (trace.stop_condition, trace.answer) == (None, "done")


def test_a_program_that_says_that_it_failed_is_believed(package: str) -> None:
    trace = solve(package, ["fail"])
    assert trace.end_state == "error" and trace.reward is None
    assert "harness 'tiny' failed: the answer was to fail" in trace.errors[0].message


def test_a_program_that_fails_is_an_error_with_its_output(package: str) -> None:
    trace = solve(package, ["ok"], args=["--tell", "1/0"])
    assert trace.errors[0].type == "HarnessExit" and "ZeroDivisionError" in trace.errors[0].message


def test_an_installation_that_fails_fails_all_rollouts_at_once(tmp_path: Path) -> None:
    (tmp_path / "tiny_agent-1.2.0-py3-none-any.whl").write_bytes(b"no wheel")
    harness = TinyAgent(TinyConfig(package=str(tmp_path / "tiny_agent-1.2.0-py3-none-any.whl")))
    run = vf.evaluate(
        taskset(12), model=vf.Scripted(add), harness=harness, concurrency=4, dir=tmp_path / "run"
    )
    run.wait()
    assert set(run.rewards.error) == {"InstallError"}
    assert not run.frame("calls").shape[0]


def test_a_conversation_goes_on_with_resume(package: str) -> None:
    seen: list[list[str]] = []

    def model(messages: vf.Messages) -> str:
        seen.append([entry.text for entry in messages])
        return f"reply {len(seen)}"

    class Twice(TinyAgent):
        async def run(self, session: Any, task: Any) -> Any:
            await super().run(session, task)
            assert [entry.text for entry in session.conversation] == ["Say it.", "reply 1"]
            return await self.resume(session, task, [vf.UserMessage(content="And now?")])

    agent = vf.make_agent(Twice(TinyConfig(package=package)), model=vf.Scripted(model))
    trace = asyncio.run(agent.run(task()))
    assert seen == [["Say it."], ["Say it.", "reply 1", "And now?"]]
    assert len(trace.branches) == 1 and trace.answer == "reply 2"


@pytest.mark.parametrize("runtime", ["inprocess", "subprocess"])
def test_a_program_that_a_function_calls_says_that_it_was_not_set_up(package: str, runtime: str) -> None:
    @vf.harness
    async def user(session: Any, task: Any) -> Any:
        return await TinyAgent(TinyConfig(package=package)).run(session, task)

    agent = vf.make_agent(user, model=vf.Scripted(["ok"]), runtime=runtime)
    (error,) = asyncio.run(agent.run(task())).errors
    assert error.type == "HarnessError" and "was not set up for this rollout" in error.message


def test_names_on_the_wire_lead_back_to_the_tasks_tools(package: str) -> None:
    class Armed(TinyAgent):
        SUPPORTS_MCP = True

    agent = vf.make_agent(Armed(TinyConfig(package=package)), model=vf.Scripted(["ok"]))
    trace = asyncio.run(agent.run(desk()))
    assert trace.info["program"]["tools"]["mcp__desk__add"] == "desk_add"
    assert trace.tool_name("mcp__plain__wait") == "wait" and trace.tool_name("bash") == "bash"
    apart = vf.ToolCall(id="c1", name="add", arguments="{}", namespace="mcp__desk")
    assert trace.tool_name(apart) == "desk_add" and trace.tool_name("add") == "add"
    assert vf.Trace.model_validate_json(trace.model_dump_json()).tool_name("mcp__desk__add") == "desk_add"


def test_the_version_counts_for_reuse_whoever_names_it(package: str) -> None:
    pinned = TinyAgent(TinyConfig(package=package)).identity()
    assert pinned["version"] == "1.2.0"
    assert TinyAgent(TinyConfig(package=package, version="1.3.0")).identity()["version"] == "1.3.0"


def test_a_stop_can_go_by_the_tasks_own_names(package: str) -> None:
    class Watched(DeskTask):
        @vf.stop
        def asked(self, response: vf.Response, trace: vf.Trace) -> bool:
            return any(trace.tool_name(call) == "desk_add" for call in response.message.tool_calls)

    class Armed(TinyAgent):
        SUPPORTS_MCP = True

    model = vf.Scripted([asks(call("mcp__desk__add", a=1, b=2))])
    agent = vf.make_agent(Armed(TinyConfig(package=package)), model=model)
    trace = asyncio.run(agent.run(Watched(vf.TaskData(prompt="Add."), desk().config)))
    assert trace.stop_condition == "asked"
