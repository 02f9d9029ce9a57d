"""Content with images and sound that lie in files beside a document."""

from __future__ import annotations

import base64
from pathlib import Path
from typing import Any

from vfnb.exchange.imports.build import Lost
from vfnb.exchange.imports.fields import BadField, get, need

__all__ = ["parts"]


def parts(given: Any, path: str, folder: Path, root: Path, lost: Lost) -> Any:
    """ATIF content in our own form: a string, or a list of parts.

    Args:
        given: a string or a list.
        path: of the field.
        folder: the document's, from which paths of files count.
        root: files outside of it are not read: their path stays as the URL.
        lost: counts files that are not there.

    Raises:
        BadField: it is none of both.
    """
    if isinstance(given, str):
        return given
    if not isinstance(given, list):
        raise BadField(path, "is neither a string nor a list of parts")
    return [_part(part, f"{path}[{at}]", folder, root, lost) for at, part in enumerate(given)]


def _part(part: Any, path: str, folder: Path, root: Path, lost: Lost) -> dict[str, Any]:
    if not isinstance(part, dict):
        raise BadField(path, "is no object")
    kind = need(part, "type", str, path)
    if kind == "text":
        return {"type": "text", "text": need(part, "text", str, path)}
    if kind not in ("image", "audio"):
        return {"type": "opaque", "raw": part}
    source = need(part, "source", dict, path)
    media = get(source, "media_type", str, "", f"{path}.source")
    place = need(source, "path", str, f"{path}.source")
    data = _read(place, folder, root)
    if data is None and "://" not in place and not place.startswith("data:"):
        lost.add("images and sounds whose files are not in the folder (their paths are kept)")
    if kind == "image":
        url = place if data is None else f"data:{media};base64,{data}"
        return {"type": "image_url", "image_url": {"url": url}}
    if data is None:
        return {"type": "opaque", "raw": part}
    return {"type": "input_audio", "input_audio": {"data": data, "format": media.rpartition("/")[2]}}


def _read(place: str, folder: Path, root: Path) -> str | None:
    """The file as base64; None for a URL, and for what is not inside of `root`."""
    if "://" in place or place.startswith("data:"):
        return None
    inside = root.resolve() if root.is_dir() else root.resolve().parent
    try:
        file = (folder / place).resolve()
        if not file.is_relative_to(inside) or not file.is_file():
            return None
        return base64.b64encode(file.read_bytes()).decode()
    except (OSError, ValueError):  # a name that no file system takes
        return None
