"""`vf.compare`: one taskset under several harnesses, side by side."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from support.addition import add, taskset
from support.html_rules import check_bundle
from support.scripts import asks, call
from support.upstream import Say, Upstream

import vfnb as vf
from vfnb.errors import ConfigError, StoreError


@vf.harness
async def once(session: Any, task: Any) -> str:
    return str((await session.complete(task.data.prompt)).text)


@vf.harness
async def forgetful(session: Any, task: Any) -> str:
    """Asks a tool, rewrites what the model said, and asks for a title besides."""
    ask = vf.UserMessage(content=task.data.prompt)
    first = await session.complete([ask], markers={"kind": "main"})
    await session.complete("A title, please.")
    said = vf.AssistantMessage(content="I said something else.")
    return str(
        (await session.complete([ask, said, vf.UserMessage(content=task.data.prompt)])).text + first.text[:0]
    )


def model(messages: vf.Messages) -> Any:
    if "title" in messages[-1].text:
        return "Sums"
    if len(messages) == 1:
        return asks(call("look", x=1), call("look", x=2), text=add(messages), prompt_tokens=100)
    return add(messages)


def compared(tmp_path: Path, **settings: Any) -> vf.Comparison:
    given: dict[str, Any] = {"harnesses": [once, forgetful], "model": vf.Scripted(model), "rollouts": 2}
    return vf.compare(taskset(3), dir=tmp_path / "all", **given | settings).wait()


def test_harnesses_are_shown_side_by_side(tmp_path: Path) -> None:
    both = compared(tmp_path)
    assert list(both) == ["once", "forgetful"] and len(both) == 2 and both.complete
    frame = both.frame().set_index("harness")
    assert list(frame.n) == list(frame.scored) == [6, 6] and list(frame.reward) == [1.0, 1.0]
    assert list(frame.turns) == [1, 3] and list(frame.tool_calls) == [2, 2]
    assert list(frame.rewrites) == [0, 1] and list(frame.branches) == [1, 3]
    assert list(frame.fork_history_edited) == [0, 6] and list(frame.fork_side_call) == [0, 6]
    assert (frame.model_s > 0).all() and (frame.harness_s >= 0).all()
    assert (frame.time_s >= frame.model_s + frame.harness_s - 1e-6).all()
    assert frame.tokens_in["once"] == 100
    assert both.frame().attrs["complete"] is True


def test_each_task_and_each_rollout_has_its_row(tmp_path: Path) -> None:
    both = compared(tmp_path)
    tasks = both.frame("task")
    assert len(tasks) == 6 and set(tasks.groupby("harness").task.nunique()) == {3}
    assert list(tasks.n) == [2] * 6 and list(tasks.reward) == [1.0] * 6
    rollouts = both.frame("rollout")
    assert len(rollouts) == 12 and rollouts.columns[0] == "harness"
    assert set(rollouts.trace) == {trace.id for run in both.runs.values() for trace in run.traces}
    with pytest.raises(ConfigError, match="level='calls' is none of harness, task, rollout"):
        both.frame("calls")


def test_the_twins_tell_the_numbers(tmp_path: Path) -> None:
    both = compared(tmp_path)
    bundle = both._repr_mimebundle_()
    page = check_bundle(bundle)
    for fact in ("2 harnesses on AdditionTaskset", "finished, 12 of 12", "once", "forgetful", "6 of 6"):
        assert fact in bundle["text/plain"] and fact in page.text
    assert "history_edited 6" in page.text
    assert str(both) == bundle["text/plain"] and repr(both).startswith("<Comparison once, forgetful in ")


def test_what_is_done_is_not_run_again_and_a_harness_may_join(tmp_path: Path) -> None:
    def answer(body: Any, number: int) -> str:
        return add([vf.UserMessage(content=body["messages"][-1]["content"])])

    with Upstream(answer) as upstream:
        shared = vf.Relay("mock", base_url=upstream.url + "/v1")
        one = compared(tmp_path, harnesses=[once], model=shared)
        assert len(upstream.calls) == 6
        both = compared(tmp_path, harnesses={"once": once, "plain": "null"}, model=shared)
        assert len(upstream.calls) == 12 and list(both.frame().scored) == [6, 6]
    again = vf.Comparison.load(tmp_path / "all")
    assert again.complete and list(again) == ["once", "plain"]
    assert again["once"].rewards.reward.mean() == 1.0 and again.frame().equals(both.frame())
    assert one.dir == again.dir


def test_errors_are_no_zeros_and_are_told(tmp_path: Path) -> None:
    @vf.harness
    async def broken(session: Any, task: Any) -> str:
        await session.complete(task.data.prompt)
        raise RuntimeError("lost my way")

    both = compared(tmp_path, harnesses=[once, broken])
    frame = both.frame().set_index("harness")
    assert frame.errors["broken"] == 6 and frame.scored["broken"] == 0
    assert frame.reward.isna()["broken"] and frame.turns.isna()["broken"]
    assert "broken: 6 x HarnessError" in str(both)
    check_bundle(both._repr_mimebundle_())


def test_harnesses_of_one_name_are_told_apart(tmp_path: Path) -> None:
    from vfnb_harnesses.null import NullConfig, NullHarness

    pair = [NullHarness(), NullHarness(NullConfig(system_prompt="Be brief."))]
    both = compared(tmp_path, harnesses=pair, model=vf.Scripted(add))
    assert list(both) == ["null", "null_2"] and (tmp_path / "all" / "null_2" / "run.sqlite").exists()


def test_a_loaded_comparison_has_the_names_that_were_given(tmp_path: Path) -> None:
    compared(tmp_path, harnesses={"asks once": once, "forgets (a lot)": forgetful})
    compared(tmp_path, harnesses={"plain": "null"}, model=vf.Scripted(add))
    again = vf.Comparison.load(tmp_path / "all")
    assert list(again) == ["asks once", "forgets (a lot)", "plain"]
    assert again["forgets (a lot)"].dir == tmp_path / "all" / "forgets-a-lot"
    (tmp_path / "all" / "comparison.json").unlink()  # of an older version
    assert list(vf.Comparison.load(tmp_path / "all")) == ["asks-once", "forgets-a-lot", "plain"]


@pytest.mark.parametrize(
    ("settings", "words"),
    [
        ({"harnesses": []}, "must be a list of harnesses"),
        ({"harnesses": "null"}, "must be a list of harnesses"),
        ({"harnesses": [once, "nul"]}, "no harness 'nul'; did you mean 'null'"),
        ({"harnesses": {"a/b": once, "a b": "null"}}, "do not make a folder each"),
        ({"harness": "null"}, "compare\\(\\) takes no 'harness'; did you mean 'harnesses'"),
        ({"rollout": 3}, "compare\\(\\) takes no 'rollout'; did you mean 'rollouts'"),
        ({"concurrency": 0}, "concurrency=0 must be a whole number"),
        ({"harnesses": [once, "program"]}, "harness 'program' has no command"),
        ({"runtime": "subproces"}, "runtime 'subproces' is unknown"),
    ],
)
def test_nothing_starts_if_one_cannot(tmp_path: Path, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        compared(tmp_path, **settings)
    assert not (tmp_path / "all").exists()
    with pytest.raises(StoreError, match="has no runs in its folders"):
        vf.Comparison.load(tmp_path)


def test_a_wrong_name_or_folder_is_told_the_right_one(tmp_path: Path) -> None:
    both = compared(tmp_path)
    with pytest.raises(
        KeyError, match="no harness 'twice' in this comparison; there are 'once'; 'forgetful'"
    ):
        both["twice"]
    with pytest.raises(StoreError, match=r"has a run for each harness; open it with vf\.Comparison\.load"):
        vf.load(tmp_path / "all")
    with pytest.raises(ConfigError, match="settings go into the config of a Harness object"):
        vf.evaluate(taskset(1), model=vf.Scripted(model), harness={"id": "null"})  # type: ignore[arg-type]


def test_a_run_that_ends_first_does_not_cut_the_calls_of_the_other(tmp_path: Path) -> None:
    done = threading.Event()

    def answer(body: Any, number: int) -> Say:
        slow = body["messages"][0]["role"] == "system"
        if slow:
            done.set()
        return Say(text="0", delay=1.5 if slow else 0.0)

    @vf.harness
    async def slow(session: Any, task: Any) -> str:
        history = [vf.SystemMessage(content="Slowly."), vf.UserMessage(content=task.data.prompt)]
        return str((await session.complete(history)).text)

    @vf.harness
    async def fast(session: Any, task: Any) -> str:
        await asyncio.to_thread(done.wait, 10)
        return str((await session.complete(task.data.prompt)).text)

    with Upstream(answer) as upstream:
        shared = vf.Relay("mock", base_url=upstream.url + "/v1", retry_wait=0.01)
        both = compared(tmp_path, harnesses=[slow, fast], model=shared, n=1, rollouts=1)
        assert len(upstream.calls) == 2
    assert list(both.frame().errors) == [0, 0]


def test_a_wait_that_is_too_short_goes_on_and_cancelling_stops_all(tmp_path: Path) -> None:
    started = threading.Event()

    @vf.harness
    async def waiting(session: Any, task: Any) -> str:
        started.set()
        await asyncio.sleep(60)
        return ""

    both = vf.compare(
        taskset(2), harnesses=[once, waiting], model=vf.Scripted(add), concurrency=3, dir=tmp_path / "all"
    )
    assert started.wait(10)
    with pytest.raises(TimeoutError, match="1 of 2 runs have not ended after 1 s"):
        both.wait(1)
    snapshot = both.frame()
    assert snapshot.attrs["complete"] is False and list(snapshot.scored) == [2, 0]
    both.cancel()
    assert not both.complete and set(both["waiting"].frame().state) == {"cancelled"}
    assert "cancelled" in str(both)


def test_a_comparison_can_be_awaited(tmp_path: Path) -> None:
    async def main() -> vf.Comparison:
        return await vf.compare(
            taskset(1), harnesses=[once, "null"], model=vf.Scripted(add), dir=tmp_path / "all"
        )

    assert asyncio.run(main()).complete
