"""Files carried from one box to another, as tar archives that are checked in between."""

from __future__ import annotations

import io
import posixpath
import tarfile
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from vfnb.errors import RuntimeFault, TooLarge
from vfnb.utils.ids import new_id

if TYPE_CHECKING:
    from vfnb.runtimes.base import Runtime

__all__ = ["Archive", "clean", "pack_with_tar", "too_large", "unpack_with_tar"]

# Prints the temporary folder, then how much was packed. `head` bounds what a program may make us read.
_PACK = """
set -eu
tmp=$(mktemp -d)
trap '[ $? -eq 0 ] || rm -rf "$tmp"' EXIT
printf '%s\\n' "$tmp"
cd "$VFNB_BASE"
: > "$tmp/missing"
for path do
    shift
    if [ -e "./$path" ] || [ -L "./$path" ]; then set -- "$@" "./$path"
    else printf '%s\\n' "$path" >> "$tmp/missing"; fi
done
[ $# -eq 0 ] && : > "$tmp/out" && exit 0
# 1 says that a file changed meanwhile: programs may still write their logs.
{ tar -cf - "$@" || [ $? -eq 1 ] || : > "$tmp/failed"; } | head -c "$VFNB_LIMIT" > "$tmp/out"
size=$(wc -c < "$tmp/out")
if [ "$size" -lt "$VFNB_LIMIT" ] && [ -e "$tmp/failed" ]; then exit 4; fi
"""
_UNPACK = 'set -eu; mkdir -p "$2"; tar -xf "$1" -C "$2"; rm -f "$1"'
_HEADERS = 2048  # bytes of tar for one member, generously
_FILES = 20_000  # members of an archive


@dataclass(slots=True)
class Archive:
    """Files of a box under paths relative to a base folder, as an uncompressed tar."""

    data: bytes = b""
    files: int = 0
    """Regular files in it."""
    size: int = 0
    """Their bytes."""
    missing: list[str] = field(default_factory=list)
    """Paths asked for that do not exist."""
    left_out: list[str] = field(default_factory=list)
    """Members that are no file, folder or link, or would end up outside the paths asked for."""


async def pack_with_tar(box: Runtime, paths: Sequence[str], base: str, limit: int) -> Archive:
    """`Runtime.pack` for boxes that run programs."""
    room = limit + _HEADERS * _FILES + 1
    result = await box.run(
        ["sh", "-c", _PACK, "sh", *paths], {"VFNB_BASE": base, "VFNB_LIMIT": str(room), "LC_ALL": "C"}
    )
    if not result.ok:
        raise RuntimeFault(
            f"cannot pack {', '.join(paths)}: {result.stderr.strip()[-300:] or result.returncode}"
        )
    folder = result.stdout.splitlines()[0]
    try:
        data = await box.read(f"{folder}/out")
        missing = (await box.read(f"{folder}/missing")).decode("utf-8", "surrogateescape").splitlines()
    finally:
        await box.run(["rm", "-rf", folder])
    if len(data) >= room:
        raise too_large(paths, limit)
    return clean(Archive(data=data, missing=missing), paths, limit)


async def unpack_with_tar(box: Runtime, archive: Archive, base: str) -> None:
    """`Runtime.unpack` for boxes that run programs."""
    if not archive.data:
        return
    name = f".vfnb-{new_id()}.tar"
    await box.write(name, archive.data)
    result = await box.run(["sh", "-c", _UNPACK, "sh", name, base], {"LC_ALL": "C"})
    if not result.ok:
        raise RuntimeFault(f"cannot unpack files: {result.stderr.strip()[-300:] or result.returncode}")


def clean(archive: Archive, paths: Sequence[str], limit: int) -> Archive:
    """An archive written anew with nothing in it but files, folders and links under `paths`.

    The box in which it was packed is the agent's, and so may be its `tar`.

    Raises:
        TooLarge: the files have more than `limit` bytes, or there are more than 20,000.
        RuntimeFault: it is no tar archive.
    """
    wanted = [posixpath.normpath(path.lstrip("/") or ".") for path in paths]
    found = Archive(missing=archive.missing)
    if not archive.data:
        return found
    buffer = io.BytesIO()
    links: set[str] = set()
    members = total = 0
    try:
        with (
            tarfile.open(fileobj=io.BytesIO(archive.data)) as source,
            tarfile.open(fileobj=buffer, mode="w") as target,
        ):
            for member in source:
                members += 1
                total += member.size
                if total > limit or members > _FILES:
                    raise too_large(paths, limit)
                member.name = posixpath.normpath(member.name)
                if not _allowed(member, wanted, links):
                    found.left_out.append(member.name)
                    continue
                if member.issym():
                    links.add(member.name)
                member.mode &= 0o777
                if member.isreg():
                    found.files += 1
                    found.size += member.size
                target.addfile(member, source.extractfile(member) if member.isreg() else None)
    except tarfile.TarError as error:
        raise RuntimeFault(f"the box gave no readable archive of {', '.join(paths)}: {error}") from error
    found.data = buffer.getvalue()
    return found


def _allowed(member: tarfile.TarInfo, wanted: Sequence[str], links: set[str]) -> bool:
    if not (member.isreg() or member.isdir() or member.issym() or member.islnk()):
        return False
    if not _under(member.name, wanted) or any(member.name.startswith(link + "/") for link in links):
        return False
    if member.islnk():
        member.linkname = posixpath.normpath(member.linkname)
        return _under(member.linkname, wanted)
    return True


def _under(name: str, wanted: Sequence[str]) -> bool:
    if name.startswith(("/", "../")) or name == "..":
        return False
    return any(path == "." or name == path or name.startswith(path + "/") for path in wanted)


def too_large(paths: Sequence[str], limit: int) -> TooLarge:
    """The error of an archive that would be larger than allowed."""
    return TooLarge(
        f"{', '.join(paths)}: more than {limit} bytes or {_FILES} files; raise the limit or name fewer files"
    )
