"""Write and run small notebooks in tests."""

from __future__ import annotations

import sys
from pathlib import Path

import nbformat

from support.paths import ROOT

sys.path.insert(0, str(ROOT / "scripts"))

from run_notebooks import execute as _execute

__all__ = ["execute", "write_notebook"]


def write_notebook(path: Path, *cells: str) -> Path:
    """A notebook of code cells for the Python kernel, without outputs."""
    kernel = {"name": "python3", "display_name": "Python 3", "language": "python"}
    notebook = nbformat.v4.new_notebook(metadata={"kernelspec": kernel})
    for index, source in enumerate(cells):
        notebook.cells.append(nbformat.v4.new_code_cell(source, id=f"cell-{index}"))
    nbformat.write(notebook, path)
    return path


def execute(path: Path) -> nbformat.NotebookNode:
    """Run a notebook in its own folder and return it with outputs and without widget state.

    Raises:
        nbclient.exceptions.CellExecutionError: if a cell raises.
    """
    return _execute(path, path.parent)
