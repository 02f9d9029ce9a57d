"""Run example notebooks and store their outputs, so that a reader of the file sees what a run shows.

    python scripts/run_notebooks.py NOTEBOOK...

One whose metadata say `"vfnb": {"needs": "torch"}` runs in the environment of `make smollm2`, which has PyTorch.

Cell ids and metadata are made equal from run to run, and no widget state is stored: one plotly widget alone
would add 5 MB of front-end code.
"""

from __future__ import annotations

import shutil
import sys
import tempfile
from pathlib import Path

import nbformat
from jupyter_client import AsyncKernelManager
from jupyter_client.kernelspec import KernelSpec
from nbclient import NotebookClient
from traitlets.config import Config

sys.path.insert(0, str(Path(__file__).parent))

import smollm2

__all__ = ["execute", "needs_torch"]

CELL_TIMEOUT_S = 600


def execute(source: Path, folder: Path) -> nbformat.NotebookNode:
    """Run a notebook with `folder` as its working directory and return it with its outputs.

    Raises:
        nbclient.exceptions.CellExecutionError: if a cell raises; the message names the cell.
    """
    notebook = nbformat.read(source, as_version=4)
    python = smollm2.PYTHON if needs_torch(notebook) else Path(sys.executable)
    with tempfile.TemporaryDirectory() as sockets:
        # Sockets in a private folder: a kernel on TCP ports warns that others on this machine could listen.
        transport = {"transport": "ipc", "ip": f"{sockets}/kernel"}
        client = NotebookClient(
            notebook,
            timeout=CELL_TIMEOUT_S,
            kernel_name="python3",
            store_widget_state=False,
            resources={"metadata": {"path": str(folder)}},
            config=Config({"KernelManager": transport}),
            kernel_manager_class=_manager(python),
        )
        client.execute()
    return notebook


def _manager(python: Path) -> type[AsyncKernelManager]:
    """Starts kernels of one Python, whatever is registered on this machine."""

    class Manager(AsyncKernelManager):
        @property
        def kernel_spec(self) -> KernelSpec:
            return KernelSpec(argv=[str(python), "-m", "ipykernel_launcher", "-f", "{connection_file}"])

    return Manager


def needs_torch(notebook: nbformat.NotebookNode) -> bool:
    """Whether it runs in the environment that has PyTorch."""
    return bool(notebook.metadata.get("vfnb", {}).get("needs") == "torch")


def tidy(notebook: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """Take out what differs between machines and runs: cell ids, times of execution, versions."""
    for index, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{index:02d}"
        cell.metadata.pop("execution", None)
    notebook.metadata.pop("widgets", None)
    notebook.metadata["language_info"] = {"name": "python"}
    return notebook


def refresh(path: Path) -> None:
    with tempfile.TemporaryDirectory() as folder:
        notebook = execute(path, Path(folder))
        written = Path(folder) / path.name
        nbformat.write(tidy(notebook), written)
        shutil.copyfile(written, path)


if __name__ == "__main__":
    for name in sys.argv[1:]:
        refresh(Path(name))
        print(f"{name}: {Path(name).stat().st_size / 1000:.0f} kB")
