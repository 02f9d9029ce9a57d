"""What prime-rl needs to know of a run's tasks: configuration, and a package that lists them.

Its orchestrator loads the tasks itself, by an importable taskset of verifiers whose tasks have the keys and
hashes of the episodes; rollouts come from the server whose address the configuration names.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING

from vfnb.exchange.options import ExportOptions
from vfnb.exchange.records import task_record
from vfnb.utils.plain import encode_json

if TYPE_CHECKING:
    from vfnb.trace import Trace

__all__ = ["package_name", "write_live"]

_MODULE = '''"""The tasks of environment {env}, for prime-rl: data only, nothing is scored here."""

import json
from pathlib import Path

import verifiers.v1 as vf

__all__ = ["RunTaskset"]

ROWS = [json.loads(line) for line in Path(__file__).with_name("tasks.jsonl").read_text("utf-8").splitlines()]
KEYS = {{row["hash"]: row["key"] for row in ROWS}}


class RunTask(vf.Task[vf.WireTaskData, vf.State]):
    @property
    def key(self) -> str:
        return KEYS.get(self.hash, self.hash)


class RunTaskset(vf.Taskset[RunTask, vf.TasksetConfig]):
    def load(self) -> list[RunTask]:
        return [RunTask(vf.WireTaskData(**row["data"]), self.config.task) for row in ROWS]
'''

_ORCHESTRATOR = """# The part of prime-rl's configuration (0.8.0) that is about this environment. Put the folder
# of this file on PYTHONPATH, so that {package} can be imported, and a server that speaks
# prime-rl's protocol at the address.
[[orchestrator.train.source]]
name = {env}
serve = {{ address = "tcp://127.0.0.1:5000" }}

[orchestrator.train.source.env.taskset]
id = {id}

[orchestrator.train.source.env.agent.harness]
id = "null"
"""

_TRAINER = """# The part of the trainer's configuration that is about these micro-batches: it reads them
# from files. Start it alone, with its model, optimiser and {ranks} data-parallel ranks.
# The launchers of whole jobs delete the files at their start.
output_dir = {run}

[rollout_transport]
type = "filesystem"

[weight_broadcast]
type = "filesystem"
"""


def package_name(env: str) -> str:
    """An importable name for an environment's tasks."""
    return "vfnb_tasks_" + (re.sub(r"\W+", "_", env.lower(), flags=re.ASCII).strip("_") or "run")


def write_live(traces: Iterable[Trace], folder: Path, options: ExportOptions) -> None:
    """Write `prime_rl.toml`, `trainer.toml` and the package into a new folder."""
    package = package_name(options.env)
    (folder / package).mkdir(parents=True)
    rows: dict[str, bytes] = {}
    for trace in traces:
        record = task_record(trace)
        rows.setdefault(record["key"], encode_json({name: record[name] for name in ("key", "hash", "data")}))
    (folder / package / "tasks.jsonl").write_bytes(b"".join(row + b"\n" for row in rows.values()))
    (folder / package / "__init__.py").write_text(_MODULE.format(env=ascii(options.env)), encoding="utf-8")
    texts = {
        "prime_rl.toml": _ORCHESTRATOR.format(
            package=package, env=_quoted(options.env), id=_quoted(package.replace("_", "-"))
        ),
        "trainer.toml": _TRAINER.format(ranks=options.ranks, run=_quoted("run")),
    }
    for name, text in texts.items():
        (folder / name).write_text(text, encoding="utf-8")


def _quoted(text: str) -> str:
    """A TOML string."""
    import tomli_w

    return tomli_w.dumps({"x": text}).removeprefix("x = ").strip()
