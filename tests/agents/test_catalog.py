"""`vf.harnesses()`: a row for each registered harness, whatever a plug-in does."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pandas as pd
import pytest
from support.packages import installed
from support.tiny_programs import TinyAgent

import vfnb as vf

POINTS = """
[vfnb.harnesses]
aa_class = catalog_module:Mine
aa_function = catalog_module:twice
aa_object = catalog_module:ready
aa_program = catalog_module:Program
zz_broken = catalog_broken:Anything
zz_exit = catalog_exit:Anything
zz_missing = catalog_module:nothing
zz_strange = catalog_module:number
"""

MODULE = """
import vfnb as vf
from support.tiny_programs import TinyAgent
from vfnb_harnesses.agent_program import AgentProgram

class Mine(vf.Harness):
    SUPPORTS_RESUME = True
    RUNTIMES = ("subprocess", "docker")
    async def run(self, session, task): ...

async def twice(session, task): ...

ready = vf.harness(twice)
number = 7

class Program(AgentProgram):
    VERSION = "9.9.9"
    TOOL_NAME = "{server}_{tool}"
    SUPPORTS_MCP = True
    REWRITES = "drops reasoning"
    DIALECTS = ("messages", "chat")

    def recipe(self):
        from vfnb.installs import PyPI
        return PyPI(("made-up==9.9.9",), self.version)

    def command(self, session, task, prompt, *, resume): ...
"""


def test_all_harnesses_are_listed_with_what_they_can_do(tmp_path: Path) -> None:
    with installed(
        tmp_path,
        entry_points=POINTS,
        catalog_module=MODULE,
        catalog_broken="raise SystemError('no disk')",
        catalog_exit="raise SystemExit(3)",
    ):
        frame = vf.harnesses().set_index("name")
    assert frame.index.is_monotonic_increasing
    assert frame.loc["null", ["kind", "tools", "resume", "runtimes", "dialects"]].tolist() == [
        *("loop", True, True, "any", "chat")
    ]
    assert frame.loc["program", "kind"] == "command"
    assert frame.loc["aa_class", ["kind", "resume", "runtimes"]].tolist() == [
        "loop",
        True,
        "subprocess, docker",
    ]
    assert frame.loc[["aa_function", "aa_object"], "kind"].tolist() == ["function"] * 2
    row = frame.loc["aa_program"]
    assert (row.kind, row.version, row.installed, row.tool_name) == (
        "program",
        "9.9.9",
        None,
        "{server}_{tool}",
    )
    assert (row.dialects, row.rewrites, row.max_turns) == ("messages, chat", "drops reasoning", "server")
    assert row["where"] == "catalog_module:Program" and pd.isna(row.error)
    assert frame.loc["zz_broken", "error"] == "SystemError: no disk"
    assert frame.loc["zz_exit", "error"] == "SystemExit: 3"
    assert "has no attribute 'nothing'" in frame.loc["zz_missing", "error"]
    assert "7 is neither a Harness nor a function" in frame.loc["zz_strange", "error"]


@pytest.mark.usefixtures("programs")
def test_what_is_installed_is_said() -> None:
    assert TinyAgent.described()["installed"] is None


def test_listing_loads_nothing_heavy() -> None:
    code = (
        "import sys; from vfnb.agents.catalog import catalog; catalog(); "
        "heavy = {'pandas', 'openai', 'anthropic', 'mcp', 'plotly'} & set(sys.modules); assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
