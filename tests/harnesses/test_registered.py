"""Every harness of this package: it loads under its name, and a program keeps the contract of its base."""

from __future__ import annotations

import asyncio
import tomllib
from pathlib import Path
from typing import Any

import pytest
from support.tiny_programs import TinyAgent
from vfnb_harnesses.agent_program import AgentProgram, Command
from vfnb_harnesses.prompting import Prompt

import vfnb as vf
from vfnb.agents import HarnessSession
from vfnb.dialects import get
from vfnb.errors import ConfigError
from vfnb.installs import Installed
from vfnb.interception import Endpoint, Session
from vfnb.runtimes import SubprocessConfig, make_runtime
from vfnb.types import SamplingConfig
from vfnb.utils.imports import import_object

PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
POINTS: dict[str, str] = tomllib.loads(PYPROJECT.read_text())["project"]["entry-points"]["vfnb.harnesses"]
FOUND = {name: import_object(where) for name, where in POINTS.items()}
PROGRAMS = {name: kind for name, kind in FOUND.items() if issubclass(kind, AgentProgram)} | {
    "tiny": TinyAgent
}

OWN_TOOL = {"codex": "web_search"}  # of programs that have no general switch for their tools

every_program = pytest.mark.parametrize("name", sorted(PROGRAMS))


@pytest.mark.parametrize("name", sorted(FOUND))
def test_every_harness_loads_under_its_name(name: str) -> None:
    kind = FOUND[name]
    assert issubclass(kind, vf.Harness) and name == kind.NAME
    assert kind.__doc__ and kind.config_type().__doc__
    assert all(field.description for field in kind.config_type().model_fields.values())


@every_program
def test_a_program_says_what_it_is(name: str) -> None:
    kind = PROGRAMS[name]
    assert kind.VERSION and kind().recipe().version == kind.VERSION
    assert kind(kind.config_type()(version="0.0.7")).recipe().version == "0.0.7"
    assert kind.DIALECTS and all(get(dialect) for dialect in kind.DIALECTS)
    assert kind().wire_name("desk", "add") != kind().wire_name("desk", "sub")
    assert isinstance(kind().identity()["code"], str)
    assert set(kind.described()) <= {*vf.harnesses().columns}
    text, more = kind.REWRITES, (kind.MAX_TURNS, kind.RUNTIMES)
    assert "\n" not in text and more[0] in ("program", "server") and "subprocess" in more[1]


def commands(
    kind: type[AgentProgram[Any]], *, resume: bool, **settings: Any
) -> tuple[Command, HarnessSession]:
    """What a program would be started with. Nothing is started and nothing installed."""

    async def main() -> tuple[Command, HarnessSession]:
        box = make_runtime("subprocess")
        await box.start()
        try:
            session = HarnessSession(
                Session(vf.Trace(), vf.Scripted(["x"])),
                box,
                model="the-model",
                sampling=SamplingConfig(),
                connect=lambda: Endpoint("http://127.0.0.1:1", 1),
            )
            session.memory["session_id"] = "5e551001-0000-4000-8000-000000000000"
            place = Path("/nowhere")
            session.memory["installed"] = Installed("x", "1", "1", place, (place / "bin",), place / "python")
            prompt = Prompt("The prompt.", "The system text." if kind.SYSTEM_PROMPT else "")
            harness = kind(kind.config_type()(**settings))
            return harness.command(session, _task(), prompt, resume=resume), session
        finally:
            await box.stop()

    return asyncio.run(main())


def _task() -> vf.Task[Any, Any, Any]:
    class Asked(vf.Task[vf.TaskData]):
        pass

    return Asked(vf.TaskData(prompt="The prompt."))


def told(command: Command) -> str:
    """All that the program is given, as one text."""
    files = [
        data if isinstance(data, str) else data.decode("utf-8", "replace") for data in command.files.values()
    ]
    piped = command.stdin or ""
    parts = [
        *command.argv,
        *command.env.values(),
        *files,
        piped if isinstance(piped, str) else piped.decode(),
    ]
    return "\n".join(parts)


@every_program
def test_a_program_gets_prompt_endpoint_key_model_and_what_the_config_adds(name: str) -> None:
    kind = PROGRAMS[name]
    for dialect in kind.DIALECTS:
        command, session = commands(kind, resume=False, dialect=dialect, args=["--own-word"])
        text = told(command)
        for part in ("The prompt.", "http://127.0.0.1:1", session.api_key, "the-model"):
            assert part in text, (dialect, part)
        assert "--own-word" in command.argv
        assert ("The system text." in text) is kind.SYSTEM_PROMPT
        assert all(isinstance(word, str) for word in [*command.argv, *command.env.values()])


@every_program
def test_a_program_that_goes_on_is_told_with_which_conversation(name: str) -> None:
    kind = PROGRAMS[name]
    if not kind.SUPPORTS_RESUME:
        pytest.skip("it does not go on")
    first, second = (told(commands(kind, resume=resume)[0]) for resume in (False, True))
    assert "The prompt." in second and first != second


@every_program
def test_settings_that_a_program_claims_to_honour_change_its_command(name: str, tmp_path: Path) -> None:
    kind = PROGRAMS[name]
    (tmp_path / "counting").mkdir()
    (tmp_path / "counting" / "SKILL.md").write_text("---\nname: counting\ndescription: Count.\n---\n")
    plain = told(commands(kind, resume=False)[0])
    claims: dict[str, tuple[bool, dict[str, Any]]] = {
        "skills": (kind.SKILLS, {"skills": [str(tmp_path / "counting")]}),
        "disabled tools": (
            kind.DISABLE_TOOLS,
            {"disabled_tools": [OWN_TOOL.get(name) or min(kind.OWN_TOOLS, default="a_tool")]},
        ),
        "max turns": (kind.MAX_TURNS == "program", {"max_turns": 7}),
    }
    for what, (claimed, settings) in claims.items():
        if claimed:
            assert told(commands(kind, resume=False, **settings)[0]) != plain, what


@every_program
def test_a_misspelt_tool_to_disable_is_refused(name: str) -> None:
    kind = PROGRAMS[name]
    if not kind.OWN_TOOLS:
        pytest.skip("its tools are not listed, or it has a check of its own")
    config = kind.config_type()
    misspelt = f"{min(kind.OWN_TOOLS)}s"
    with pytest.raises(ConfigError, match=f"has no tool '{misspelt}'; did you mean"):
        kind(config(disabled_tools=[misspelt])).check(SubprocessConfig())
    kind(config(disabled_tools=sorted(kind.OWN_TOOLS))).check(SubprocessConfig())
    kind(config(version="0.0.1", disabled_tools=["of_that_version"])).check(SubprocessConfig())
