"""The cache of programs: built once, checked, offline afterwards, whatever happens to a builder."""

from __future__ import annotations

import asyncio
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from support.tiny_programs import npm_package, wheel

from vfnb.errors import InstallError
from vfnb.installs import Installed, Node, Npm, PyPI, Recipe, cache_folder, ensure, find, remove, under_way

pytestmark = pytest.mark.usefixtures("programs")


@pytest.fixture(scope="session")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder for a package that several tests install."""
    return tmp_path_factory.mktemp("packages")


def python_program(folder: Path, **settings: Any) -> PyPI:
    return PyPI((wheel(folder),), "1.2.0", **({"program": "tiny-agent", "check": ("--version",)} | settings))


def node_program(folder: Path, hooks: dict[str, str] | None = None, **settings: Any) -> Npm:
    return Npm(npm_package(folder, scripts=hooks), "3.1.4", **({"program": "tiny-node"} | settings))


def test_requirements_in_one_text_are_refused() -> None:
    with pytest.raises(TypeError, match=r"a tuple of requirements, as in \('mine==1\.0',\)"):
        PyPI("mine==1.0", "1.0")  # type: ignore[arg-type]


def install(recipe: Recipe, said: list[str] | None = None) -> Installed:
    return asyncio.run(ensure(recipe, None if said is None else said.append))


def trees(recipe: Recipe) -> list[Path]:
    return sorted((cache_folder() / recipe.key).glob("tree-*"))


def broken_registries(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing can be fetched from now on."""
    for name in ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "PIP_INDEX_URL", "npm_config_registry"):
        monkeypatch.setenv(name, "http://127.0.0.1:9/")
    monkeypatch.setenv("PATH", "/nonexistent")


def test_a_python_program_is_installed_once_and_then_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, said = python_program(tmp_path), []
    assert find(recipe) is None
    installed = install(recipe, said)
    assert installed.printed == "tiny-agent 1.2.0 (test)"
    assert said[0] == "tiny-agent 1.2.0: installing" and said[-1].startswith("tiny-agent 1.2.0: installed in")
    broken_registries(monkeypatch)
    more: list[str] = []
    assert install(recipe, more) == installed == find(recipe)
    assert more == [] and under_way() == []


def test_only_the_program_is_on_its_path(shared: Path) -> None:
    installed = install(python_program(shared))
    assert [path.name for path in installed.bin.iterdir()] == ["tiny-agent"]
    env = installed.environment({"PATH": "/usr/bin", "PYTHONPATH": "/elsewhere"})
    assert env == {"PATH": f"{installed.bin}:/usr/bin", "PYTHONPATH": ""}
    printed = subprocess.run(["tiny-agent", "--version"], env=env, capture_output=True, text=True, check=True)
    assert printed.stdout.strip() == installed.printed


def test_packages_to_import_need_no_program(tmp_path: Path) -> None:
    installed = install(python_program(tmp_path, program="", check=()))
    assert (
        installed.name == "tiny_agent" and installed.printed == "1.2.0" and not list(installed.bin.iterdir())
    )
    assert installed.python is not None
    subprocess.run([installed.python, "-c", "import tiny_agent"], check=True)
    compiled = list(installed.folder.glob("env/lib/*/site-packages/__pycache__/tiny_agent.*.pyc"))
    assert len(compiled) == 1


def test_another_version_than_asked_for_is_an_error_that_names_both(tmp_path: Path) -> None:
    recipe = PyPI((wheel(tmp_path),), "1.2", program="tiny-agent", check=("--version",))
    with pytest.raises(InstallError, match=r"version 1\.2 was asked for.*'tiny-agent 1\.2\.0 \(test\)'"):
        install(recipe)
    assert find(recipe) is None and trees(recipe) == []


@pytest.mark.parametrize(
    ("printed", "fits"),
    [
        *[(text, True) for text in ("codex-cli 0.171.0", "v0.171.0\n", "0.171.0.", "0.171.0 (x)")],
        *[(text, False) for text in ("10.171.0", "0.171.01", "0.171.0.1", "0.171.0-rc1", "0,171.0", "")],
    ],
)
def test_versions_are_compared_whole(printed: str, fits: bool) -> None:
    assert Npm("codex", "0.171.0", program="codex").matches(printed) is fits


def test_a_missing_program_is_an_error_that_names_those_that_are_there(tmp_path: Path) -> None:
    recipe = python_program(tmp_path, program="tinny-agent")
    with pytest.raises(
        InstallError, match=r"tinny-agent 1\.2\.0 has no program 'tinny-agent'; it has .*tiny-agent"
    ):
        install(recipe)
    assert trees(recipe) == []


def test_an_installer_that_fails_is_an_error_with_its_output_and_can_be_mended(tmp_path: Path) -> None:
    path = tmp_path / "tiny_agent-1.2.0-py3-none-any.whl"
    path.write_bytes(b"no wheel")
    recipe = PyPI((str(path),), "1.2.0", program="tiny-agent")
    with pytest.raises(
        InstallError,
        match=r"(?s)installing tiny-agent 1\.2\.0: `uv pip install ...` ended with.*zip.*pip config",
    ):
        install(recipe)
    assert trees(recipe) == []
    path.unlink()
    assert install(python_program(tmp_path)).program.exists()


def test_another_package_at_the_same_path_is_another_program(tmp_path: Path) -> None:
    first = python_program(tmp_path)
    before = first.key
    with Path(first.requirements[0]).open("ab") as file:
        file.write(b"\0")
    assert first.key != before


def test_an_entry_whose_interpreter_has_gone_is_built_anew(shared: Path) -> None:
    recipe = python_program(shared)
    before = install(recipe)
    assert before.python is not None
    before.python.unlink()
    assert find(recipe) is None
    after = install(recipe)
    assert after.folder != before.folder and trees(recipe) == [after.folder]


def test_an_unreadable_record_is_no_entry(shared: Path) -> None:
    recipe = python_program(shared)
    install(recipe)
    record = cache_folder() / recipe.key / "installed.json"
    for text in ("", "[]", '{"tree": 3}', '{"printed": "x"}'):
        record.write_text(text)
        assert find(recipe) is None
    assert install(recipe).program.exists()


def test_callers_at_the_same_time_share_one_installation(shared: Path) -> None:
    recipe = python_program(shared)
    remove(recipe)
    said: list[list[str]] = [[] for _ in range(20)]

    async def main() -> list[Installed]:
        return await asyncio.gather(*(ensure(recipe, lines.append) for lines in said))

    found = asyncio.run(main())
    assert len({entry.folder for entry in found}) == 1 and trees(recipe) == [found[0].folder]
    assert all(lines[-1].startswith("tiny-agent 1.2.0: installed in") for lines in said)


def test_removed_programs_are_gone(shared: Path) -> None:
    recipe = python_program(shared)
    install(recipe)
    assert remove(recipe) and find(recipe) is None and not remove(recipe)


def test_a_cache_that_cannot_be_written_is_an_error_that_names_the_setting(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("VFNB_CACHE", str(tmp_path / "file"))
    with pytest.raises(InstallError, match="VFNB_CACHE names another folder"):
        install(python_program(tmp_path))


def test_the_cache_is_where_the_platform_keeps_caches() -> None:
    assert cache_folder({"VFNB_CACHE": "/x"}) == Path("/x/programs")
    assert cache_folder({"XDG_CACHE_HOME": "/y"}) == Path("/y/vfnb/programs")
    assert cache_folder({}) == Path.home() / ".cache/vfnb/programs"


# npm


def test_an_npm_program_runs_on_the_node_that_came_with_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    recipe, said = node_program(tmp_path, {"postinstall": "node made.js"}), []
    installed = install(recipe, said)
    assert installed.printed == f"tiny-node/3.1.4 on v{Node().version} true"
    node = find(Node())
    assert node is not None and installed.path == (installed.folder / "bin", node.bin)
    broken_registries(monkeypatch)
    assert install(recipe) == installed


def test_install_scripts_can_be_kept_from_running_and_a_command_run_instead(tmp_path: Path) -> None:
    recipe = node_program(tmp_path, {"postinstall": "exit 3"}, scripts=False)
    assert install(recipe).printed.endswith("false")
    after = Npm(recipe.package, "3.1.4", program="tiny-node", scripts=False, after=("tiny-node/made.js", "x"))
    assert install(after).printed.endswith("true")


def test_a_failing_install_script_is_told(tmp_path: Path) -> None:
    recipe = node_program(tmp_path, {"postinstall": "echo the disk is made of cheese; exit 3"})
    with pytest.raises(
        InstallError, match=r"(?s)`node npm-cli.js install ...` ended.*cheese.*npm config list"
    ):
        install(recipe)


def test_an_older_npm_package_than_asked_for_is_refused(tmp_path: Path) -> None:
    recipe = Npm(npm_package(tmp_path, "3.1.3"), "3.1.4", program="tiny-node")
    with pytest.raises(InstallError, match=r"version 3\.1\.4 was asked for.*'tiny-node/3\.1\.3 on"):
        install(recipe)


# builders that are interrupted, and several at once

BUILDER = """
import asyncio, sys
from vfnb.installs import Npm, PyPI, ensure
kind, package, version, program = sys.argv[1:]
recipe = Npm(package, version, program=program) if kind == "npm" else PyPI((package,), version, program=program)
print(asyncio.run(ensure(recipe, lambda line: print(line, flush=True))).folder, flush=True)
"""


def builder(*words: str) -> subprocess.Popen[str]:
    return subprocess.Popen([sys.executable, "-c", BUILDER, *words], stdout=subprocess.PIPE, text=True)


def waiting_package(folder: Path) -> tuple[str, Path]:
    """An npm package whose installation lasts as long as a file exists."""
    gate = folder / "gate"
    gate.touch()
    return npm_package(folder, scripts={"preinstall": f"while [ -e {gate} ]; do sleep 0.1; done"}), gate


def scripts_of(gate: Path) -> list[int]:
    """Processes that wait for the gate."""
    return [
        int(path.parent.name)
        for path in Path("/proc").glob("[0-9]*/cmdline")
        if str(gate).encode() in _read(path)
    ]


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def until(condition: Any, seconds: float = 20.0) -> None:
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def test_two_processes_install_once(tmp_path: Path) -> None:
    package = wheel(tmp_path)
    recipe = PyPI((package,), "1.2.0", program="tiny-agent")
    both = [builder("pypi", package, "1.2.0", "tiny-agent") for _ in range(2)]
    outputs = [process.communicate(timeout=50)[0].splitlines() for process in both]
    assert outputs[0][-1] == outputs[1][-1] == str(trees(recipe)[0]) and len(trees(recipe)) == 1
    assert sum("checking its version" in line for lines in outputs for line in lines) == 1


def test_a_killed_builder_blocks_nobody(tmp_path: Path) -> None:
    install(Node())
    package, gate = waiting_package(tmp_path)
    recipe = Npm(package, "3.1.4", program="tiny-node")
    first = builder("npm", package, "3.1.4", "tiny-node")
    until(lambda: scripts_of(gate))
    second = builder("npm", package, "3.1.4", "tiny-node")
    assert second.stdout is not None
    until(lambda: "waiting for another process" in (second.stdout.readline() if second.stdout else ""))
    (abandoned,) = trees(recipe)
    first.kill()
    first.communicate()
    for pid in scripts_of(gate):
        os.kill(pid, signal.SIGKILL)
    gate.unlink()
    folder = second.communicate(timeout=50)[0].splitlines()[-1]
    assert Path(folder) != abandoned and find(recipe) is not None
    record = json.loads((cache_folder() / recipe.key / "installed.json").read_bytes())
    assert record["tree"] == Path(folder).name and record["printed"].startswith("tiny-node/3.1.4")


def test_cancelling_the_last_caller_ends_the_installer(tmp_path: Path) -> None:
    install(Node())
    package, gate = waiting_package(tmp_path)
    recipe = Npm(package, "3.1.4", program="tiny-node")

    async def main() -> None:
        first, second = (asyncio.ensure_future(ensure(recipe)) for _ in range(2))
        await asyncio.to_thread(until, lambda: scripts_of(gate))
        first.cancel()
        await asyncio.sleep(0.2)
        assert (
            scripts_of(gate)
            and len(under_way()) == 1
            and under_way()[0].startswith("tiny-node 3.1.4: installing (")
        )
        second.cancel()
        await asyncio.wait({first, second})
        assert first.cancelled() and second.cancelled()

    asyncio.run(main())
    until(lambda: not scripts_of(gate) and not trees(recipe))
    assert under_way() == []
    gate.unlink()
    assert install(recipe).program.exists()


@pytest.mark.real
@pytest.mark.timeout(120)
def test_without_uv_pip_installs(tmp_path: Path) -> None:
    """In an interpreter that has no uv beside it nor on PATH."""
    subprocess.run([sys.executable, "-m", "venv", "--without-pip", tmp_path / "bare"], check=True)
    env = {**os.environ, "PATH": "/usr/bin:/bin", "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    python = tmp_path / "bare/bin/python"
    words = [python, "-c", BUILDER, "pypi", wheel(tmp_path, "1.3.0"), "1.3.0", "tiny-agent"]
    done = subprocess.run(words, env=env, capture_output=True, text=True, timeout=110)
    assert done.returncode == 0, done.stderr
    folder = Path(done.stdout.splitlines()[-1])
    assert (folder / "env/bin/pip").exists()
    printed = subprocess.run(
        [folder / "bin/tiny-agent", "--version"], capture_output=True, text=True, check=True
    )
    assert printed.stdout.startswith("tiny-agent 1.3.0")


def test_an_interrupted_installer_ends_with_all_it_started(tmp_path: Path) -> None:
    install(Node())
    package, gate = waiting_package(tmp_path)
    process = builder("npm", package, "3.1.4", "tiny-node")
    until(lambda: scripts_of(gate))
    process.send_signal(signal.SIGINT)
    process.communicate(timeout=20)
    assert process.returncode != 0
    until(lambda: not scripts_of(gate))
    assert trees(Npm(package, "3.1.4", program="tiny-node")) == []


def test_an_odd_folder_will_do(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    odd = tmp_path / ("a folder with spaces, ümläuts and a long name " * 3).strip()
    monkeypatch.setenv("VFNB_CACHE", str(odd))
    installed = install(python_program(tmp_path))
    assert installed.printed == "tiny-agent 1.2.0 (test)" and installed.folder.is_relative_to(odd)


def test_an_installed_program_needs_no_network_and_no_write(tmp_path: Path) -> None:
    """In a network namespace of its own, where not even the loopback is up."""
    package = wheel(tmp_path)
    installed = install(PyPI((package,), "1.2.0", program="tiny-agent"))
    words = [
        "unshare",
        "--net",
        "--map-root-user",
        sys.executable,
        "-c",
        BUILDER,
        "pypi",
        package,
        "1.2.0",
        "tiny-agent",
    ]
    if (
        shutil.which("unshare") is None
        or subprocess.run([*words[:3], "true"], capture_output=True).returncode
    ):
        pytest.skip("this machine makes no network namespaces for us")
    done = subprocess.run(words, capture_output=True, text=True, timeout=30)
    assert done.stdout.splitlines() == [str(installed.folder)], done.stderr
