"""Run one notebook, print what it marks for the terminal, and write it with its outputs as a web page.

    python scripts/demo.py NOTEBOOK

A cell with the tag `demo` is printed. The run folders of the notebook and the page land under build/.
"""

from __future__ import annotations

import shutil
import sys
from collections.abc import Iterator
from pathlib import Path

import nbformat
from nbconvert import HTMLExporter

sys.path.insert(0, str(Path(__file__).parent))

from run_notebooks import execute

ROOT = Path(__file__).resolve().parents[1]


def marked_texts(notebook: nbformat.NotebookNode) -> Iterator[str]:
    """The text of each output of the cells tagged `demo`."""
    for cell in notebook.cells:
        if "demo" not in cell.metadata.get("tags", []):
            continue
        for output in cell.outputs:
            yield output.text if output.output_type == "stream" else output.data["text/plain"]


def page(notebook: nbformat.NotebookNode) -> str:
    """The notebook as one html file that loads nothing from elsewhere."""
    exporter = HTMLExporter(mathjax_url="", require_js_url="", jquery_url="", mermaid_js_url="")
    body: str = exporter.from_notebook_node(notebook)[0]
    return body


def main(source: Path) -> None:
    folder = ROOT / "build" / "demo" / source.stem
    shutil.rmtree(folder, ignore_errors=True)  # an old run folder would be reused, and nothing would run
    folder.mkdir(parents=True)
    notebook = execute(source, folder)
    print("\n\n".join(marked_texts(notebook)))
    target = folder.with_suffix(".html")
    target.write_text(page(notebook))
    print(f"\nThe whole notebook: {target.relative_to(ROOT)}")


if __name__ == "__main__":
    main(Path(sys.argv[1]).resolve())
