"""Members of a zip archive, also those that are compressed with zstd (method 93), which Inspect writes."""

from __future__ import annotations

import struct
import zipfile
import zlib
from pathlib import Path
from typing import Any

from vfnb.errors import ImportRefused
from vfnb.utils.plain import decode_json

__all__ = ["Archive", "header_of"]

ZSTD = 93
LARGEST = 1 << 30
"""Bytes of one member; a larger one is refused rather than unpacked."""


class Archive:
    """An archive that is read member by member; nothing is unpacked to disk.

    Raises:
        ImportRefused: it is no zip archive, or it is cut.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        try:
            with zipfile.ZipFile(path) as opened:
                self._members = {info.filename: info for info in opened.infolist()}
        except (zipfile.BadZipFile, OSError) as error:
            raise ImportRefused(f"{path} is no whole zip archive: {error}; fetch it again") from error

    @property
    def names(self) -> list[str]:
        """The members, in the archive's order."""
        return list(self._members)

    def read(self, name: str) -> bytes:
        """One member.

        Raises:
            ValueError: it is missing, damaged, too large or compressed in another way.
        """
        info = self._members.get(name)
        if info is None:
            raise ValueError("is not in the archive")
        if info.file_size > LARGEST:
            raise ValueError(f"has {info.file_size} bytes, at most {LARGEST} are read")
        if info.compress_type != ZSTD:
            try:
                with zipfile.ZipFile(self.path) as opened:
                    return opened.read(name)
            except (zipfile.BadZipFile, NotImplementedError, RuntimeError, OSError, zlib.error) as error:
                raise ValueError(str(error)) from error
        return self._zstd(info)

    def _zstd(self, info: zipfile.ZipInfo) -> bytes:
        import zstandard

        with self.path.open("rb") as file:
            file.seek(info.header_offset)
            head = file.read(30)
            if len(head) < 30 or head[:4] != b"PK\x03\x04":
                raise ValueError("has no header where the directory says")
            name, extra = struct.unpack("<HH", head[26:30])
            file.seek(name + extra, 1)
            raw = file.read(info.compress_size)
        try:
            with zstandard.ZstdDecompressor().stream_reader(raw, read_across_frames=True) as stream:
                data = stream.read(info.file_size + 1)
        except zstandard.ZstdError as error:
            raise ValueError(f"cannot be decompressed: {error}") from error
        if len(data) != info.file_size or zlib.crc32(data) != info.CRC:
            raise ValueError("is damaged: its size or checksum is not that of the directory")
        return data


def header_of(file: Path) -> dict[str, Any]:
    """The header of an Inspect log; empty if it cannot be read."""
    try:
        if file.suffix == ".eval":
            archive = Archive(file)
            name = "header.json" if "header.json" in archive.names else "_journal/start.json"
            record = decode_json(archive.read(name))
        else:
            record = decode_json(file.read_bytes())
    except (ValueError, OSError, ImportRefused):
        return {}
    return record if isinstance(record, dict) else {}
