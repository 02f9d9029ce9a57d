"""`import vfnb` is light, and what it offers exists, is listed and is typed."""

from __future__ import annotations

import ast
import subprocess
import sys
from pathlib import Path

import vfnb as vf

HEAVY = [
    "pandas",
    "plotly",
    "networkx",
    "ipywidgets",
    "numpy",
    "aiohttp",
    "httpx",
    "msgspec",
    "sqlite3",
    "rich",
    "transformers",
    "vllm",
    "docker",
    "mcp",
    "openai",
    "anthropic",
]


def test_every_public_name_resolves() -> None:
    for name in vf.__all__:
        assert getattr(vf, name) is not None


def test_the_typed_names_are_the_listed_names() -> None:
    tree = ast.parse(Path(vf.__file__).read_text())
    block = next(node for node in tree.body if isinstance(node, ast.If))
    typed = {alias.asname for node in block.body if isinstance(node, ast.ImportFrom) for alias in node.names}
    assert typed | {"__version__"} == set(vf.__all__)
    assert len(vf.__all__) == len(set(vf.__all__))  # ruff sees to their order


def test_the_import_loads_nothing_heavy() -> None:
    code = f"import sys, vfnb; print([m for m in {HEAVY!r} if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_an_unknown_name_is_an_attribute_error() -> None:
    try:
        vf.no_such_name  # noqa: B018
    except AttributeError as error:
        assert "no_such_name" in str(error)
    else:
        raise AssertionError("the name resolved")


def test_errors_are_there_from_the_start_and_completion_shows_no_helpers() -> None:
    code = "import vfnb as vf; assert 'Any' not in dir(vf); print(vf.errors.VfnbError.__name__)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "VfnbError\n"
