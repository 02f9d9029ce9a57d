"""What an imported run calls its taskset, harness and model."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from vfnb.exchange.imports.finding import Found
from vfnb.exchange.imports.zips import header_of
from vfnb.utils.plain import decode_json

__all__ = ["of_atif", "of_harbor", "of_inspect", "of_verifiers"]


def _dict(value: Any, *keys: str) -> dict[str, Any]:
    """The object under these keys, empty where there is none."""
    for key in keys:
        value = value.get(key) if isinstance(value, dict) else None
    return value if isinstance(value, dict) else {}


def _json(file: Path) -> dict[str, Any]:
    try:
        return _dict(decode_json(file.read_bytes()))
    except (OSError, ValueError):
        return {}


def _first_line(file: Path) -> dict[str, Any]:
    with file.open("rb") as opened:
        try:
            return _dict(decode_json(opened.readline()))
        except ValueError:
            return {}


def of_verifiers(found: Found) -> dict[str, Any]:
    """From the saved config beside the episodes, else from the first episode."""
    config = next((_json(file) for file in found.files[1:]), {})
    env = _dict(config, "env")
    first = _first_line(found.files[0])
    traces = first.get("traces")
    agent = _dict(traces[0], "agent", "config") if isinstance(traces, list) and traces else {}
    known = _dict(first, "env")
    return {
        "taskset": str(_dict(env, "taskset").get("id") or known.get("name") or known.get("id") or ""),
        "harness": str(_dict(env, "agent", "harness").get("id") or _dict(agent, "harness").get("id") or ""),
        "model": str(config.get("model") or agent.get("model") or ""),
        "rollouts": rollouts if isinstance(rollouts := config.get("num_rollouts"), int) else 1,
    }


def of_atif(found: Found) -> dict[str, Any]:
    """From the first document."""
    agent = _dict(_json(found.files[0]), "agent")
    return {
        "taskset": found.root.stem,
        "harness": str(agent.get("name") or ""),
        "model": str(agent.get("model_name") or ""),
    }


def of_harbor(found: Found) -> dict[str, Any]:
    """From the first trial."""
    records = [_json(file) for file in found.files if file.name == "result.json"]
    trial = next((record for record in records if "trial_name" in record), {})
    agent = _dict(trial, "agent_info")
    return {
        "taskset": str(trial.get("source") or found.root.resolve().name),
        "harness": str(agent.get("name") or ""),
        "model": str(_dict(agent, "model_info").get("name") or ""),
    }


def of_inspect(file: Path) -> dict[str, Any]:
    """From the log's header."""
    header = header_of(file)
    spec = _dict(header, "eval")
    epochs = _dict(spec, "config").get("epochs")
    return {
        "taskset": str(spec.get("task") or ""),
        "harness": str(spec.get("solver") or _dict(header, "plan").get("name") or ""),
        "model": str(spec.get("model") or ""),
        "rollouts": epochs if isinstance(epochs, int) else 1,
    }
