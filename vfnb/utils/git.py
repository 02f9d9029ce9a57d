"""The repository inside a box: its commit, its untracked files, what the agent changed.

Needs git 2.25 or newer in the box. Nothing here changes the repository: index and new objects of a capture go
into a temporary folder, so that an agent's staged changes and marks on files (assume-unchanged, skip-worktree)
neither matter nor get lost.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING

from vfnb.errors import ConfigError, RuntimeFault, TasksetError
from vfnb.utils.ids import new_id

if TYPE_CHECKING:
    from vfnb.runtimes import ProgramResult, Runtime
    from vfnb.trace import Trace

__all__ = ["PATCH_LIMIT", "capture_patch", "resolve_head", "snapshot_untracked"]

PATCH_LIMIT = 2_000_000
"""Bytes of a patch that are kept; a longer one is cut and `trace.info["patch_truncated"]` is True."""

# The agent owns the repository, so its settings must not decide what a patch looks like.
_START = """
set -eu
tmp=$(mktemp -d)
trap '[ $? -eq 0 ] || rm -rf "$tmp"' EXIT
printf '%s\\n' "$tmp"
[ -z "${VFNB_IGNORE:-}" ] || mv "$VFNB_IGNORE" "$tmp/ignore"
g() { git -c safe.directory='*' -c core.fsmonitor=false -c core.untrackedCache=false "$@"; }
cd "$VFNB_REPO"
cd "$(g rev-parse --show-toplevel)"
"""
_UNTRACKED = _START + 'g ls-files --others --exclude-standard -z > "$tmp/out"\n'
_DIFF = (
    _START
    + """
if [ -n "$VFNB_BASE" ]; then
    base=$(g rev-parse --verify --quiet "$VFNB_BASE^{commit}") || {
        echo "commit $VFNB_BASE is not in the repository" >&2; exit 3; }
else
    base=$(g rev-parse --verify --quiet 'HEAD^{commit}') || base=$(g hash-object -t tree /dev/null)
fi
objects=$(cd "$(g rev-parse --git-path objects)" && pwd)
mkdir "$tmp/objects"
export GIT_INDEX_FILE="$tmp/index" GIT_OBJECT_DIRECTORY="$tmp/objects"
export GIT_ALTERNATE_OBJECT_DIRECTORIES="$objects"
g read-tree "$base"
if [ -n "$VFNB_IGNORE" ]; then
    g add -A --pathspec-from-file="$tmp/ignore" --pathspec-file-nul
else
    g add -A
fi
g diff --cached --binary --no-ext-diff --no-textconv --no-color -M --src-prefix=a/ --dst-prefix=b/ "$base" -- \\
    > "$tmp/full"
head -c "$VFNB_LIMIT" "$tmp/full" > "$tmp/out"
rm -rf "$tmp/full" "$tmp/objects"
"""
)
_REVISION = re.compile(r"[0-9A-Za-z_][\w./^~@{}-]*")


async def resolve_head(runtime: Runtime, *, cwd: str | PurePath = ".") -> str:
    """The commit that is checked out, as 40 (or 64) hex digits.

    Call it in `setup`, keep it on `trace.state` or in `trace.info`, and give it to `capture_patch`.

    Args:
        cwd: a folder of the repository, relative to the box's working folder.

    Raises:
        TasksetError: there is no repository, or it has no commit.
    """
    argv = ["git", "-c", "safe.directory=*", "rev-parse", "--verify", "HEAD^{commit}"]
    result = await runtime.run(argv, cwd=cwd)
    if not result.ok:
        raise TasksetError(
            f"resolve_head: no commit in {cwd} of the runtime; prepare the repository first ({_reason(result)})"
        )
    return result.stdout.strip()


async def snapshot_untracked(runtime: Runtime, *, cwd: str | PurePath = ".") -> list[str]:
    """The untracked files that git does not ignore, relative to the repository's top folder.

    Call it in `setup` and give it to `capture_patch(ignore=...)`: what the image left lying around is then not
    taken for the agent's work. Names that are not UTF-8 survive (`surrogateescape`).

    Raises:
        TasksetError: there is no repository.
    """
    result = await runtime.run(["sh", "-c", _UNTRACKED], {"VFNB_REPO": str(cwd)})
    if not result.ok:
        raise TasksetError(
            f"snapshot_untracked: no repository in {cwd} of the runtime; prepare it first ({_reason(result)})"
        )
    raw = await _collect(runtime, result)
    return [name for name in raw.decode("utf-8", "surrogateescape").split("\0") if name]


async def capture_patch(
    trace: Trace,
    runtime: Runtime,
    base_commit: str | None = None,
    *,
    ignore: Sequence[str] = (),
    cwd: str | PurePath = ".",
) -> str | None:
    """Everything the agent changed, as one git patch (binary files included), in `trace.info["patch"]`.

    Call it in `finalize`, before tests touch the repository. New files are in it unless git ignores them;
    `git apply` takes it. A repository that the agent broke is no accident of ours: the patch is then None and
    `trace.info["patch_error"]` says why.

    Args:
        base_commit: the commit before the agent's work, so that commits of its own are in the patch; None takes
            what is checked out now.
        ignore: untracked files of before, from `snapshot_untracked`.
        cwd: a folder of the repository, relative to the box's working folder.

    Raises:
        ConfigError: `base_commit` is no commit's name, or the runtime runs no programs.
        RuntimeFault: the box itself failed.
    """
    if base_commit and not _REVISION.fullmatch(base_commit):
        raise ConfigError(f"base_commit={base_commit!r} is no commit's name; give its hash")
    env = {
        "VFNB_REPO": str(cwd),
        "VFNB_BASE": base_commit or "",
        "VFNB_LIMIT": str(PATCH_LIMIT + 1),
        "VFNB_IGNORE": f".vfnb-ignore-{new_id()}" if ignore else "",
    }
    if ignore:
        spec = "\0".join([":/", *(f":(top,exclude,literal){name}" for name in ignore)])
        await runtime.write(env["VFNB_IGNORE"], spec.encode("utf-8", "surrogateescape"))
    result = await runtime.run(["sh", "-c", _DIFF], env)
    if not result.ok:
        trace.info["patch"] = None
        trace.info["patch_error"] = _reason(result)
        return None
    raw = await _collect(runtime, result)
    if len(raw) > PATCH_LIMIT:
        raw = raw[:PATCH_LIMIT]
        trace.info["patch_truncated"] = True
    patch = raw.decode("utf-8", "replace")
    trace.info["patch"] = patch
    return patch


async def _collect(runtime: Runtime, result: ProgramResult) -> bytes:
    """The output file in the temporary folder that the script named, and the folder's end."""
    folder = result.stdout.splitlines()[0]
    try:
        return await runtime.read(f"{folder}/out")
    finally:
        await runtime.run(["rm", "-rf", folder])


def _reason(result: ProgramResult) -> str:
    if result.timed_out:
        raise RuntimeFault(f"git did not end within {result.duration_s:.0f} s")
    return result.stderr.strip()[-500:] or f"exit status {result.returncode}"
