"""The cache of installed programs: `programs/NAME-VERSION-HASH`, built aside, checked, published by one rename.

An entry holds `tree-*` folders, in which programs are built and stay, and `installed.json`, which names the
finished one. A folder is never moved, since scripts and links in it have absolute paths; the file appears at once.
"""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from vfnb import loops
from vfnb.errors import InstallError
from vfnb.installs import command
from vfnb.installs.installed import Installed
from vfnb.installs.lock import locked
from vfnb.installs.recipe import Recipe
from vfnb.installs.settings import installer_environment
from vfnb.utils.cache import cache_root
from vfnb.utils.ids import new_id

__all__ = ["Progress", "cache_folder", "ensure", "find", "remove", "under_way"]

Progress = Callable[[str], object]
"""Takes one line that says what is being done. It is called on the engine's thread and must return at once."""

CHECK_S = 300.0
"""Longest that a program may take to say its version; some need a minute for the first time."""
_RECORD = "installed.json"


def cache_folder(environ: Mapping[str, str] = os.environ) -> Path:
    """Where programs are kept: `programs` in the cache (`vfnb.utils.cache`)."""
    return cache_root(environ) / "programs"


def find(recipe: Recipe) -> Installed | None:
    """The program if it is installed and whole. Reads a file, starts nothing, needs no network."""
    entry = cache_folder() / recipe.key
    try:
        record: dict[str, Any] = json.loads((entry / _RECORD).read_bytes())
        tree, printed = entry / record["tree"], str(record["printed"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    needs = [find(need) for need in recipe.needs]
    if None in needs:
        return None
    installed = recipe.installed(tree, printed, [need for need in needs if need is not None])
    return installed if all(part.exists() for part in recipe.parts(installed)) else None


async def ensure(recipe: Recipe, progress: Progress | None = None) -> Installed:
    """The program, installed first if it is not yet. May be awaited from any loop.

    Callers at the same time share one installation; it is given up when the last of them is cancelled.

    Args:
        progress: told what is being done, if anything is.

    Raises:
        InstallError: it cannot be installed, or is another version; with the end of the installer's output.
    """
    found = find(recipe)
    return found if found is not None else await loops.engine().do(_share(recipe, progress))


def under_way() -> list[str]:
    """What is being installed in this process, a line each: for displays. From any thread."""
    return [
        f"{job.recipe.label}: {job.state} ({time.monotonic() - job.since:.0f} s)"
        for job in list(_jobs.values())
    ]


def remove(recipe: Recipe) -> bool:
    """Delete an installed program; False if there is none. Programs that run from it break."""
    entry = cache_folder() / recipe.key
    if not entry.is_dir():
        return False
    (entry / _RECORD).unlink(missing_ok=True)
    shutil.rmtree(entry, ignore_errors=True)
    return True


class _Job:
    """One installation, and all in this process who wait for it. Engine loop only."""

    def __init__(self, recipe: Recipe) -> None:
        self.recipe = recipe
        self.state = "starting"
        self.since = time.monotonic()
        self._listeners: list[Progress] = []
        self._waiting = 0
        self._task: asyncio.Task[Installed] | None = None

    @property
    def over(self) -> bool:
        return self._task is not None and self._task.done()

    def say(self, state: str) -> None:
        self.state = state
        for listener in self._listeners:
            listener(f"{self.recipe.label}: {state}")

    async def join(self, progress: Progress | None) -> Installed:
        if progress is not None:
            self._listeners.append(progress)
            if self._task is not None:
                progress(f"{self.recipe.label}: {self.state}")
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(_install(self.recipe, self.say))
        self._waiting += 1
        try:
            return await asyncio.shield(self._task)
        finally:
            self._waiting -= 1
            if not self._waiting:
                self._task.cancel()
                if _jobs.get(self.recipe.key) is self:  # whoever comes now starts anew
                    del _jobs[self.recipe.key]


_jobs: dict[str, _Job] = {}
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_jobs.clear)  # the loop that works on them is not there


async def _share(recipe: Recipe, progress: Progress | None) -> Installed:
    job = _jobs.get(recipe.key)
    if job is None or job.over:
        job = _jobs[recipe.key] = _Job(recipe)
    return await job.join(progress)


async def _install(recipe: Recipe, say: Progress) -> Installed:
    entry = cache_folder() / recipe.key
    try:
        await asyncio.to_thread(entry.mkdir, parents=True, exist_ok=True)
        needs = [await ensure(need, lambda line: say(f"needs {line}")) for need in recipe.needs]
        async with locked(entry, lambda: say("waiting for another process that installs it")):
            found = await asyncio.to_thread(find, recipe)
            return found or await _build(recipe, entry, needs, say)
    except OSError as error:
        raise InstallError(
            f"installing {recipe.label}: {error}; is {cache_folder()} writable and the disk not full? "
            "VFNB_CACHE names another folder"
        ) from error


async def _build(recipe: Recipe, entry: Path, needs: list[Installed], say: Progress) -> Installed:
    """Build and check in a new folder, then publish it. With the lock, so other folders are leftovers."""
    doing = f"installing {recipe.label}"
    await asyncio.to_thread(_sweep, entry)
    tree = entry / f"tree-{new_id()}"
    tree.mkdir()
    started = time.monotonic()
    try:
        env = installer_environment(os.environ)
        for need in needs:
            env |= need.environment(env)
        say("installing")
        try:
            await recipe.build(tree, needs, lambda argv: command.run(argv, cwd=tree, env=env, doing=doing))
        except InstallError as error:
            raise InstallError(f"{error}\n{recipe.hint}".rstrip()) from error.__cause__
        say("checking its version")
        printed = await _printed(recipe, recipe.installed(tree, "", needs), tree, doing)
        record = {"tree": tree.name, "printed": printed, "recipe": recipe.described(), "at": time.time()}
        await asyncio.to_thread(_publish, entry, record)
    except BaseException:
        await _discard(tree)
        raise
    say(f"installed in {time.monotonic() - started:.0f} s")
    return recipe.installed(tree, printed, needs)


async def _printed(recipe: Recipe, installed: Installed, tree: Path, doing: str) -> str:
    """What the program prints as its version.

    Raises:
        InstallError: another version than was asked for.
    """
    home = tree / ".home"
    home.mkdir()
    env = {**os.environ, **installed.environment(os.environ), "HOME": str(home)}
    asking = command.run(
        recipe.checking(installed), cwd=home, env=env, doing=f"{doing}: checking its version"
    )
    try:
        output = await asyncio.wait_for(asking, CHECK_S)
    except TimeoutError:
        raise InstallError(f"{doing}: the program did not say its version within {CHECK_S:g} s") from None
    await asyncio.to_thread(shutil.rmtree, home, ignore_errors=True)
    if not recipe.matches(output):
        raise InstallError(
            f"{doing}: version {recipe.version} was asked for, but the installed program says "
            f"{command.tail(output) or 'nothing'!r}; ask for that version, or for one that this machine can run"
        )
    lines = [line.strip() for line in output.splitlines() if recipe.matches(line)]
    return lines[0] if lines else output.strip()


def _publish(entry: Path, record: dict[str, Any]) -> None:
    draft = entry / record["tree"] / _RECORD
    with draft.open("w") as file:
        json.dump(record, file, indent=1)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(entry / _RECORD)


async def _discard(tree: Path) -> None:
    try:
        await asyncio.to_thread(shutil.rmtree, tree, ignore_errors=True)
    except RuntimeError:  # the interpreter leaves and has no threads any more
        shutil.rmtree(tree, ignore_errors=True)


def _sweep(entry: Path) -> None:
    """Delete what builders that were killed have left."""
    (entry / _RECORD).unlink(missing_ok=True)
    for leftover in entry.glob("tree-*"):
        shutil.rmtree(leftover, ignore_errors=True)
