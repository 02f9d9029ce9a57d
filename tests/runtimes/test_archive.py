"""Files from box to box: what a hostile archive cannot do."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest
from support.boxes import in_box, sh

from vfnb.errors import RuntimeFault, TooLarge
from vfnb.runtimes import Archive, InProcessRuntime, Runtime, make_runtime
from vfnb.runtimes.archive import clean


def _archive(*members: tarfile.TarInfo) -> Archive:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as target:
        for member in members:
            target.addfile(member, io.BytesIO(b"x" * member.size) if member.isreg() else None)
    return Archive(data=buffer.getvalue())


def _member(name: str, kind: bytes = tarfile.REGTYPE, link: str = "", size: int = 1) -> tarfile.TarInfo:
    member = tarfile.TarInfo(name)
    member.type, member.linkname, member.mode = kind, link, 0o4755
    member.size = size if kind == tarfile.REGTYPE else 0
    return member


def test_only_files_folders_and_links_under_the_paths_asked_for_pass() -> None:
    archive = _archive(
        _member("./out", tarfile.DIRTYPE),
        _member("./out/a"),
        _member("out/soft", tarfile.SYMTYPE, "a"),
        _member("out/hard", tarfile.LNKTYPE, "./out/a"),
        _member("tests/private.py"),
        _member("out/../tests/private.py"),
        _member("../escape"),
        _member("/etc/passwd"),
        _member("out/pipe", tarfile.FIFOTYPE),
        _member("out/device", tarfile.CHRTYPE),
        _member("out/up", tarfile.SYMTYPE, "../tests"),
        _member("out/up/private.py"),
        _member("out/foreign", tarfile.LNKTYPE, "tests/private.py"),
        _member("outside"),
    )
    found = clean(archive, ["out"], limit=100)
    with tarfile.open(fileobj=io.BytesIO(found.data)) as kept:
        names = {member.name: member.mode for member in kept}
    assert sorted(names) == ["out", "out/a", "out/hard", "out/soft", "out/up"]
    assert set(names.values()) == {0o755}
    assert (found.files, found.size) == (1, 1)
    assert found.left_out == [
        *("tests/private.py", "tests/private.py", "../escape", "/etc/passwd", "out/pipe", "out/device"),
        *("out/up/private.py", "out/foreign", "outside"),
    ]


def test_an_archive_that_is_none_is_a_fault_of_the_box() -> None:
    with pytest.raises(RuntimeFault, match="no readable archive of out"):
        clean(Archive(data=b"hello" * 1000), ["out"], limit=100)


@pytest.mark.parametrize("kind", ["subprocess", "inprocess"])
def test_files_arrive_as_they_were(kind: str) -> None:
    async def work(box: Runtime) -> None:
        await box.write("out/a.bin", bytes(range(256)))
        await box.write("out/deep/b.txt", b"b")
        other = make_runtime(kind)
        await other.start()
        try:
            await other.write("out/a.bin", b"old")
            archive = await box.pack(["out", "none"], limit=1000)
            await other.unpack(archive)
            assert (archive.files, archive.size, archive.missing) == (2, 257, ["none"])
            assert await other.read("out/a.bin") == bytes(range(256))
            assert await other.read("out/deep/b.txt") == b"b"
            with pytest.raises(TooLarge, match="more than 256 bytes"):
                await box.pack(["out"], limit=256)
            await other.unpack(await box.pack(["none"], limit=10))
        finally:
            await other.stop()

    in_box(work, kind)


def test_nothing_is_left_in_either_box() -> None:
    async def work(box: Runtime) -> None:
        await box.write("out/a", b"a")
        before = await sh(box, "ls -A . $TMPDIR")
        await box.unpack(await box.pack(["out"], limit=10))
        assert await sh(box, "ls -A . $TMPDIR") == before

    in_box(work)


def test_links_that_leave_an_in_process_box_are_left_out(tmp_path: Path) -> None:
    (tmp_path / "secret").write_text("s")

    async def work(box: InProcessRuntime) -> None:
        archive = _archive(
            _member("out/up", tarfile.SYMTYPE, str(tmp_path / "secret")), _member("out/a", size=2)
        )
        await box.unpack(clean(archive, ["out"], limit=10))
        assert await box.read("out/a") == b"xx"
        with pytest.raises(RuntimeFault):
            await box.read("out/up")

    in_box(work, "inprocess")
