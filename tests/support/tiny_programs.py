"""Packages of tiny programs, made on the spot: a wheel and an npm tarball, and the harness of the first."""

from __future__ import annotations

import io
import json
import tarfile
import zipfile
from pathlib import Path
from typing import Any

from vfnb_harnesses.agent_program import AgentProgram, AgentProgramConfig, Command, Reading

from support import tiny_agent
from vfnb.installs import PyPI, Recipe
from vfnb.runtimes import ProgramResult

__all__ = ["TinyAgent", "TinyConfig", "npm_package", "wheel"]


def wheel(folder: Path, version: str = "1.2.0", *, script: str = "tiny-agent") -> str:
    """A wheel of the tiny agent; its absolute path."""
    info = f"tiny_agent-{version}.dist-info"
    files = {
        "tiny_agent.py": Path(tiny_agent.__file__).read_text().replace('"1.2.0"', f'"{version}"'),
        f"{info}/METADATA": f"Metadata-Version: 2.1\nName: tiny-agent\nVersion: {version}\n",
        f"{info}/WHEEL": "Wheel-Version: 1.0\nGenerator: tests\nRoot-Is-Purelib: true\nTag: py3-none-any\n",
        f"{info}/entry_points.txt": f"[console_scripts]\n{script} = tiny_agent:main\n",
    }
    files[f"{info}/RECORD"] = "".join(f"{name},,\n" for name in [*files, f"{info}/RECORD"])
    path = folder.absolute() / f"tiny_agent-{version}-py3-none-any.whl"
    if path.exists():
        return str(path)
    with zipfile.ZipFile(path, "w") as packed:
        for name, text in files.items():
            packed.writestr(name, text)
    return str(path)


def npm_package(folder: Path, version: str = "3.1.4", *, scripts: dict[str, str] | None = None) -> str:
    """A tarball of an npm package with a program `tiny-node`; its absolute path."""
    package = {
        "name": "tiny-node",
        "version": version,
        "bin": {"tiny-node": "main.js"},
        "scripts": scripts or {},
    }
    program = f"""#!/usr/bin/env node
const made = require('fs').existsSync(__dirname + '/made');
console.log(`tiny-node/{version} on ${{process.version}}`, made);
"""
    path = folder.absolute() / f"tiny-node-{version}.tgz"
    made = "require('fs').writeFileSync(__dirname + '/made', process.argv[2] || '')\n"
    with tarfile.open(path, "w:gz") as packed:
        for name, text in {"package.json": json.dumps(package), "main.js": program, "made.js": made}.items():
            entry = tarfile.TarInfo(f"package/{name}")
            entry.size, entry.mode = len(text.encode()), 0o755
            packed.addfile(entry, io.BytesIO(text.encode()))
    return str(path)


class TinyConfig(AgentProgramConfig):
    """Settings of the tiny agent."""

    package: str = ""
    """Absolute path of its wheel."""
    pipe: bool = False
    """Hand the prompt over on standard input."""


class TinyAgent(AgentProgram[TinyConfig]):
    """The tiny agent as a harness."""

    NAME = "tiny"
    VERSION = "1.2.0"
    SYSTEM_PROMPT = True
    IMAGES = True
    SKILLS = True
    SUPPORTS_RESUME = True

    def recipe(self) -> Recipe:
        return PyPI((self.config.package,), self.version, program="tiny-agent", check=("--version",))

    def command(self, session: Any, task: Any, prompt: Any, *, resume: bool) -> Command:
        going_on = ["--resume", session.memory["session_id"]] if resume else []
        images = [word for image in prompt.images for word in ("--image", image)]
        text = "-" if self.config.pipe else prompt.text
        return Command(
            ["tiny-agent", *going_on, *images, "--system", prompt.system, *self.config.args, text],
            env={"TINY_URL": session.base_url, "TINY_KEY": session.api_key, "TINY_MODEL": session.model},
            files={"notes.txt": "hello", **self.skill_files("~/.tiny/skills")},
            stdin=prompt.text if self.config.pipe else None,
        )

    async def read(self, session: Any, result: ProgramResult) -> Reading:
        if not result.stdout.startswith("{"):
            return Reading()
        said = json.loads(result.stdout)
        return Reading(
            answer=said["answer"],
            failure="the answer was to fail" if said["error"] else None,
            session_id=said["session"],
        )
