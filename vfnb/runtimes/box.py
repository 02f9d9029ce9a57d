"""A folder of its own on this machine, and the rules for paths in it."""

from __future__ import annotations

import errno
import io
import os
import stat
import tarfile
import tempfile
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import BinaryIO

from vfnb.errors import MissingFile, RuntimeFault, TooLarge
from vfnb.runtimes import warden
from vfnb.runtimes.archive import Archive, clean, too_large
from vfnb.runtimes.base import PathLike
from vfnb.runtimes.strays import delete_folder
from vfnb.utils.ids import new_id

__all__ = ["FILE_LIMIT", "Box"]

FILE_LIMIT = 256 << 20
_ODD = "it is a pipe, socket or device, not a regular file"


class Box:
    """A temporary folder with `work`, `home` and `tmp`, made on first use.

    Args:
        workdir: a folder inside `work` that is the working folder in its place.
        limit: bytes of the longest file that is read.
    """

    def __init__(self, workdir: str | None = None, limit: int = FILE_LIMIT) -> None:
        self._limit = limit
        self._workdir = workdir or "."
        self._root: Path | None = None
        self._finalizer: weakref.finalize[[Path, int], Box] | None = None

    @property
    def made(self) -> bool:
        """Whether the folder exists."""
        return self._root is not None

    @property
    def root(self) -> Path:
        """The folder, made on first use."""
        if self._root is None:
            root = Path(tempfile.gettempdir()).resolve() / f"{warden.FOLDER}{new_id()}"
            warden.current().watch(root)
            root.mkdir(mode=0o700)
            self._root = root
            for name in ("work", "home", "tmp"):
                (self._root / name).mkdir()
            (self._root / "work" / self._workdir).mkdir(parents=True, exist_ok=True)
            self._finalizer = weakref.finalize(self, _delete, self._root, os.getpid())
        return self._root

    @property
    def work(self) -> Path:
        """Working folder of programs and base of relative paths."""
        return self.root / "work" / self._workdir

    def path(self, path: PathLike, *, inside: bool) -> Path:
        """A path of the box as one of this machine.

        Raises:
            RuntimeFault: a relative path leaves the box, or an absolute one does and `inside` is asked.
        """
        full = (self.work / path).resolve()
        if full.is_relative_to(self.root):
            return full
        if not Path(path).is_absolute():
            raise _refusal(f"{path} leaves the runtime's folder; use a path inside it")
        if inside:
            raise _refusal(
                f"{path} is outside the runtime's folder {self.work}, where rollouts would share it; "
                "use a relative path, or a container runtime for absolute ones"
            )
        return full

    def read(self, path: PathLike) -> bytes:
        """A file's content. Raises as `Runtime.read`."""
        full = self.path(path, inside=False)
        try:
            with _opened(full, os.O_RDONLY) as file:
                if os.fstat(file.fileno()).st_size > self._limit:
                    raise self._too_large(path)
                data = _read(file, self._limit + 1)
        except FileNotFoundError:
            raise MissingFile(f"no file {path} in the runtime (looked at {full})") from None
        except OSError as error:
            raise _refusal(f"cannot read {path} ({full}): {error.strerror or error}") from error
        if len(data) > self._limit:  # some files do not say how long they are, those of /proc for example
            raise self._too_large(path)
        return data

    def _too_large(self, path: PathLike) -> TooLarge:
        return TooLarge(
            f"{path} has more than {self._limit} bytes; read a part of it with a program, or raise the runtime's "
            "file_limit"
        )

    def write(self, path: PathLike, data: bytes) -> None:
        """Write a file and make its folders. Raises as `Runtime.write`."""
        full = self.path(path, inside=True)
        try:
            full.parent.mkdir(parents=True, exist_ok=True)
            with _opened(full, os.O_WRONLY | os.O_CREAT) as file:
                file.truncate()
                file.write(data)
        except OSError as error:
            raise _refusal(f"cannot write {path} ({full}): {error.strerror or error}") from error

    def pack(self, paths: Sequence[str], limit: int) -> Archive:
        """Files and folders as an archive. Raises as `Runtime.pack`."""
        missing = [path for path in paths if not os.path.lexists(self.work / path)]
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w") as target:
            for path in paths:
                if path not in missing:
                    target.add(self.work / path, arcname=path, filter=_bounded(paths, limit))
        return clean(Archive(data=buffer.getvalue(), missing=missing), paths, limit)

    def unpack(self, archive: Archive) -> None:
        """Write an archive's files; links that leave the folder are left out."""

        def inside(member: tarfile.TarInfo, folder: str) -> tarfile.TarInfo | None:
            try:
                return tarfile.data_filter(member, folder)
            except tarfile.FilterError:
                return None

        if archive.data:
            with tarfile.open(fileobj=io.BytesIO(archive.data)) as source:
                source.extractall(self.work, filter=inside)

    def remove(self) -> None:
        """Delete the folder now. It also goes when the box is forgotten and when the interpreter ends."""
        if self._finalizer is not None:
            self._finalizer()
        self._root = self._finalizer = None


def _delete(root: Path, owner: int) -> None:
    if os.getpid() != owner:  # a forked child ends; the folder is its parent's
        return
    delete_folder(root)
    warden.current().forget(root)


def _read(file: BinaryIO, room: int) -> bytes:
    """At most `room` bytes, in pieces: one read of that size would take the memory at once."""
    pieces = []
    while room > 0 and (piece := file.read(min(room, 1 << 20))):
        pieces.append(piece)
        room -= len(piece)
    return b"".join(pieces)


def _bounded(paths: Sequence[str], limit: int) -> Callable[[tarfile.TarInfo], tarfile.TarInfo | None]:
    """Count what goes into an archive while it is put together; a sparse file may be larger than the memory."""
    total = 0

    def count(member: tarfile.TarInfo) -> tarfile.TarInfo:
        nonlocal total
        total += member.size
        if total > limit:
            raise too_large(paths, limit)
        return member

    return count


def _opened(path: Path, flags: int) -> BinaryIO:
    """Open a regular file. Nothing else is waited for: a pipe or device that a program made could block for ever.

    Raises:
        OSError: it cannot be opened, or is no regular file.
    """
    try:
        handle = os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, 0o666)
    except OSError as error:
        if error.errno != errno.ENXIO:
            raise
        raise OSError(_ODD) from error  # a socket, or a pipe that nobody reads
    kind = os.fstat(handle).st_mode
    if stat.S_ISREG(kind):
        return os.fdopen(handle, "wb" if flags & os.O_WRONLY else "rb")
    os.close(handle)
    raise OSError("it is a folder" if stat.S_ISDIR(kind) else _ODD)


def _refusal(message: str) -> RuntimeFault:
    fault = RuntimeFault(message)
    fault.retryable = False  # type: ignore[misc]
    return fault
