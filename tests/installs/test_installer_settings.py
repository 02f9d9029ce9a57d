"""Where packages come from: what the user has told pip, uv is told too."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from support.tiny_programs import wheel

from vfnb.errors import InstallError
from vfnb.installs import PyPI, ensure
from vfnb.installs.settings import installer_environment, pip_files, pip_settings


@pytest.fixture(autouse=True)
def _no_settings_of_uv(monkeypatch: pytest.MonkeyPatch) -> None:
    ours = (
        "UV_DEFAULT_INDEX",
        "UV_INDEX_URL",
        "UV_INDEX",
        "UV_EXTRA_INDEX_URL",
        "UV_FIND_LINKS",
        "PIP_FIND_LINKS",
    )
    for name in ours:
        monkeypatch.delenv(name, raising=False)


def config(folder: Path, text: str) -> dict[str, str]:
    (folder / "pip.conf").write_text(text)
    return {"PIP_CONFIG_FILE": str(folder / "pip.conf"), "HOME": str(folder), "PATH": "/bin"}


def test_pips_settings_reach_uv_in_its_own_words(tmp_path: Path) -> None:
    text = """
[global]
index-url = https://me:secret@mirror.example/simple
extra-index-url = file:///one/simple
    file:///two/simple
timeout = 60
[install]
find-links = /wheels
    /more
trusted-host = mirror.example
no-index = true
"""
    given = config(tmp_path, text)
    assert installer_environment(given) == given | {
        "UV_DEFAULT_INDEX": "https://me:secret@mirror.example/simple",
        "UV_INDEX": "file:///one/simple file:///two/simple",
        "UV_FIND_LINKS": "/wheels,/more",
        "UV_OFFLINE": "1",
        "UV_INSECURE_HOST": "mirror.example",
        "UV_INDEX_STRATEGY": "unsafe-best-match",
    }


def test_variables_win_over_files_and_uvs_own_settings_over_pips(tmp_path: Path) -> None:
    given = config(tmp_path, "[global]\nindex-url = https://mirror.example/simple\n")
    asked = given | {"PIP_INDEX_URL": "https://other.example/simple", "PIP_CERT": "/ca.pem"}
    found = installer_environment(asked)
    assert (found["UV_DEFAULT_INDEX"], found["SSL_CERT_FILE"]) == ("https://other.example/simple", "/ca.pem")
    assert installer_environment(asked | {"UV_INDEX_URL": "x"}) == asked | {"UV_INDEX_URL": "x"}
    assert installer_environment(asked | {"SSL_CERT_FILE": "/mine"})["SSL_CERT_FILE"] == "/mine"


def test_what_belongs_to_this_interpreter_is_left_out(tmp_path: Path) -> None:
    given = config(tmp_path, "this is no configuration")
    assert installer_environment(given | {"PYTHONPATH": "/x", "VIRTUAL_ENV": "/y"}) == given


def test_pips_own_files_are_known() -> None:
    assert Path("/etc/pip.conf") in pip_files({})
    assert Path("/configs/pip/pip.conf") in pip_files({"XDG_CONFIG_HOME": "/configs"})
    assert pip_settings({}, [Path("/nowhere/pip.conf")]) == {}


@pytest.mark.usefixtures("programs")
def test_a_package_is_found_where_pip_is_told_to_look(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "wheels").mkdir()
    wheel(tmp_path / "wheels", "1.9.1")
    config(tmp_path, f"[global]\nno-index = true\nfind-links = {tmp_path / 'wheels'}\n")
    monkeypatch.setenv("PIP_CONFIG_FILE", str(tmp_path / "pip.conf"))
    recipe = PyPI(("tiny-agent==1.9.1",), "1.9.1", program="tiny-agent")
    assert asyncio.run(ensure(recipe)).printed == "1.9.1"
    with pytest.raises(InstallError, match=r"(?s)installing tiny-agent 1\.9\.2: .*tiny-agent==1\.9\.2"):
        asyncio.run(ensure(PyPI(("tiny-agent==1.9.2",), "1.9.2", program="tiny-agent")))


@pytest.mark.usefixtures("programs")
def test_passwords_of_indexes_are_not_in_errors(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_CONFIG_FILE", "/dev/null")
    monkeypatch.setenv("PIP_INDEX_URL", "http://me:hunter2@127.0.0.1:9/simple")
    monkeypatch.setenv("UV_HTTP_RETRIES", "0")
    with pytest.raises(InstallError) as caught:
        asyncio.run(ensure(PyPI(("no-such-thing==1.0",), "1.0")))
    assert "127.0.0.1:9" in str(caught.value) and "hunter2" not in str(caught.value)
