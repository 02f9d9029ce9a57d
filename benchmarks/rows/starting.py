"""Rows 1 and 2: how long a person waits for an import and for the command line."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.measure import Figures, Metric, Row, Sides
from benchmarks.peer import setup
from benchmarks.processes import ROOT, json_program, spend

__all__ = ["ROWS"]

HEAVY = (
    "pandas plotly networkx ipywidgets numpy aiohttp httpx msgspec sqlite3 rich transformers vllm docker mcp openai"
    " anthropic"
)
PROGRAM = f"""
import json, sys, time
start = time.process_time()
{{statement}}
spent = time.process_time() - start
peak = next(int(line.split()[1]) for line in open("/proc/self/status") if line.startswith("VmHWM"))
heavy = [name for name in "{HEAVY}".split() if name in sys.modules]
print(json.dumps({{{{"cpu_s": spent, "mb": peak / 1024, "modules": len(sys.modules), "heavy": len(heavy)}}}}))
"""
NAMES = "vf.Taskset, vf.Task, vf.TaskData, vf.reward, vf.evaluate, vf.Scripted, vf.Trace"


def importing(python: Path | str, statement: str) -> Figures:
    return json_program([python, "-c", PROGRAM.format(statement=statement)])


@contextmanager
def open_imports(peer: bool) -> Iterator[Sides]:
    def ours() -> Figures:
        bare = importing(sys.executable, "import vfnb as vf")
        used = importing(sys.executable, f"import vfnb as vf; {NAMES}")
        return bare | {f"used_{key}": value for key, value in used.items()}

    def peers() -> Figures:
        figures = importing(setup.PYTHON, "import verifiers.v1 as vf")
        return figures | {f"used_{key}": value for key, value in figures.items()}

    sides: Sides = {
        "floor": lambda: importing(sys.executable, "import pydantic; pydantic.BaseModel"),
        "ours": ours,
    }
    yield sides | {"peer": peers} if peer else sides


@contextmanager
def open_commands(peer: bool) -> Iterator[Sides]:
    def ours() -> Figures:
        command = [Path(sys.executable).with_name("vfnb")]
        return {
            "help_s": seconds([*command, "--help"]),
            "dry_s": seconds([*command, "eval", "addition", "--model", "mock", "--dry-run"]),
        }

    def peers() -> Figures:
        command = [setup.PYTHON.with_name("vf-eval")]
        run = ["addition_bench", "--env.agent.harness.id", "null", "--env.agent.runtime.type", "subprocess"]
        run += [
            "-m",
            "mock",
            "-n",
            "1",
            "--no-push",
            "--no-rich",
            "--dry-run",
            "-o",
            str(setup.FOLDER / "dry"),
        ]
        return {"help_s": seconds([*command, "--help"]), "dry_s": seconds([*command, *run])}

    def floor() -> Figures:
        spent = seconds([sys.executable, "-c", "import pydantic; pydantic.BaseModel"])
        return {"help_s": spent, "dry_s": spent}

    sides: Sides = {"floor": floor, "ours": ours}
    yield sides | {"peer": peers} if peer else sides


def seconds(command: list[object]) -> float:
    """CPU seconds of a command that must succeed."""
    extra = {"PYTHONPATH": f"{ROOT}:{ROOT / 'benchmarks' / 'peer' / 'plugins'}"}
    used = spend(command, extra)
    if used.status != 0:
        raise RuntimeError(f"{command} ended with status {used.status}")
    return used.cpu_s


ROWS = [
    Row(
        "1",
        "import, fresh interpreter",
        [
            Metric("cpu_s", "import", "s", 0.35),
            Metric("mb", "import, memory", "MB", 45),
            Metric("modules", "import, modules", ""),
            Metric("heavy", "import, heavy modules", "", 0),
            Metric("used_cpu_s", "import, and a taskset's names", "s"),
            Metric("used_mb", "the same, memory", "MB"),
        ],
        open_imports,
        runs=5,
    ),
    Row(
        "2",
        "command line",
        [Metric("help_s", "--help", "s", 0.6), Metric("dry_s", "eval --dry-run", "s", 0.6)],
        open_commands,
    ),
]
