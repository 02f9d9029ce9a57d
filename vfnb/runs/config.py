"""The config of a run as it is saved beside it: what `vfnb eval @ config.toml` runs again."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING, Any

from pydantic import BaseModel

from vfnb.errors import StoreError
from vfnb.utils.config import OBJECT, BaseConfig

if TYPE_CHECKING:
    from vfnb.runs.tree import EvalConfig

__all__ = ["config_text", "headline", "names", "plain", "read_config", "write_config"]


def plain(config: BaseModel) -> dict[str, Any]:
    """A config as TOML values. What has no value is left out, or `"null"` where the default has one.

    Unset fields of models that are `SPARSE` are left out.
    """
    dumped = config.model_dump(mode="json", warnings=False)
    sparse = isinstance(config, BaseConfig) and config.SPARSE
    found: dict[str, Any] = {}
    for name, field in type(config).model_fields.items():
        value = getattr(config, name)
        if field.exclude or (sparse and name not in config.model_fields_set):
            continue
        if isinstance(value, BaseModel):
            value = plain(value)
            if value:
                found[name] = value
            continue
        default = field.get_default(call_default_factory=True, validated_data={})
        if value is None:
            if default is not None:
                found[name] = "null"
        elif value not in ([], {}) or value != default:
            found[name] = _filled(dumped[name])
    return found


def _filled(value: Any) -> Any:
    if isinstance(value, dict):
        return {str(key): _filled(item) for key, item in value.items() if item is not None}
    if isinstance(value, list):
        return [_filled(item) for item in value if item is not None]
    return value


def config_text(config: EvalConfig) -> str:
    """A config as TOML."""
    import tomli_w

    return tomli_w.dumps(plain(config))


def write_config(path: Path, config: EvalConfig) -> None:
    """Save a config as TOML, with the command that runs it again on top."""
    shown = shlex.quote(str(path)) if str(path).isprintable() else ascii(str(path))
    head = f"# To go on with this run: vfnb eval @ {shown}; to do it all again, add --fresh\n"
    new = path.with_name(f"{path.name}.new")  # a process that dies here leaves the old one whole
    new.write_text(head + config_text(config), encoding="utf-8", errors="backslashreplace")
    new.replace(path)


def read_config(path: Path) -> dict[str, Any]:
    """A saved config as plain values; `{}` if there is none.

    Raises:
        StoreError: it is not TOML.
    """
    import tomllib

    try:
        return tomllib.loads(path.read_text(encoding="utf-8")) if path.exists() else {}
    except (OSError, ValueError) as error:
        raise StoreError(f"{path} cannot be read: {error}; mend it, or delete it to see the run") from error


def names(config: dict[str, Any]) -> dict[str, str]:
    """Taskset, harness and model of a saved config, as tables show them."""
    found = {
        name: str(config.get(name, {}).get("id", "")).rpartition(":")[2] for name in ("taskset", "harness")
    }
    return found | {"model": str(config.get("model", {}).get("name", "")).removeprefix(OBJECT)}


def headline(config: EvalConfig) -> dict[str, Any]:
    """The facts of a run that tables of runs show."""
    tasks = config.record.tasks if config.record is not None else None
    return names(plain(config)) | {"tasks": tasks, "rollouts": config.rollouts}
