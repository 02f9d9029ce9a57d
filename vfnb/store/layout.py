"""Names in a run's folder, and what its file system can do."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["CONFIG_NAME", "DATABASE_NAME", "LOCK_NAME", "LOGS_NAME", "is_network", "is_run"]

CONFIG_NAME = "config.toml"
DATABASE_NAME = "run.sqlite"
LOCK_NAME = "lock"
LOGS_NAME = "logs"

_NETWORK = {
    "9p",
    "afs",
    "beegfs",
    "ceph",
    "cifs",
    "fuse.ceph",
    "fuse.gcsfuse",
    "fuse.glusterfs",
    "fuse.s3fs",
    "fuse.sshfs",
    "glusterfs",
    "gpfs",
    "lustre",
    "ncpfs",
    "nfs",
    "nfs4",
    "smb3",
    "smbfs",
}


def is_run(folder: Path) -> bool:
    """Whether a folder holds a run."""
    return (folder / DATABASE_NAME).is_file()


def is_network(path: Path, mounts: str | None = None) -> bool:
    """Whether `path` lies on a network file system, where SQLite's WAL cannot work (it maps shared memory).

    `mounts` is text in the format of proc(5) `/proc/mounts`; by default that of this machine. False where
    there is none.
    """
    if mounts is None:
        try:
            mounts = Path("/proc/mounts").read_text()
        except OSError:
            return False
    where = os.path.realpath(path)
    best, kind = "", ""
    for line in mounts.splitlines():
        fields = line.split(" ")
        if len(fields) < 3:
            continue
        point = fields[1].replace("\\040", " ").replace("\\011", "\t").replace("\\134", "\\")
        inside = where == point or where.startswith(point.rstrip("/") + "/")
        if inside and len(point) >= len(best):  # the later of two mounts on one point is the visible one
            best, kind = point, fields[2]
    return kind in _NETWORK
