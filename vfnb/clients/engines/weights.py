"""Weights of a Hugging Face folder as numpy arrays.

Format: https://github.com/huggingface/safetensors#format (8 bytes of length, a JSON header, little-endian arrays).
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from vfnb.errors import ConfigError

__all__ = ["as_arrays", "read_folder", "read_safetensors", "write_safetensors"]

Array = NDArray[np.float32]
_TYPES = {"F64": "<f8", "F32": "<f4", "F16": "<f2"}


def read_folder(folder: Path) -> tuple[dict[str, Any], dict[str, Array]]:
    """`config.json` and all weights, float32, by their names.

    Raises:
        ConfigError: the folder has no model, or one that is not a Qwen3.
    """
    file = folder / "config.json"
    if not file.is_file():
        raise ConfigError(
            f"{folder} has no config.json; give a folder with a model as Hugging Face stores it"
        )
    config = json.loads(file.read_text())
    if config.get("model_type") != "qwen3":
        raise ConfigError(
            f"{folder} holds a {config.get('model_type')!r} model; the embedded engine runs Qwen3 only, use vf.VLLM"
        )
    files = sorted(folder.glob("*.safetensors"))
    if not files:
        raise ConfigError(f"{folder} has no *.safetensors; save the model with save_pretrained")
    weights: dict[str, Array] = {}
    for entry in files:
        weights |= read_safetensors(entry)
    return config, weights


def read_safetensors(file: Path) -> dict[str, Array]:
    """All arrays of a file, as float32.

    Raises:
        ConfigError: the file is damaged or has arrays of another type than float.
    """
    data = file.read_bytes()
    try:
        size = int.from_bytes(data[:8], "little")
        header = json.loads(data[8 : 8 + size])
        header.pop("__metadata__", None)
        return {name: _array(data, 8 + size, entry) for name, entry in header.items()}
    except (ValueError, KeyError, TypeError) as error:
        raise ConfigError(f"{file} cannot be read as safetensors: {error}") from error


def _array(data: bytes, start: int, entry: Mapping[str, Any]) -> Array:
    begin, end = (start + offset for offset in entry["data_offsets"])
    raw = data[begin:end]
    if entry["dtype"] == "BF16":  # the upper half of a float32
        array = (np.frombuffer(raw, "<u2").astype(np.uint32) << 16).view(np.float32)
    else:
        array = np.frombuffer(raw, _TYPES[entry["dtype"]]).astype(np.float32)
    return array.reshape(entry["shape"])


def write_safetensors(file: Path, arrays: Mapping[str, Any]) -> None:
    """Write arrays as bfloat16, rounded to the nearest."""
    header: dict[str, Any] = {}
    blobs: list[bytes] = []
    offset = 0
    for name, value in as_arrays(arrays).items():
        blob = _bfloat16(value).tobytes()
        header[name] = {
            "dtype": "BF16",
            "shape": list(value.shape),
            "data_offsets": [offset, offset + len(blob)],
        }
        blobs.append(blob)
        offset += len(blob)
    head = json.dumps(header).encode()
    head += b" " * (-len(head) % 8)
    file.write_bytes(len(head).to_bytes(8, "little") + head + b"".join(blobs))


def _bfloat16(value: Array) -> NDArray[np.uint16]:
    bits = np.ascontiguousarray(value, np.float32).view(np.uint32)
    even = (bits >> 16) & 1  # round half to even, as hardware does
    rounded: NDArray[np.uint16] = ((bits + 0x7FFF + even) >> 16).astype(np.uint16)
    return rounded


def as_arrays(state: Mapping[str, Any]) -> dict[str, Array]:
    """A state dict of torch tensors or arrays as float32 arrays of their own."""
    arrays = {}
    for name, value in state.items():
        if hasattr(value, "detach"):
            value = value.detach().float().cpu().numpy()
        arrays[name] = np.array(value, np.float32)
    return arrays
