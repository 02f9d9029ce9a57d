"""The configuration tree: layers, layouts, types by name."""

from __future__ import annotations

import textwrap
from pathlib import Path
from typing import Any

import pytest
from support.packages import installed

import vfnb as vf
from vfnb.errors import ConfigError
from vfnb.runs.config import config_text, plain
from vfnb.runs.layers import Layer
from vfnb.runs.resolve import resolve

BLOG = """
model = "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B"

[sampling]
temperature = 1.0
top_p = 0.95

[taskset]
id = "primeintellect/terminal-bench-2"

[harness]
id = "codex"
version = "0.116.0"
"""

SELECT = """
[select]
include = { idx = ["0:500"] }
exclude = { names = ["broken-task"] }
shuffle = true
limit = 100
"""

TABLES = """
[[env.taskset.task.judges]]
id = "reference"
name = "correct"
answer_field = "answer"
view = "last_reply"

[[env.taskset.task.judges]]
id = "decision"
name = "graded"
answer_field = "answer"
levels = ["Incorrect", "Correct"]

[env.taskset.task.stops]
single_turn = { fn = "my_hooks.py:two_turns" }

[env.taskset.task.metrics]
reply_length = { fn = "my_hooks.py:reply_length", priority = 10 }

[env.taskset.task.rewards]
exact_match = { fn = "my_hooks.py:exact_match", weight = 0.5 }
"""

TERMINAL_BENCH = """
import vfnb as vf

class TerminalBench2Taskset(vf.Taskset):
    def load(self):
        return [vf.Task(vf.TaskData(prompt="List the files."))]

__all__ = ["TerminalBench2Taskset"]
"""

CODEX = """
import vfnb as vf

class Codex(vf.Harness):
    NAME = "codex"
    RUNTIMES = ("subprocess",)

    async def run(self, session, task):
        return None
"""

QA = """
import vfnb as vf

class QAData(vf.TaskData):
    answer: str = "me"

class QATask(vf.Task[QAData]):
    @vf.stop(skip_scoring=True)
    def single_turn(self, trace: vf.Trace) -> bool:
        return trace.num_turns == 1

    @vf.reward(weight=0.0)
    def exact_match(self, trace: vf.Trace) -> float:
        return 0.0

class QATaskset(vf.Taskset[QATask]):
    def load(self):
        return [QATask(QAData(prompt="Who?"), self.config.task)]
"""

MY_HOOKS = """
import vfnb as vf

def two_turns(trace: vf.Trace) -> bool:
    return trace.num_turns >= 2

def reply_length(trace) -> float:
    return len(trace.last_reply)

def exact_match(task, trace) -> float:
    return float(trace.last_reply == task.answer)
"""


def toml(folder: Path, text: str, name: str = "run.toml") -> Path:
    path = folder / name
    path.write_text(textwrap.dedent(text))
    return path


def test_the_layout_of_the_blog(tmp_path: Path) -> None:
    points = "[vfnb.harnesses]\ncodex = made_codex:Codex\n"
    with installed(tmp_path / "lib", entry_points=points, terminal_bench_2=TERMINAL_BENCH, made_codex=CODEX):
        config = vf.EvalConfig.load(toml(tmp_path, BLOG))
        assert config.model is not None
        assert config.model.name == "nvidia/NVIDIA-Nemotron-3-Ultra-550B-A55B"
        assert (config.sampling.temperature, config.sampling.top_p) == (1.0, 0.95)
        assert config.taskset.id == "primeintellect/terminal-bench-2"
        assert (config.harness.id, config.harness.version) == ("codex", "0.116.0")
        assert config.runtime.type == "subprocess"  # where this harness works
        assert [task.data.prompt for task in config.make_taskset()] == ["List the files."]
        assert config.make_harness().name == "codex"


def test_the_selection_of_the_tasksets_page(tmp_path: Path) -> None:
    config = vf.EvalConfig.load(toml(tmp_path, SELECT), taskset={"id": "addition", "num_tasks": 600})
    assert str(config.make_taskset().views[-1]) == "take(100)"
    assert len(config.make_taskset().resolve()) == 100


def test_the_tables_of_the_tasksets_page(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "my_hooks.py").write_text(MY_HOOKS)
    with installed(tmp_path / "lib", qa_set=QA):
        config = vf.EvalConfig.load(toml(tmp_path, TABLES), taskset="qa_set")
        task: Any = config.taskset.task
        assert [(judge.id, judge.name) for judge in task.judges] == [
            ("reference", "correct"),
            ("decision", "graded"),
        ]
        assert task.rewards["exact_match"].weight == 0.5
        assert task.metrics["reply_length"].priority == 10
        override = toml(tmp_path, "[env.taskset.task.rewards]\nexact_match = { weight = 1.0 }", "b.toml")
        config = vf.EvalConfig.load(tmp_path / "run.toml", override, taskset="qa_set")
        task = config.taskset.task
        assert (task.rewards["exact_match"].weight, task.rewards["exact_match"].fn) == (
            1.0,
            "my_hooks.py:exact_match",
        )
        (made,) = config.make_taskset()
        (stop,) = made.hooks("stop")
        assert (stop.spec.name, stop.function.__name__, stop.spec.skip_scoring) == (
            "single_turn",
            "two_turns",
            True,
        )
        assert [hook.spec.name for hook in made.hooks("metric")] == ["reply_length"]


def test_a_wrong_hook_is_named_where_it_was_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with installed(tmp_path / "lib", qa_set=QA):
        path = toml(tmp_path, TABLES)
        with pytest.raises(ConfigError) as caught:
            vf.EvalConfig.load(path, taskset="qa_set")
        for place in ("stops.single_turn", "metrics.reply_length", "rewards.exact_match"):
            assert f"run.toml: env.taskset.task.{place}.fn: there is no file" in str(caught.value)


def test_both_layouts_give_the_same_tree(tmp_path: Path) -> None:
    old = toml(
        tmp_path,
        """
        model = "m"
        taskset = "addition"
        runtime = "subprocess"
        [harness]
        id = "program"
        argv = ["agent"]
        [limits]
        max_turns = 3
        """,
        "old.toml",
    )
    new = toml(
        tmp_path,
        """
        [env.taskset]
        id = "addition"
        [env.agent]
        model = "m"
        [env.agent.harness]
        id = "program"
        argv = ["agent"]
        [env.agent.runtime]
        type = "subprocess"
        [env.agent.limits]
        max_turns = 3
        """,
        "new.toml",
    )
    assert plain(vf.EvalConfig.load(old)) == plain(vf.EvalConfig.load(new))


def test_later_layers_win_key_by_key(tmp_path: Path) -> None:
    first = toml(tmp_path, 'model = "a"\nrollouts = 2\n[sampling]\ntemperature = 1\ntop_p = 0.5', "a.toml")
    second = toml(
        tmp_path, 'rollouts = 3\n[sampling]\ntemperature = 0\n[env.taskset]\nid = "addition"', "b.toml"
    )
    config = vf.EvalConfig.load(first, second, sampling={"seed": 7}, model={"base_url": "http://127.0.0.1:1"})
    assert config.rollouts == 3
    assert config.sampling.given() == {"temperature": 0.0, "top_p": 0.5, "seed": 7}
    assert config.model is not None
    assert (config.model.name, config.model.base_url) == ("a", "http://127.0.0.1:1")
    assert vf.EvalConfig.load(second, first).rollouts == 2


def test_another_harness_starts_from_its_own_defaults(tmp_path: Path) -> None:
    base = toml(tmp_path, 'taskset = "addition"\n[harness]\nid = "program"\nargv = ["agent"]')
    config = vf.EvalConfig.load(base, harness="null")
    assert plain(config.harness)["id"] == "null"
    assert not {"argv", "env"} & set(plain(config.harness))
    same = vf.EvalConfig.load(base, harness={"id": "program", "env": {"A": "1"}})
    assert plain(same.harness) == {"id": "program", "argv": ["agent"], "env": {"A": "1"}}


def test_null_is_no_value_and_what_is_set_stays_told_from_a_default() -> None:
    config = vf.EvalConfig.load(taskset="addition", timeouts={"agent": "null", "setup": 600.0})
    assert config.timeouts.agent is None
    assert config.timeouts.model_fields_set == {"agent", "setup"}
    assert plain(config)["timeouts"] == {"agent": "null", "setup": 600.0}


def test_a_config_names_types_so_a_bare_one_cannot_run() -> None:
    with pytest.raises(ConfigError, match=r"EvalConfig\.load"):
        vf.EvalConfig(taskset=vf.TasksetConfig(id="addition")).make_taskset()


def test_the_text_of_a_config_loads_to_the_same_config(tmp_path: Path) -> None:
    config = vf.EvalConfig.load(
        taskset={"id": "addition", "num_tasks": 7, "task": {"tolerance": 0.5}},
        model={"name": "m", "price": [1, 2], "headers": {"X-A": "env:SOME"}, "api_key_var": "null"},
        harness={"id": "program", "argv": ["a", "{prompt}"]},
        select={"shuffle": True, "seed": 3, "include": {"idx": ["0:5"]}},
        sampling={"stop": ["\n"], "extra_body": {"top_a": 0.1}},
        timeouts={"agent": 5},
        max_cost=1.5,
    )
    again = vf.EvalConfig.load(toml(tmp_path, config_text(config)))
    assert plain(again) == plain(config)
    assert again.timeouts.model_fields_set == {"agent"}
    assert again.model is not None
    assert again.model.api_key_var is None


def test_an_agent_function_of_a_file(tmp_path: Path) -> None:
    path = toml(
        tmp_path,
        "import vfnb as vf\n@vf.harness\nasync def twice(session, task):\n    return 'x'\n",
        "agent.py",
    )
    config = vf.EvalConfig.load(taskset="addition", harness=f"{path}:twice")
    assert config.make_harness().name == "twice"
    with pytest.raises(ConfigError, match=r"^harness\.sleep: unknown key"):
        vf.EvalConfig.load(taskset="addition", harness={"id": f"{path}:twice", "sleep": 1})


def test_the_files_own_name_stands_before_its_keys(tmp_path: Path) -> None:
    good, bad = toml(tmp_path, 'taskset = "addition"', "good.toml"), toml(tmp_path, "rolouts = 1", "bad.toml")
    with pytest.raises(ConfigError) as caught:
        vf.EvalConfig.load(good, bad)
    assert str(caught.value) == f"{bad}: rolouts: unknown key; did you mean rollouts?"


def test_a_file_taskset_is_executed_once(tmp_path: Path) -> None:
    path = toml(tmp_path, TERMINAL_BENCH + "\nprint('executed')\n", "mine.py")
    config = resolve([Layer(data={"taskset": f"{path}"}), Layer(data={"n": "1"}, flags=True)])
    assert isinstance(config.make_taskset().config, type(config.taskset))
    assert config.select.limit == 1
