"""The messages of a finished trace as one compressed text, opened when somebody reads them."""

from __future__ import annotations

from array import array
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from vfnb.errors import TraceError
from vfnb.trace.zstd import expand

__all__ = ["Texts"]

_LEVEL = 1


class Texts:
    """Many JSON texts in one zstd stream: a third of the size of separate streams."""

    __slots__ = ("_ends", "_plain", "apart", "blob")

    def __init__(self, blob: bytes, lengths: Iterable[int]) -> None:
        self.blob = blob
        self._ends = array("q", accumulate(lengths))
        self._plain: bytes | None = None
        self.apart: dict[int, bytes] = {}
        """Texts that are not in the stream (their length there is 0), by index."""

    @classmethod
    def of(cls, texts: Sequence[bytes]) -> Texts:
        """Compress texts."""
        from zstandard import ZstdCompressor

        blob = ZstdCompressor(level=_LEVEL, write_checksum=True).compress(b"".join(texts))
        # the compressor's result still sits in a buffer of the worst size; a copy does not
        return cls(bytes(memoryview(blob)), map(len, texts))

    @property
    def lengths(self) -> list[int]:
        """Bytes of each text."""
        ends = self._ends
        return [end - begin for begin, end in zip([0, *ends], ends, strict=False)]

    def __len__(self) -> int:
        return len(self._ends)

    def __iter__(self) -> Iterator[bytes]:
        return (self[index] for index in range(len(self)))

    def __getitem__(self, index: int) -> bytes:
        apart = self.apart.get(index)
        if apart is not None:
            return apart
        plain = self._plain
        if plain is None:
            plain = self._plain = self._open()
        return plain[self._ends[index - 1] if index else 0 : self._ends[index]]

    def _open(self) -> bytes:
        from zstandard import ZstdError

        try:
            opened = expand(self.blob)
        except ZstdError as error:
            raise TraceError(f"the messages of a trace cannot be read: {error}") from error
        size = self._ends[-1] if self._ends else 0
        if len(opened) != size:
            raise TraceError(f"the messages of a trace have {len(opened)} bytes, their lengths say {size}")
        return opened

    def close(self) -> None:
        """Forget the opened text; it is opened again when needed."""
        self._plain = None
