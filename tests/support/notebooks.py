"""Write, run and read small notebooks in tests."""

from __future__ import annotations

from pathlib import Path

import nbformat
from nbclient import NotebookClient

__all__ = ["execute", "write_notebook"]


def write_notebook(path: Path, *cells: str) -> Path:
    """A notebook of code cells for the Python kernel, without outputs."""
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(metadata={"kernelspec": kernel})
    for index, source in enumerate(cells):
        notebook.cells.append(nbformat.v4.new_code_cell(source, id=f"cell-{index}"))
    nbformat.write(notebook, path)
    return path


def execute(path: Path, timeout_s: float = 120) -> nbformat.NotebookNode:
    """Run a notebook in its own folder and return it with outputs and without widget state.

    Raises:
        nbclient.exceptions.CellExecutionError: if a cell raises.
    """
    notebook = nbformat.read(path, as_version=4)
    resources = {"metadata": {"path": str(path.parent)}}
    NotebookClient(
        notebook, timeout=timeout_s, kernel_name="python3", store_widget_state=False, resources=resources
    ).execute()
    return notebook
