"""Where a model's files are, and a name for its weights."""

from __future__ import annotations

import hashlib
from pathlib import Path

from vfnb.errors import ConfigError, MissingExtra

__all__ = ["model_folder", "weights_digest"]

_SMALL = 64 << 20
_TOKENIZER = [
    "config.json",
    "tokenizer*",
    "special_tokens_map.json",
    "chat_template*",
    "vocab*",
    "merges.txt",
]


def model_folder(model: str) -> Path:
    """The folder with a model's tokenizer: the model itself, or the files of a hub name (downloaded once).

    Raises:
        ConfigError: there is no such folder, and the hub does not have or show it.
        MissingExtra: the hub's client is not installed.
    """
    folder = Path(model).expanduser()
    if folder.is_dir():
        return folder
    try:
        from huggingface_hub import snapshot_download
    except ImportError as error:
        raise MissingExtra(
            f"{model} is no folder, and names on the hub need its client: pip install 'vfnb[train]'"
        ) from error
    try:
        return Path(snapshot_download(model, allow_patterns=_TOKENIZER))
    except Exception as error:  # offline, no such name, no right to see it: each in its own way
        raise ConfigError(
            f"{model} is no folder, and its tokenizer cannot be had from the hub: {error}"
        ) from error


def weights_digest(folder: Path) -> str:
    """A name for the weights of a folder, 32 hex digits: of the contents up to 64 MB, else of sizes and times."""
    files = sorted({*folder.glob("*.safetensors"), *folder.glob("*.bin"), *folder.glob("*config.json")})
    small = sum(file.stat().st_size for file in files) <= _SMALL
    found = hashlib.sha256()
    for file in files:
        state = file.stat()
        found.update(f"{file.name} {state.st_size}\0".encode())
        found.update(file.read_bytes() if small else str(state.st_mtime_ns).encode())
    return found.hexdigest()[:32]
