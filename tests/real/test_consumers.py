"""The real readers and writers of other programs: verifiers, datasets, Harbor, Inspect, each in its place."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from support.engines import need
from support.graphs import assistant, tool
from support.tokenruns import PROMPT, Talk, fork, linear, save
from support.upstream import Say, Upstream
from vfnb_harnesses.terminus_2 import find_python

import vfnb as vf
from vfnb import loops
from vfnb.errors import InstallError
from vfnb.exchange import read_sft
from vfnb.installs import PyPI, Recipe, ensure

pytestmark = [pytest.mark.real, pytest.mark.timeout(300)]

VERIFIERS = PyPI(("verifiers==0.4.0", "datasets>=4"), "0.4.0")
HARBOR = PyPI(("harbor==0.26.0",), "0.26.0", python=find_python())
INSPECT = PyPI(("inspect-ai==0.3.285", "openai>=2"), "0.3.285")
Python = Callable[..., Any]


def runs_in(recipe: Recipe, folder: Path) -> Python:
    """Runs a script in the program's own environment and gives the JSON value that its last line is."""
    try:
        installed = loops.engine().run(ensure(recipe, lambda line: None))
    except InstallError as error:
        need(False, recipe.label, f"its package index ({error})")
        raise
    assert installed.python is not None

    def run(script: str, *args: object, **environ: str) -> Any:
        (folder / "script.py").write_text(script)
        words = [str(installed.python), str(folder / "script.py"), *map(str, args)]
        env = {
            **os.environ,
            "PYTHONPATH": str(folder),
            "HF_HUB_OFFLINE": "1",
            "HF_HOME": str(folder),
            **environ,
        }
        done = subprocess.run(words, capture_output=True, text=True, env=env, cwd=folder, timeout=200)
        assert done.returncode == 0, done.stderr[-4000:]
        return json.loads(done.stdout.splitlines()[-1])

    return run


def talks() -> list[Talk]:
    odd = Talk("odd", reward=0.3)
    tools = [
        {"name": "add", "description": "Sum.", "parameters": {"type": "object", "properties": {"a": {}}}}
    ]
    asked = assistant(
        None, ("1", "add", '{"a": 2, "b": null}'), ("2", "look", '{"path": "x"}'), reasoning="Hm."
    )
    history = odd.say(PROMPT, asked, tools=tools)
    odd.say([*history, tool("1", "4"), tool("2", "no")], assistant("Fine"), tools=tools)
    return [linear("a", 3), fork("b", reward=0.0), odd, linear("failed").failed()]


READ_EPISODES = """
import json, sys
from pathlib import Path
from verifiers.v1.trace import WireTrace
from verifiers.v1.utils.trace_store import read_episodes
print(json.dumps([
    {"id": trace.id, "ok": trace.ok, "reward": trace.reward, "reply": trace.last_reply,
     "usage": trace.usage and [trace.usage.input_tokens, trace.usage.completion_tokens],
     "roles": [node.message.role for node in trace.nodes],
     "branches": [[branch.token_ids, branch.sampled_mask, branch.logprobs] for branch in trace.branches]}
    for episode in read_episodes(Path(sys.argv[1]), WireTrace) for trace in episode.traces
]))
"""


def test_verifiers_reads_what_is_exported(tmp_path: Path) -> None:
    python = runs_in(VERIFIERS, tmp_path)
    run = vf.load(asyncio.run(save(tmp_path / "run", talks())))
    for format, folder in (("verifiers", "."), ("prime-rl", "episodes")):
        out = run.export(format, tmp_path / format, **({"env": "sums"} if format == "prime-rl" else {})).dir
        for record in python(READ_EPISODES, out / folder):
            trace = run.traces(record["id"])
            assert record["ok"] is trace.ok
            assert record["reward"] == pytest.approx(trace.reward or 0.0, abs=0)
            assert record["reply"] == trace.last_reply
            assert record["usage"] == [trace.usage.prompt_tokens, trace.usage.completion_tokens]
            assert record["roles"] == [node.message.role for node in trace.nodes]
            for branch, (ids, mask, logprobs) in zip(trace.branches, record["branches"], strict=True):
                assert ids == branch.token_ids.tolist()
                assert mask == branch.sampled_mask.tolist()
                assert np.array(logprobs, np.float32).tobytes() == branch.logprobs.tobytes()


LOAD_TASKS = """
import json
from verifiers.v1 import import_taskset, taskset_config_type
taskset = import_taskset("vfnb-tasks-sums").RunTaskset(taskset_config_type("vfnb-tasks-sums")(id="vfnb-tasks-sums"))
print(json.dumps([task.data.model_dump(mode="json", exclude_none=True) for task in taskset]))
"""


def test_the_package_of_tasks_is_a_taskset(tmp_path: Path) -> None:
    python = runs_in(VERIFIERS, tmp_path)
    run = vf.load(asyncio.run(save(tmp_path / "run", talks())))
    live = run.export("prime-rl", tmp_path / "out", env="sums").dir / "live"
    (row,) = [
        json.loads(line) for line in (live / "vfnb_tasks_sums" / "tasks.jsonl").read_text().splitlines()
    ]
    (data,) = python(LOAD_TASKS, PYTHONPATH=str(live))
    assert data == row["data"] | {"skills": [], "artifact_max_bytes": 33554432}  # defaults of 0.4.0 alone


LOAD_ROWS = """
import json, sys
import datasets
print(json.dumps(datasets.load_dataset(sys.argv[1], split="train").to_list()))
"""


def test_datasets_loads_the_rows(tmp_path: Path) -> None:
    python = runs_in(VERIFIERS, tmp_path)
    run = vf.load(asyncio.run(save(tmp_path / "run", talks())))
    out = run.export("sft", tmp_path / "out").dir
    wanted = read_sft(out / "sft")
    assert python(LOAD_ROWS, out / "sft") == wanted
    found = python(LOAD_ROWS, out / "sft_jsonl")
    assert len(found) == len(wanted) == 3
    for mine, theirs in zip(wanted, found, strict=True):
        for before, after in zip(mine["messages"], theirs["messages"], strict=True):
            assert {key: value for key, value in after.items() if value is not None} == {
                key: value for key, value in before.items() if value is not None
            }


TASKSET = """
import verifiers.v1 as vf
__all__ = ["SumTaskset"]
class SumTask(vf.Task[vf.TaskData, vf.State]):
    @vf.reward(weight=2.0)
    async def correct(self, trace: vf.Trace) -> float:
        return 1.0 if "5" in trace.last_reply else 0.0
    @vf.metric
    async def words(self, trace: vf.Trace) -> float:
        return float(len(trace.last_reply.split()))
class SumTaskset(vf.Taskset[SumTask, vf.TasksetConfig]):
    def load(self):
        prompts = ["2 + 3?", "fail"]
        return [SumTask(vf.TaskData(idx=i, name=p, prompt=p), self.config.task) for i, p in enumerate(prompts)]
"""
EVALUATE = """
import sys
from verifiers.v1.cli.eval.main import main
main(sys.argv[1:])
print("null")
"""


@pytest.mark.timeout(400)
def test_what_verifiers_writes_opens(tmp_path: Path) -> None:
    python = runs_in(VERIFIERS, tmp_path)
    (tmp_path / "sumset.py").write_text(TASKSET)

    def script(body: Any, number: int) -> Say:
        refused = Say(status=400, raw=b'{"error": {"message": "no", "type": "bad"}}')
        return refused if "fail" in body["messages"][-1]["content"] else Say("5")

    with Upstream(script) as upstream:
        agent = "--env.agent.harness.id null --env.agent.runtime.type subprocess"
        words = f"sumset -m m --no-push --no-rich -r 2 {agent}"
        python(
            EVALUATE,
            *words.split(),
            "--client.base-url",
            upstream.url + "/v1",
            "-o",
            "out",
            OPENAI_API_KEY="x",
        )
    (folder,) = (tmp_path / "out").iterdir()
    run = vf.load(folder, into=tmp_path / "run")
    assert run.imported is not None
    assert run.imported.faults == []
    rewards = run.rewards.set_index(["ok", "rollout"]).sort_index()
    assert rewards.loc[True, "reward"].tolist() == [2.0, 2.0]
    assert rewards.loc[True, "correct"].tolist() == [1.0, 1.0]
    assert rewards.loc[False, "reward"].isna().all()
    assert {trace.errors[0].status for trace in run.traces if not trace.ok} == {400}
    again = run.export("verifiers", tmp_path / "again").dir
    records = python(READ_EPISODES, again)
    assert sorted(record["reward"] for record in records) == [0, 0, 2.0, 2.0]


VALIDATE = """
import json, sys
from pathlib import Path
from harbor.models.trajectories.trajectory import Trajectory
found = {}
for path in sorted(Path(sys.argv[1]).glob("*/trajectory.json")):
    trajectory = Trajectory.model_validate_json(path.read_text())
    found[path.parent.name] = [len(trajectory.steps), len(trajectory.subagent_trajectories or ())]
    path.with_name("harbor.json").write_text(trajectory.model_dump_json(exclude_none=True))
print(json.dumps(found))
"""


def test_harbor_reads_the_trajectories_and_gives_them_back(tmp_path: Path) -> None:
    python = runs_in(HARBOR, tmp_path)
    run = vf.load(asyncio.run(save(tmp_path / "run", talks())))
    out = run.export("atif", tmp_path / "out").dir
    assert python(VALIDATE, out) == {"a": [7, 0], "b": [5, 1], "failed": [5, 0], "odd": [4, 0]}
    for path in out.glob("*/trajectory.json"):
        path.unlink()
    back = vf.load(out, into=tmp_path / "back")  # as Harbor wrote them
    for before in run.traces:
        after = back.traces(before.id)
        assert [node.message for node in after.nodes] == [node.message for node in before.nodes]
        for mine, theirs in zip(before.samples(), after.samples(), strict=True):
            assert mine.token_ids.tobytes() == theirs.token_ids.tobytes()
            assert mine.logprobs.tobytes() == theirs.logprobs.tobytes()


TRIAL = """
import sys
from datetime import datetime, timezone
from pathlib import Path
from harbor.models.task.id import LocalTaskId
from harbor.models.trial.config import TaskConfig, TrialConfig
from harbor.models.trial.result import AgentInfo, ExceptionInfo, TrialResult
from harbor.models.verifier.result import VerifierResult
now = datetime.now(timezone.utc)
def trial(name, **fields):
    folder = Path(sys.argv[1]) / name
    folder.mkdir(parents=True)
    made = TrialResult(
        task_name="org/task", trial_name=name, trial_uri="file:///x", task_id=LocalTaskId(path=Path("/t")),
        task_checksum="c", config=TrialConfig(task=TaskConfig(path=Path("/t")), trial_name=name),
        agent_info=AgentInfo(name="shell", version="1"), started_at=now, finished_at=now, **fields)
    (folder / "result.json").write_text(made.model_dump_json(indent=2))
trial("fine", verifier_result=VerifierResult(rewards={"reward": 1.0, "style": 0.5}))
def broken(kind):
    return ExceptionInfo(exception_type=kind, exception_message="x", exception_traceback="", occurred_at=now)
trial("slow", verifier_result=VerifierResult(rewards={"reward": 0.5}), exception_info=broken("AgentTimeoutError"))
trial("lost", exception_info=broken("RewardFileNotFoundError"))
print("null")
"""


def test_what_harbor_writes_opens(tmp_path: Path) -> None:
    runs_in(HARBOR, tmp_path)(TRIAL, tmp_path / "job")
    run = vf.load(tmp_path / "job", into=tmp_path / "run")
    assert run.imported is not None
    assert run.imported.faults == []
    found = {trace.info["trial"]: (trace.end_state, trace.reward, trace.metrics) for trace in run.traces}
    assert found == {
        "fine": ("completed", 1.0, {"style": 0.5}),
        "slow": ("stopped", 0.5, {}),
        "lost": ("error", None, {}),
    }


LOG = """
import json, sys
from inspect_ai import Task, eval
from inspect_ai.dataset import Sample
from inspect_ai.log import read_eval_log
from inspect_ai.scorer import includes, model_graded_fact
from inspect_ai.solver import generate, solver, system_message
@solver
def careful():
    async def solve(state, generate):
        if state.sample_id == "bad":
            raise ValueError("no such sum")
        return state
    return solve
samples = [Sample(id="good", input="2 + 3?", target="5"), Sample(id="bad", input="x", target="5")]
for form in ("eval", "json"):
    task = Task(dataset=samples, solver=[careful(), system_message("Be brief."), generate()],
                scorer=[includes(), model_graded_fact()])
    eval(task, model="openai-api/local/m", model_base_url=sys.argv[2], log_dir=f"{sys.argv[1]}/{form}",
         log_format=form, fail_on_error=False, display="none")
print("null")
"""


def test_what_inspect_writes_opens(tmp_path: Path) -> None:
    python = runs_in(INSPECT, tmp_path)

    def script(body: Any, number: int) -> Say:
        return Say("GRADE: C" if "GRADE" in str(body["messages"]) else "It is 5.")

    with Upstream(script) as upstream:
        python(LOG, tmp_path / "logs", upstream.url + "/v1", LOCAL_API_KEY="x")
    for form in ("eval", "json"):
        run = vf.load(tmp_path / "logs" / form, into=tmp_path / form)
        assert run.imported is not None
        assert run.imported.faults == []
        good, bad = sorted(run.traces, key=lambda trace: trace.task.key, reverse=True)
        assert [(node.message.role, node.message.text) for node in good.nodes] == [
            ("system", "Be brief."),
            ("user", "2 + 3?"),
            ("assistant", "It is 5."),
        ]
        assert {name: one.value for name, one in good.rewards.items()} == {
            "includes": 1.0,
            "model_graded_fact": 1.0,
        }
        assert [call.judge for call in good.judge_calls] == ["model_graded_fact"]
        assert good.reward == 1.0
        assert (bad.end_state, bad.reward, bad.errors[0].type) == ("error", None, "ValueError")
