"""A private JupyterLab or Notebook on loopback: nothing of the user's settings, nothing beside the notebooks."""

from __future__ import annotations

import json
import os
import secrets
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import quote

__all__ = ["Lab", "lab_server"]

# Read from an overrides file of our own: the user's and the environment's settings stay out of the test.
SETTINGS = {
    # The question about news and the update notice cover the page.
    "@jupyterlab/apputils-extension:notification": {
        "fetchNews": "false",
        "checkForUpdates": False,
        "doNotDisturbMode": True,
    },
    # Autosave would rewrite the notebook under test.
    "@jupyterlab/docmanager-extension:plugin": {"autosave": False},
    # Windowing detaches the cells outside the window; without auto-start a dialog asks for the kernel.
    "@jupyterlab/notebook-extension:tracker": {
        "windowingMode": "none",
        "autoStartDefaultKernel": True,
        "scrollPastEnd": False,
    },
}


@dataclass(frozen=True)
class Lab:
    """A running server."""

    base: str
    token: str
    app: str = "jupyterlab"
    """`jupyterlab` or `notebook` (Notebook 7)."""

    def url(self, notebook: str) -> str:
        """The page that shows one notebook, in a fresh workspace."""
        page = "doc/tree" if self.app == "jupyterlab" else "notebooks"
        return f"{self.base}/{page}/{quote(notebook)}?reset&token={self.token}"


@contextmanager
def lab_server(root: Path, timeout_s: float = 120, *, app: str = "jupyterlab") -> Iterator[Lab]:
    """Run JupyterLab (or Notebook 7 as `app="notebook"`) with `root` as its folder.

    Raises:
        RuntimeError: if it is not up within `timeout_s`; the message has the end of its log.
    """
    with tempfile.TemporaryDirectory(prefix="vfnb-lab-") as folder:
        home = Path(folder)
        lab = Lab(f"http://127.0.0.1:{_free_port()}", secrets.token_urlsafe(24), app)
        config = _write_config(home, root, lab)
        folders = ("JUPYTER_CONFIG_DIR", "JUPYTER_DATA_DIR", "JUPYTER_RUNTIME_DIR", "IPYTHONDIR")
        log = home / "lab.log"
        with log.open("wb") as output:
            server = subprocess.Popen(
                [sys.executable, "-m", app, f"--config={config}"],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env=os.environ | {name: str(home / name.lower()) for name in folders},
            )
        try:
            _wait_until_up(server, lab, log, timeout_s)
            yield lab
        finally:
            _stop(server)


def _free_port() -> int:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        return int(sock.getsockname()[1])


def _write_config(home: Path, root: Path, lab: Lab) -> Path:
    settings = home / "settings"
    settings.mkdir()
    (settings / "overrides.json").write_text(json.dumps(SETTINGS))
    values: dict[str, object] = {
        "ServerApp.ip": "127.0.0.1",
        "ServerApp.port": int(lab.base.rsplit(":", 1)[1]),
        "ServerApp.port_retries": 0,
        "ServerApp.root_dir": str(root),
        "ServerApp.open_browser": False,
        "ServerApp.allow_root": True,
        "IdentityProvider.token": lab.token,
        "FileCheckpoints.checkpoint_dir": str(home / "checkpoints"),
        "LabApp.extension_manager": "readonly",
        "LabApp.news_url": None,
    }
    for name in ("LabApp", "JupyterNotebookApp"):
        values[f"{name}.app_settings_dir"] = str(settings)
        values[f"{name}.expose_app_in_browser"] = True  # the page's commands are called by name
    config = home / "lab_config.py"
    config.write_text("".join(f"c.{key} = {value!r}\n" for key, value in values.items()))
    return config


def _wait_until_up(server: subprocess.Popen[bytes], lab: Lab, log: Path, timeout_s: float) -> None:
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + timeout_s
    while server.poll() is None and time.monotonic() < deadline:
        try:
            opener.open(f"{lab.base}/api", timeout=5).close()
        except (urllib.error.URLError, OSError):
            time.sleep(0.2)
        else:
            return
    raise RuntimeError(f"{lab.app} did not start; end of its log:\n{log.read_text(errors='replace')[-2000:]}")


def _stop(server: subprocess.Popen[bytes]) -> None:
    """SIGTERM and wait: only a clean stop ends the kernels too."""
    server.terminate()
    try:
        server.wait(30)
    except subprocess.TimeoutExpired:
        server.kill()
        server.wait()
