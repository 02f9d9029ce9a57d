"""Patches, commits and untracked files of real repositories in a subprocess box."""

from __future__ import annotations

import asyncio

import pytest
from support.boxes import commit, in_box, repository, sh

import vfnb as vf
from vfnb.errors import ConfigError, TasksetError
from vfnb.runtimes import Runtime
from vfnb.utils.git import PATCH_LIMIT, snapshot_untracked


def _fresh(patch: str, show: str) -> str:
    """What `show` prints in a fresh repository after `git apply`."""

    async def work(box: Runtime) -> str:
        await repository(box)
        await box.write("agent.patch", patch.encode())
        await sh(box, "git apply agent.patch")
        return await sh(box, show)

    return str(in_box(work))


def test_a_patch_has_edits_new_files_deletions_and_binary_files() -> None:
    async def work(box: Runtime) -> vf.Trace:
        await repository(box)
        await box.write("main.py", b"print('two')\n")
        await box.write("new dir/\u00e9 file.txt", b"new\n")
        await box.write("data.bin", bytes(reversed(range(256))))
        await box.write("noise.log", b"ignored by git\n")
        trace = vf.Trace()
        patch = await vf.capture_patch(trace, box)
        assert patch == trace.info["patch"]
        return trace

    patch = in_box(work).info["patch"]
    assert "noise.log" not in patch
    shown = _fresh(patch, "cat main.py; cat 'new dir/\u00e9 file.txt'; od -An -tu1 -N3 data.bin")
    assert shown.split() == ["print('two')", "new", "255", "254", "253"]


def test_commits_of_the_agent_are_in_the_patch_if_the_base_commit_is_given() -> None:
    async def work(box: Runtime) -> tuple[str | None, str | None]:
        await repository(box)
        base = await vf.resolve_head(box)
        assert len(base) == 40
        await box.write("main.py", b"print('two')\n")
        await commit(box, "of the agent")
        await box.write("main.py", b"print('three')\n")
        trace = vf.Trace()
        return await vf.capture_patch(trace, box, base_commit=base), await vf.capture_patch(trace, box)

    whole, last = in_box(work)
    assert "-print('one')" in whole and "+print('three')" in whole
    assert "-print('two')" in last


def test_untracked_files_of_the_image_stay_out_whatever_their_names() -> None:
    names = [
        "left over.txt",
        "a*b.txt",
        "[x].txt",
        "-dash",
        "line\nbreak",
        "\udcff\udcfe.bin",
        "data/deep.txt",
    ]

    async def work(box: Runtime) -> vf.Trace:
        await repository(box)
        for name in names:
            await box.write(f"./{name}", b"the image's\n")
        known = await snapshot_untracked(box)
        assert sorted(known) == sorted(names)
        await box.write("axxb.txt", b"the agent's\n")  # would match the pattern a*b.txt
        await box.write("data/mine.txt", b"the agent's\n")
        await box.write("left over.txt", b"changed by the agent\n")
        trace = vf.Trace()
        await vf.capture_patch(trace, box, ignore=known)
        assert await sh(box, "ls -A | grep -c vfnb || true") == "0\n"
        return trace

    patch = in_box(work).info["patch"]
    assert {line.split(" b/")[1] for line in patch.splitlines() if line.startswith("diff ")} == {
        "axxb.txt",
        "data/mine.txt",
    }


def test_a_nested_repository_of_the_image_can_be_ignored() -> None:
    async def work(box: Runtime) -> vf.Trace:
        await repository(box)
        await sh(box, "mkdir vendored && git -C vendored init -q")  # without a commit git refuses to add it
        known = await snapshot_untracked(box)
        await box.write("main.py", b"print('two')\n")
        trace = vf.Trace()
        await vf.capture_patch(trace, box, ignore=known)
        return trace

    info = in_box(work).info
    assert "patch_error" not in info
    assert "+print('two')" in info["patch"]


def test_a_capture_changes_nothing_in_the_repository() -> None:
    look = (
        "git status --porcelain; git count-objects -v; git ls-files -s; git diff --cached; ls -A .. $TMPDIR"
    )

    async def work(box: Runtime) -> None:
        await repository(box)
        await box.write("main.py", b"print('staged')\n")
        await sh(box, "git add main.py")
        await box.write("main.py", b"print('not staged')\n")
        await box.write("new.txt", b"new\n")
        before = await sh(box, look)
        trace = vf.Trace()
        await vf.capture_patch(trace, box, ignore=["other.txt"])
        assert "+print('not staged')" in trace.info["patch"]
        assert await sh(box, look) == before

    in_box(work)


def test_changes_cannot_be_hidden_by_marks_or_settings() -> None:
    async def work(box: Runtime) -> vf.Trace:
        await repository(box)
        await sh(
            box,
            "git update-index --assume-unchanged main.py; git config diff.noprefix true;"
            "git config diff.external true; git config core.quotePath false; git config color.diff always",
        )
        await box.write("main.py", b"print('two')\n")
        trace = vf.Trace()
        await vf.capture_patch(trace, box)
        return trace

    patch = in_box(work).info["patch"]
    assert _fresh(patch, "cat main.py") == "print('two')\n"


def test_a_long_patch_is_cut_and_marked() -> None:
    async def work(box: Runtime) -> vf.Trace:
        await repository(box)
        await box.write("big.txt", b"0123456789\n" * 400_000)
        trace = vf.Trace()
        await vf.capture_patch(trace, box)
        return trace

    info = in_box(work).info
    assert len(info["patch"]) == PATCH_LIMIT
    assert info["patch_truncated"] is True


def test_a_repository_that_the_agent_broke_is_recorded_and_raises_nothing() -> None:
    async def work(box: Runtime) -> vf.Trace:
        await repository(box)
        await sh(box, "rm -rf .git")
        trace = vf.Trace()
        assert await vf.capture_patch(trace, box, ignore=["x"]) is None
        assert await sh(box, "ls $TMPDIR; ls -A | grep -c vfnb || true") == "0\n"
        return trace

    info = in_box(work).info
    assert info["patch"] is None
    assert "not a git repository" in info["patch_error"]


def test_a_base_commit_that_is_gone_is_named() -> None:
    async def work(box: Runtime) -> vf.Trace:
        await repository(box)
        trace = vf.Trace()
        await vf.capture_patch(trace, box, base_commit="0" * 40)
        with pytest.raises(ConfigError, match="no commit's name"):
            await vf.capture_patch(trace, box, base_commit="--output=/tmp/x")
        return trace

    assert "0000 is not in the repository" in in_box(work).info["patch_error"]


def test_a_repository_without_a_commit_gives_everything() -> None:
    async def work(box: Runtime) -> str | None:
        await box.write("repo/a.txt", b"a\n")
        await sh(box, "git -C repo init -q")
        with pytest.raises(TasksetError, match="prepare the repository first"):
            await vf.resolve_head(box, cwd="repo")
        return await vf.capture_patch(vf.Trace(), box, cwd="repo")

    assert "+++ b/a.txt" in in_box(work)


def test_helpers_in_setup_fail_loudly_without_a_repository() -> None:
    async def work(box: Runtime) -> None:
        with pytest.raises(TasksetError, match="not a git repository"):
            await vf.resolve_head(box)
        with pytest.raises(TasksetError, match="not a git repository"):
            await snapshot_untracked(box)

    in_box(work)


def test_captures_at_the_same_time_do_not_meet() -> None:
    async def work(box: Runtime) -> list[str | None]:
        for number in range(4):
            await repository(box, f"r{number}")
            await box.write(f"r{number}/main.py", f"print({number})\n".encode())
        captures = (vf.capture_patch(vf.Trace(), box, cwd=f"r{number}", ignore=["x"]) for number in range(4))
        return await asyncio.gather(*captures)

    patches = in_box(work)
    assert [f"+print({number})" in patch for number, patch in enumerate(patches)] == [True] * 4
