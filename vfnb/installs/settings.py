"""The environment of installers: the user's own, with pip's settings said in uv's words.

uv does not read pip's configuration, and who has told pip where packages are has told this machine.
"""

from __future__ import annotations

import configparser
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

__all__ = ["installer_environment", "pip_files", "pip_settings"]

_FOREIGN = ("PYTHONPATH", "PYTHONHOME", "VIRTUAL_ENV")  # packages of this process are not the program's
_UV = ("UV_DEFAULT_INDEX", "UV_INDEX_URL", "UV_INDEX", "UV_EXTRA_INDEX_URL", "UV_FIND_LINKS", "UV_OFFLINE")
_UV_FILES = ("~/.config/uv/uv.toml", "/etc/uv/uv.toml")
_KEYS = ("index-url", "extra-index-url", "find-links", "no-index", "trusted-host", "cert")


def installer_environment(environ: Mapping[str, str]) -> dict[str, str]:
    """Variables for uv, pip and npm. uv's own settings, in variables or a file, win over pip's."""
    env = {name: value for name, value in environ.items() if name not in _FOREIGN}
    own = any(name in env for name in _UV) or any(Path(file).expanduser().exists() for file in _UV_FILES)
    return env if own else {**in_uv_words(pip_settings(environ, pip_files(environ))), **env}


def pip_files(environ: Mapping[str, str]) -> list[Path]:
    """pip's configuration files, the weakest first (https://pip.pypa.io/en/stable/topics/configuration/)."""
    if environ.get("PIP_CONFIG_FILE"):
        return [Path(environ["PIP_CONFIG_FILE"])]  # os.devnull for none
    user = Path(environ.get("XDG_CONFIG_HOME") or "~/.config").expanduser()
    support = Path("~/Library/Application Support").expanduser()
    folders = [Path("/etc/xdg/pip"), Path("/etc"), Path("~/.pip").expanduser(), user / "pip", support / "pip"]
    return [*(folder / "pip.conf" for folder in folders), Path(sys.prefix) / "pip.conf"]


def pip_settings(environ: Mapping[str, str], files: Iterable[Path]) -> dict[str, str]:
    """pip's settings on where packages are; those that are not set are left out."""
    found: dict[str, str] = {}
    for file in files:
        parser = configparser.RawConfigParser()
        try:
            parser.read(file, encoding="utf-8")
        except (configparser.Error, UnicodeError):
            continue  # pip will complain, if it is asked
        for section in ("global", "install"):
            if parser.has_section(section):
                found |= {key: value for key, value in parser.items(section) if key in _KEYS}
    own = {key: environ.get("PIP_" + key.upper().replace("-", "_"), "") for key in _KEYS}
    return found | {key: value for key, value in own.items() if value}


def in_uv_words(settings: Mapping[str, str]) -> dict[str, str]:
    """The same for uv, which then chooses among indexes as pip does: the best version of all."""
    several = {key: value.split() for key, value in settings.items()}
    found = {
        "UV_DEFAULT_INDEX": settings.get("index-url", ""),
        "UV_INDEX": " ".join(several.get("extra-index-url", [])),
        "UV_FIND_LINKS": ",".join(several.get("find-links", [])),
        "UV_OFFLINE": "1" if settings.get("no-index", "").lower() in ("1", "true", "yes", "on") else "",
        "UV_INSECURE_HOST": " ".join(several.get("trusted-host", [])),
        "SSL_CERT_FILE": settings.get("cert", ""),
        "UV_INDEX_STRATEGY": "unsafe-best-match" if "extra-index-url" in settings else "",
    }
    return {name: value for name, value in found.items() if value}
