"""A LoRA adapter in the format of peft, and the weights that a model has with it."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from vfnb.clients.engines.weights import read_folder, read_safetensors, write_safetensors

__all__ = ["merged", "write_adapter"]

RANK, ALPHA = 4, 8
_FILE = "adapter_model.safetensors"


def write_adapter(folder: Path, model: Path, seed: int = 1) -> Path:
    """Random matrices on the query projections of a model."""
    folder.mkdir()
    random = np.random.default_rng(seed)
    arrays = {}
    for name, array in read_folder(model)[1].items():
        if name.endswith("q_proj.weight"):
            stem = f"base_model.model.{name.removesuffix('.weight')}"
            arrays[f"{stem}.lora_A.weight"] = random.normal(size=(RANK, array.shape[1])) * 0.3
            arrays[f"{stem}.lora_B.weight"] = random.normal(size=(array.shape[0], RANK)) * 0.3
    write_safetensors(folder / _FILE, arrays)
    settings = {
        "peft_type": "LORA",
        "r": RANK,
        "lora_alpha": ALPHA,
        "target_modules": ["q_proj"],
        "bias": "none",
    }
    (folder / "adapter_config.json").write_text(
        json.dumps(settings | {"base_model_name_or_path": str(model)})
    )
    return folder


def merged(folder: Path, model: Path, adapter: Path) -> Path:
    """A model folder with the adapter in its weights: W + alpha / r * B A (Hu et al. 2021, section 4.1)."""
    folder.mkdir()
    for file in model.iterdir():
        (folder / file.name).write_bytes(file.read_bytes())
    weights = dict(read_folder(model)[1])
    parts = read_safetensors(adapter / _FILE)
    for name in weights:
        stem = f"base_model.model.{name.removesuffix('.weight')}"
        if f"{stem}.lora_A.weight" in parts:
            a, b = (parts[f"{stem}.lora_{part}.weight"] for part in "AB")
            weights[name] = weights[name] + ALPHA / RANK * b @ a
    write_safetensors(folder / "model.safetensors", weights)
    return folder
