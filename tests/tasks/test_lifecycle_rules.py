"""The rules of the page on the life cycle, file answers and pictures, one test each, and the listings."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.boxes import commit, repository
from support.cells import module_file, run_cell
from support.containers import ToyContainer
from support.listings import FILE_ANSWERS, MULTIMODAL, ours

import vfnb as vf
from vfnb.errors import ConfigError
from vfnb.utils.git import snapshot_untracked
from vfnb.utils.image import image_data_url


def _run(task: vf.Task, folder: Path, harness: Any = "null", **settings: Any) -> vf.Trace:
    """The trace of one rollout as it is read from disk."""
    model = vf.Scripted(["the reply"], cycle=True)
    vf.evaluate([task], model=model, harness=harness, dir=folder, **settings).wait(quiet=True)
    return vf.load(folder).traces[0]


# Listings


@pytest.fixture(params=["cell", "module", "postponed"])
def context_task(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """`ContextTask` of the page, made in three ways."""
    source = ours(FILE_ANSWERS)
    if request.param == "cell":
        return run_cell(source)
    if request.param == "postponed":
        source = "from __future__ import annotations\n" + source
    return vars(module_file(source, tmp_path / f"context_{request.param}.py"))


def _context(space: Any) -> vf.Task:
    data = space["ContextData"](prompt="Read, then answer.", context="the text", answer="42")
    return space["ContextTask"](data)


@vf.harness
async def writes(session: vf.HarnessSession, task: vf.Task) -> str:
    assert await session.runtime.read("/workspace/context.txt") == b"the text"
    await session.runtime.write("/workspace/answer.txt", b"42\n")
    return (await session.complete("hi")).text


@vf.harness
async def replies(session: vf.HarnessSession, task: vf.Task) -> str:
    await session.complete("hi")
    return "42"


@pytest.mark.parametrize("harness", [writes, replies], ids=["file", "reply"])
def test_the_listing_of_file_answers(context_task: Any, harness: Any, tmp_path: Path) -> None:
    trace = _run(_context(context_task), tmp_path / "run", harness, runtime="toy")
    assert (trace.info["answer"], trace.metrics, trace.reward) == ("42", {"answered": 1.0}, 1.0)
    assert ToyContainer.made


def test_the_listing_of_file_answers_needs_a_container(context_task: Any) -> None:
    with pytest.raises(ConfigError, match="ContextTask sets NEEDS_CONTAINER"):
        vf.evaluate([_context(context_task)], model=vf.Scripted(["x"]), runtime="subprocess")


@pytest.mark.parametrize("place", ["cell", "module"])
def test_the_listing_of_a_picture(place: str, tmp_path: Path) -> None:
    image = Image.new("RGB", (2, 2), (0, 0, 200))
    if place == "cell":
        space = run_cell("from PIL import Image\nimage = Image.new('RGB', (2, 2), (0, 0, 200))")
        data = run_cell(ours(MULTIMODAL), space)["data"]
    else:
        source = "from PIL import Image\nimage = Image.new('RGB', (2, 2), (0, 0, 200))\n" + ours(MULTIMODAL)
        data = module_file(source, tmp_path / "picture_listing.py").data
    text, picture = data.prompt[0].content
    assert text.text == data.prompt_text == "What is shown in this image?"
    assert picture.image_url.url == image_data_url(image)


# Rules


def test_a_rollout_runs_through_five_stages_in_order(tmp_path: Path) -> None:
    said: list[str] = []

    class Staged(vf.Task[vf.TaskData]):
        def setup(self) -> None:
            said.append("task setup")

        def finalize(self) -> None:
            said.append("task finalize")

        @vf.reward
        def one(self) -> float:
            said.append("scoring")
            return 1.0

    class Told(vf.Harness[vf.HarnessConfig]):
        async def setup(self, session: vf.HarnessSession, task: vf.Task) -> None:
            said.append("harness setup")

        async def run(self, session: vf.HarnessSession, task: vf.Task) -> None:
            said.append("agent")
            await session.complete("hi")

    trace = _run(Staged(vf.TaskData(prompt="x")), tmp_path, Told())
    assert said == ["task setup", "harness setup", "agent", "task finalize", "scoring"]
    assert list(trace.timing) == ["boot", "setup", "agent", "finalize", "scoring"]


def test_the_runtime_is_torn_down_after_scoring(tmp_path: Path) -> None:
    class Where(vf.Task[vf.TaskData]):
        @vf.reward
        async def alive(self, trace: vf.Trace, runtime: vf.Runtime) -> float:
            trace.info["folder"] = (await runtime.run(["pwd"])).stdout.strip()
            return float(Path(trace.info["folder"]).exists())  # noqa: ASYNC240

    trace = _run(Where(vf.TaskData(prompt="x")), tmp_path, runtime="subprocess")
    assert trace.reward == 1.0
    assert not Path(trace.info["folder"]).exists()


class Kept(vf.State):
    seen: int = 0


def test_state_is_for_the_rollout_and_info_is_kept_in_the_trace(tmp_path: Path) -> None:
    class Counted(vf.Task[vf.TaskData, Kept]):
        def setup(self, trace: vf.Trace) -> None:
            trace.state.seen = 1

        def finalize(self, trace: vf.Trace) -> None:
            trace.state.seen += 1
            trace.info["evidence"] = {"list": [1, 2]}

        @vf.reward
        def seen(self, trace: vf.Trace) -> float:
            return float(trace.state.seen)

    trace = _run(Counted(vf.TaskData(prompt="x")), tmp_path)
    assert trace.reward == 2.0
    assert trace.info["evidence"] == {"list": [1, 2]}
    assert "seen" not in trace.model_dump_json(exclude={"rewards", "task"})


def test_an_answer_file_that_is_demanded_is_not_hidden_by_the_reply(tmp_path: Path) -> None:
    class Strict(vf.Task[vf.TaskData]):
        @vf.reward
        async def right(self, runtime: vf.Runtime) -> float:
            return float(await runtime.read("answer.txt") == b"the reply")

    trace = _run(Strict(vf.TaskData(prompt="x")), tmp_path)
    assert trace.reward is None
    assert "MissingFile" in trace.errors[0].message


def test_a_patch_has_the_agents_commits_and_not_what_the_image_had(tmp_path: Path) -> None:
    class Fix(vf.Task[vf.TaskData]):
        async def setup(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
            await repository(runtime)
            await runtime.write("left over.txt", b"the image's")
            trace.info["base"] = await vf.resolve_head(runtime)
            trace.info["ignore"] = await snapshot_untracked(runtime)

        async def finalize(self, trace: vf.Trace, runtime: vf.Runtime) -> None:
            await vf.capture_patch(
                trace, runtime, base_commit=trace.info["base"], ignore=trace.info["ignore"]
            )

        @vf.reward
        async def passes(self, runtime: vf.Runtime) -> float:
            await runtime.write("main.py", b"what a grading script does to the tree\n")
            return 1.0

    @vf.harness
    async def agent(session: vf.HarnessSession, task: vf.Task) -> None:
        await session.complete("hi")
        await session.runtime.write("main.py", b"print('two')\n")
        await commit(session.runtime)
        await session.runtime.write("more.py", b"print('more')\n")

    trace = _run(Fix(vf.TaskData(prompt="x")), tmp_path, agent, runtime="subprocess")
    patch = trace.info["patch"]
    assert trace.errors == []
    assert "+print('more')" in patch
    assert "grading script" not in patch
    # The agent committed everything, the image's file with it; it stays out all the same.
    assert "left over" not in patch and "+print('two')" in patch
