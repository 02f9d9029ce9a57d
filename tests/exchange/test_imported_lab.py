"""Runs of other programs in the whole lab: verifiers, Inspect, and trials of Harbor with ATIF trajectories."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest
from support.html_rules import check_bundle

import vfnb as vf
from vfnb.errors import ExportRefused

pytest.importorskip("pyarrow", reason="an environment from before the export extra: run make env")

DATA = Path(__file__).parent / "data"
LEVELS = ("runs", "episodes", "traces", "branches", "messages", "calls", "tokens", "errors", "judges")
STEPS: list[dict[str, Any]] = [
    {"source": "user", "message": "List the files."},
    {
        "source": "agent",
        "message": "",
        "tool_calls": [{"tool_call_id": "c1", "function_name": "bash", "arguments": {"cmd": "ls"}}],
        "observation": {"results": [{"source_call_id": "c1", "content": "a.txt"}]},
        "metrics": {"prompt_tokens": 20, "completion_tokens": 5, "cost_usd": 0.01},
    },
    {"source": "agent", "message": "One file."},
]


def verifiers(folder: Path) -> Path:
    return DATA / "verifiers-0.4.0"


def inspect(folder: Path) -> Path:
    return DATA / "inspect-0.3.285.eval"


def harbor(folder: Path) -> Path:
    job = folder / "job"
    job.mkdir()
    (job / "result.json").write_text(json.dumps({"id": "j", "n_total_trials": 4, "stats": {}}))
    for number in range(4):
        place = job / f"trial-{number}"
        (place / "agent").mkdir(parents=True)
        record = {
            "id": f"id-{number}",
            "task_name": f"org/task-{number // 2}",
            "trial_name": place.name,
            "task_checksum": "abc",
            "source": "hello",
            "agent_info": {"name": "shell", "version": "1", "model_info": {"name": "m"}},
            "verifier_result": {"rewards": {"reward": number % 2, "style": 0.5}},
            "started_at": "2026-05-01T10:00:00Z",
            "finished_at": "2026-05-01T10:01:00Z",
            "agent_execution": {
                "started_at": "2026-05-01T10:00:10Z",
                "finished_at": "2026-05-01T10:00:40Z",
            },
        }
        (place / "result.json").write_text(json.dumps(record))
        steps = [{"step_id": at, **step} for at, step in enumerate(STEPS[: 3 - number // 3], 1)]
        agent = {"name": "shell", "version": "1", "model_name": "m"}
        document = {"schema_version": "ATIF-v1.6", "session_id": f"s{number}", "agent": agent, "steps": steps}
        (place / "agent" / "trajectory.json").write_text(json.dumps(document))
    return job


@pytest.fixture(params=[verifiers, inspect, harbor], ids=lambda one: one.__name__)
def run(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> vf.Run:
    monkeypatch.setenv("VFNB_CACHE", str(tmp_path / "cache"))
    return vf.load(request.param(tmp_path))


def length(trace: vf.Trace) -> float:
    return float(len(trace.last_reply))


def bundle(shown: Any) -> None:
    """Its html and text keep the rules."""
    data = shown._repr_mimebundle_()
    check_bundle(data[0] if isinstance(data, tuple) else data)


def test_tables_graphs_and_figures(run: vf.Run) -> None:
    for level in LEVELS:
        table = run.frame(level)
        assert len(table.columns) > 5
    assert len(run.frame("messages")) == sum(len(trace.nodes) for trace in run.traces)
    assert run.graph().number_of_nodes() > 1
    for kind in ("rewards", "tasks", "pass_at_k", "against", "time", "learning", "graph"):
        assert run.plot(kind).text
    for trace in run.traces:
        bundle(trace)
        assert trace.plot().text
    bundle(run.summary)


def test_views(run: vf.Run) -> None:
    trace = next(trace for trace in run.traces if len(trace.nodes) > 2)
    for view in (trace.view(), run.view(), run.reward_lab(), vf.diff(*run.traces[:2]).view()):
        bundle(view)
    view = trace.view()
    key = f"{trace.id}:message:1"
    view.wanted = {"keys": [key]}
    assert "error" not in view.detail[key]


def test_scores_labels_and_comparisons(run: vf.Run, tmp_path: Path) -> None:
    before = run.rewards
    made = run.rescore([length], label="long")
    assert made.scored > 0
    assert run.rewards["length"].notna().sum() == made.scored
    bundle(made)
    assert run.use(made.base).rewards.equals(before)
    again = run.rescore(weights={"length": 0.5})
    assert again.version == made.version + 1
    lab = run.reward_lab()
    lab.weights = {"length": 0.1}
    assert "length" in lab.code
    for number, trace in enumerate(run.traces):
        trace.label("good", number % 2 == 0)
        trace.note("seen")
    assert len(run.labels()) == len(run.traces)
    bundle(run.calibrate("length", "good", threshold=3.0))
    bundle(vf.diff(run.use(made.base), run))
    other = Path(shutil.copytree(run.dir, tmp_path / "again" / "copy"))
    bundle(vf.diff(run, vf.load(other)))
    assert len(vf.runs(tmp_path / "again")) == 1  # type: ignore[operator]
    assert len(vf.frame([run, vf.load(other)])) == 2 * len(run.traces)


def test_exports(run: vf.Run, tmp_path: Path) -> None:
    for format in ("verifiers", "atif"):
        report = run.export(format, tmp_path / format)
        told = {note.trace_id for note in report.notes if note.action != "warning"}
        assert len(vf.load(report.dir).traces) == len(run.traces) - len(told)
    with pytest.raises(ExportRefused, match="no tokens to train"):  # there are none, and it says so
        run.export("arrow", tmp_path / "arrow")
