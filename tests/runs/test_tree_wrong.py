"""Wrong configs: each gives one message with the key as it was written and the fix, before any model call."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from support.packages import installed

import vfnb as vf
from vfnb.errors import VfnbError

ENDLESS = """
import vfnb as vf

class Endless(vf.Taskset):
    INFINITE = True

    def load(self):
        while True:
            yield vf.Task(vf.TaskData(prompt="again"))
"""

GOOD = 'model = "m"\ntaskset = "addition"\n'
OWN = 'model = "m"\n'

WRONG = {
    # typos
    "key": (GOOD + "rolouts = 2", r"rolouts: unknown key; did you mean rollouts\?"),
    "taskset key": ('[env.taskset]\nid = "addition"\nnum_task = 3', r"env\.taskset\.num_task: .*num_tasks\?"),
    "task key": (
        '[taskset]\nid = "addition"\n[taskset.task]\ntolerence = 1',
        r"taskset\.task\.tolerence: unknown key; did you mean tolerance\?",
    ),
    "key of another level": (
        '[env.taskset]\nid = "addition"\ntolerance = 1',
        r"env\.taskset\.tolerance: unknown key; did you mean env\.taskset\.task\.tolerance\?",
    ),
    "key outside its table": (GOOD + "temperature = 1", r"did you mean sampling\.temperature\?"),
    "table": (GOOD + "[sampilng]\nseed = 1", r"sampilng: unknown key; did you mean sampling\?"),
    "sampling key": (GOOD + "[sampling]\ntemprature = 1", r"sampling\.temprature: .*temperature\?"),
    "limit": (GOOD + "[env.agent.limits]\nmax_turn = 1", r"env\.agent\.limits\.max_turn: .*max_turns\?"),
    "timeout": (GOOD + "[timeouts]\nagents = 1", r"timeouts\.agents: .*did you mean agent\?"),
    "selection": (GOOD + "[select.include]\nindex = [1]", r"select\.include\.index: unknown key; .*idx"),
    "table of a task without it": (
        '[env.taskset]\nid = "addition"\n[[env.taskset.task.jugdes]]\nid = "reference"',
        r"env\.taskset\.task\.jugdes: unknown key",
    ),
    "nested table": (
        '[env.tasksets]\nid = "addition"',
        r"env\.tasksets: unknown key; did you mean taskset\?",
    ),
    "nested key": (
        GOOD + "[env.agent]\nmax_turns = 3",
        r"env\.agent\.max_turns: unknown key; did you mean env\.agent\.limits\.max_turns\?",
    ),
    "nested nothing": (GOOD + "[env]\nagent = 3", r"env\.agent: expected a table, got 3"),
    "taskset": (OWN + 'taskset = "aditon"', r"taskset: no taskset 'aditon'.*did you mean 'addition'"),
    "harness": (GOOD + 'harness = "nul"', r"harness: no harness 'nul'; did you mean 'null'\?"),
    "runtime": (GOOD + 'runtime = "subproces"', r"runtime: .*did you mean 'subprocess'\?"),
    # wrong types and values
    "text for a number": (GOOD + 'rollouts = "three"', r"rollouts: .*valid integer.*\(got 'three'\)"),
    "fraction": (GOOD + "concurrency = 1.5", r"concurrency: .*integer"),
    "zero": (GOOD + "n = 0", r"n: .*greater than or equal to 1"),
    "list for a table": (GOOD + "sampling = [1]", r"sampling: .*(dictionary|SamplingConfig).*\(got \[1\]\)"),
    "number for a name": (OWN + "taskset = 3", r"taskset: expected a name or a table, got 3"),
    "probability": (GOOD + "[sampling]\ntop_p = 1.5", r"sampling\.top_p: .*less than or equal to 1"),
    "price": ('model = { name = "m", price = [1] }\ntaskset = "addition"', r"model\.price: .*2 items"),
    "url": (
        'model = { name = "m", base_url = "localhost:8000" }\ntaskset = "addition"',
        r"model\.base_url: .*https\?",
    ),
    "slice": (GOOD + '[select.include]\nidx = ["a:b"]', r"select\.include\.idx: .*'0:100'"),
    "negative slice": (GOOD + '[select.exclude]\nidx = ["-5:"]', r"select\.exclude\.idx: .*non-negative"),
    # impossible pairs
    "program in process": (
        GOOD + 'runtime = "inprocess"\n[harness]\nid = "program"\nargv = ["a"]',
        r"runtime: harness 'program' does not run in runtime 'inprocess'; use runtime='subprocess'",
    ),
    "program without a command": (GOOD + 'harness = "program"', r"harness: .*harness\.argv"),
    "setting of another harness": (
        GOOD + '[harness]\nid = "null"\nargv = ["a"]',
        r"harness\.argv: unknown key",
    ),
    "setting of another runtime": (
        GOOD + '[runtime]\ntype = "inprocess"\ngrace = 1',
        r"runtime\.grace: unknown key",
    ),
    "infinite without a bound": (OWN + 'taskset = "endless_set"', r"select: endless_set is infinite.*-n N"),
    "infinite shuffled": (
        OWN + 'taskset = "endless_set"\nn = 5\n[select]\nshuffle = true',
        r"select\.shuffle: .*cannot be shuffled.*include",
    ),
    # old, new and foreign keys
    "two layouts": (
        OWN + '[taskset]\nid = "addition"\n[env.taskset]\nnum_tasks = 3',
        r"taskset\.id and env\.taskset\.num_tasks are two ways to write the table \[taskset\]; keep one",
    ),
    "two models": (
        GOOD + '[env.agent]\nmodel = "x"',
        r"model and env\.agent\.model are two ways to write one setting; keep one",
    ),
    "two bounds": (GOOD + "n = 1\n[select]\nlimit = 2", r"n and select\.limit are two ways"),
    "serve": (GOOD + '[serve]\naddress = "tcp://127.0.0.1:5000"', r"serve\.address: .*Remove it"),
    "client": (GOOD + '[client]\nbase_url = "http://x"', r"client\.base_url: write .*\[model\]"),
    "many agents": (OWN + '[env]\nid = "best-of-n"\ntaskset = "addition"', r"env\.id: .*one agent"),
    # objects that no file can name
    "notebook taskset": (OWN + 'taskset = "python:Sums"', r"taskset: .*'Sums'.*module:NAME.*vf\.evaluate"),
    "notebook harness": (GOOD + 'harness = "python:twice"', r"harness: .*'twice'.*vf\.evaluate"),
    "notebook model": ('model = "python:scripted"\ntaskset = "addition"', r"model: .*'scripted'.*-m"),
    "unsaved header": (
        'model = { name = "m", headers = { X-Key = "***" } }\ntaskset = "addition"',
        r"model\.headers: .*env:VARIABLE",
    ),
    # files
    "hub version": (
        OWN + 'taskset = "owner/addition@1.2"',
        r"taskset: .*version cannot be asked for.*'addition'",
    ),
    "hub name": (
        OWN + 'taskset = "owner/absent-set"',
        r"taskset: no taskset 'absent-set'.*nothing is fetched",
    ),
    "no TOML": ('model = "m', r"not valid TOML: "),
    "no taskset": ('model = "m"', r"taskset\.id: required; .*published: .*addition"),
    "no taskset file": (OWN + 'taskset = "absent.py"', r"taskset: no taskset file absent\.py"),
    "no harness module": (GOOD + 'harness = "absent_mod:Agent"', r"harness: cannot import 'absent_mod'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_a_wrong_config_gives_one_message_with_its_key_and_a_fix(tmp_path: Path, name: str) -> None:
    text, message = WRONG[name]
    path = tmp_path / "run.toml"
    path.write_text(text)
    with installed(tmp_path / "lib", endless_set=ENDLESS), pytest.raises(VfnbError) as caught:
        vf.EvalConfig.load(path)
    said = str(caught.value)
    assert re.search(message, said), said
    assert len(said.splitlines()) == 1
    assert name in ("no taskset", "infinite without a bound") or said.startswith(f"{path}: ")


def test_a_missing_file_is_named() -> None:
    with pytest.raises(VfnbError, match=r"^absent\.toml: the config file cannot be read: No such file"):
        vf.EvalConfig.load("absent.toml")


def test_a_pasted_key_is_not_repeated() -> None:
    with pytest.raises(VfnbError) as caught:
        vf.EvalConfig.load(taskset="addition", model={"name": "m", "api_key_var": "sk-secret"})
    assert str(caught.value).startswith("model.api_key_var: give the name of an environment variable")
    assert "secret" not in str(caught.value)


def test_a_broken_module_is_told_from_an_absent_one(tmp_path: Path) -> None:
    with (
        installed(tmp_path, broken_set="import vfnb\nraise RuntimeError('half written')\n"),
        pytest.raises(VfnbError, match=r"^taskset: broken_set cannot be loaded: RuntimeError: half written$"),
    ):
        vf.EvalConfig.load(taskset="broken_set")


def test_a_run_needs_a_model() -> None:
    with pytest.raises(VfnbError, match=r"^model: required; give -m NAME"):
        vf.EvalConfig.load(taskset="addition").evaluate()


def test_every_wrong_key_is_named_at_once() -> None:
    with pytest.raises(VfnbError) as caught:
        vf.EvalConfig.load(taskset="addition", rollouts=0, sampling={"top_q": 1}, limits={"max_turns": "x"})
    assert [line.split(":")[0] for line in str(caught.value).splitlines()] == [
        "sampling.top_q",
        "limits.max_turns",
        "rollouts",
    ]
