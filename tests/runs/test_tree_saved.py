"""The config that a run saves runs it again; objects appear by name."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.addition import AdditionTask, AdditionTaskset, add, taskset
from support.packages import installed
from support.upstream import Upstream

import vfnb as vf
from vfnb.errors import ConfigError
from vfnb.runs.config import plain
from vfnb.runs.saved import saved_config


def answer(body: dict, number: int) -> str:
    return add([vf.UserMessage(content=body["messages"][-1]["content"])])


def saved(source: vf.Taskset, tmp_path: Path, **options: object) -> vf.EvalConfig:
    agent = vf.make_agent(
        options.pop("harness", "null"),
        model=options.pop("model", vf.Relay("m", base_url="http://127.0.0.1:1")),
    )
    config = saved_config(source, source.resolve(), agent, **options)
    path = tmp_path / "config.toml"
    from vfnb.runs.config import write_config

    write_config(path, config)
    return vf.EvalConfig.load(path)


def test_a_run_goes_on_from_its_saved_config(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with Upstream(answer) as upstream:
        model = vf.Relay("adder", base_url=upstream.url, max_concurrency=2, price=(1.0, 2.0))
        run = vf.evaluate(
            AdditionTaskset(num_tasks=9).shuffle(3), n=4, model=model, rollouts=2, sampling={"temperature": 0}
        ).wait(quiet=True)
        assert run.summary.scored == 8
        assert len(upstream.calls) == 8

        config = vf.EvalConfig.load(run.dir / "config.toml")
        again = config.evaluate().wait(quiet=True)
        assert again.dir == run.dir
        assert again.summary.reused == 8
        assert len(upstream.calls) == 8
        assert again.config == run.config == vf.load(run.dir).config

        anew = config.updated(fresh=True, dir="anew").evaluate().wait(quiet=True)
        assert len(upstream.calls) == 16
        assert anew.config["model"] == run.config["model"]
        assert list(anew.rewards["task"]) == list(run.rewards["task"])


def test_a_saved_config_has_facts_that_set_nothing(tmp_path: Path) -> None:
    run = vf.evaluate(taskset(2), model=vf.Scripted(add), dir=tmp_path / "run").wait(quiet=True)
    facts = run.config["record"]
    assert facts == {"tasks": 2, "vfnb": vf.__version__, "python": facts["python"]}
    assert (run.dir / "config.toml").read_text().startswith("# To go on with this run: vfnb eval @ ")


@pytest.mark.parametrize(
    "view",
    [
        lambda t: t,
        lambda t: t.take(3),
        lambda t: t.include(idx=["2:7"]).exclude(idx=3).shuffle(5).skip(1).take(2),
        lambda t: t.take(5).shuffle(1),
        lambda t: t.shuffle(1).take(6).shuffle(2).take(2),
        lambda t: t.include(idx=[1, 2]).include(idx=[2, 3]),
    ],
)
def test_views_are_saved_as_a_selection_of_the_same_tasks(tmp_path: Path, view: object) -> None:
    source = view(taskset(10))  # type: ignore[operator]
    config = saved(source, tmp_path)
    assert {task.data.idx for task in config.make_taskset()} == {task.data.idx for task in source}


def test_an_infinite_taskset_comes_back_bounded(tmp_path: Path) -> None:
    text = """
        import vfnb as vf

        class Endless(vf.Taskset):
            INFINITE = True

            def load(self):
                for i in range(10**9):
                    yield vf.Task(vf.TaskData(prompt=str(i)))
    """
    with installed(tmp_path / "lib", endless_saved=text):
        source = vf.load_taskset("endless_saved").take(9).shuffle(0).take(2)
        config = saved(source, tmp_path)
        assert {t.data.prompt for t in config.make_taskset()} == {t.data.prompt for t in source}


def test_objects_of_a_notebook_are_saved_by_name_and_refused_clearly(tmp_path: Path) -> None:
    class Local(AdditionTaskset):
        pass

    @vf.harness
    async def mine(session: vf.HarnessSession, task: vf.Task) -> str:
        return (await session.complete(task.data.prompt)).text

    for source, harness, model, key in (
        (Local(num_tasks=1), "null", vf.Relay("m", base_url="http://127.0.0.1:1"), "taskset.id"),
        (taskset(1), mine, vf.Relay("m", base_url="http://127.0.0.1:1"), "harness.id"),
        (taskset(1), "null", vf.Scripted(add), "model.name"),
        (vf.Taskset.of([vf.TaskData(prompt="1 + 1?")]), "null", vf.Scripted(add), "taskset.id"),
    ):
        with pytest.raises(ConfigError, match=f"{key}: .*Python object") as caught:
            saved(source, tmp_path, harness=harness, model=model)
        assert "vf.evaluate" in str(caught.value)
    run = vf.evaluate(Local(num_tasks=1), model=vf.Scripted(add), harness=mine, dir=tmp_path / "r").wait(
        quiet=True
    )
    assert "Local" in str(run)
    assert "python:" not in str(run)


def test_importable_objects_are_saved_by_module(tmp_path: Path) -> None:
    text = "import vfnb as vf\n@vf.harness\nasync def echo(session, task):\n    return 'x'\n"
    with installed(tmp_path / "lib", echo_agent=text):
        from importlib import import_module

        harness = import_module("echo_agent").echo
        config = saved(AdditionTaskset(num_tasks=2), tmp_path, harness=harness)
        assert config.taskset.id == "support.addition:AdditionTaskset"
        assert config.harness.id == "echo_agent:echo"
        assert config.make_taskset().task_type() is AdditionTask


def test_no_secret_is_saved(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_KEY", "sk-very-secret")
    model = vf.Relay(
        "m",
        base_url="https://user:pass@example.invalid/v1?token=abc",
        api_key_var="MY_KEY",
        headers={"X-Api-Key": "env:MY_KEY", "X-Team": "red"},
    )
    config = saved(taskset(1), tmp_path, model=model)
    text = (tmp_path / "config.toml").read_text()
    assert all(secret not in text for secret in ("sk-very", "pass@", "abc"))
    assert plain(config)["model"]["headers"] == {"X-Api-Key": "env:MY_KEY", "X-Team": "red"}
    assert plain(config)["model"]["api_key_var"] == "MY_KEY"
