"""The mount that a path is on, by the list of mounts, and what is known of it."""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Iterable
from dataclasses import dataclass

_MOUNTS = "/proc/self/mountinfo"
_log = logging.getLogger(__name__)
# A FUSE file system may be remote or not, and does not say: taken as remote, but for fuseblk. So
# are folders that virtual machines share with their host, and disks that several machines mount.
_REMOTE = re.compile(
    r"nfs|cifs|smb|fuse(\.|$)|9p|afs|ceph|glusterfs|gpfs|lustre|beegfs|virtiofs"
    r"|vboxsf|drvfs|fakeowner|prl_fs|vmhgfs|ocfs2|gfs2"
)
_OBJECTS = "files are objects that are uploaded whole, and other machines see no locks of this one"
# Of a mount's kind, the first that fits; Mounts.scala has the same.
_KNOWN = (
    (r"tmpfs|ramfs", "it is kept in memory, and gone after a restart of the machine"),
    (
        r"fuse\.s3fs",
        "rows that were acknowledged may turn to zeros while somebody reads beside the writer; "
        "give the s3:// URL instead",
    ),
    (
        r"fuse\.rclone",
        "what is acknowledged may be in this machine's cache alone (--vfs-cache-mode), and two "
        "mounts of one remote let two writers in; give the URL of the store instead",
    ),
    (r"fuse\.(gcsfuse|gcsfs)", f"{_OBJECTS}; give the gs:// URL instead"),
    (r"fuse\.blobfuse", f"{_OBJECTS}; give the abfs:// URL instead"),
    (r"fuse\.(goofys|geesefs|mountpoint-s3|s3ql)", f"{_OBJECTS}; give the s3:// URL instead"),
    (
        r"fuse\.sshfs",
        "a writer on another machine is not seen, as locks are this machine's alone, and the "
        "server decides when a sync is on its disk",
    ),
    (
        r"fuse\.gocryptfs",
        "a folder that was made shortly before a power cut cannot be read after it, whatever was "
        "synced in it; make the folder of a queue a minute before its first row, and no queue with "
        "partitions there, which makes folders as it grows",
    ),
    (
        r"9p|virtiofs|vboxsf|drvfs|fakeowner|prl_fs|vmhgfs",
        "the host shares this folder, and decides when a sync is on its disk",
    ),
    (r"fuse", "the program that serves it decides when a sync is on a disk, and what a lock is"),
    (r"", "the servers of this file system decide when a sync is on a disk, and what a lock is"),
)
_VOLATILE = (
    "overlay is mounted as volatile: no sync reaches the disk, and a power cut may take it all"
)
# Modes are one setting of the whole mount there, so that chmod and the umask change nothing.
_SET_MODES = re.compile(r"(vfat|msdos|exfat|ntfs3?|cifs|smb3?|vboxsf|drvfs|fuse\.rclone)$")
# Kinds on which what was acknowledged goes with the machine, or turns to other bytes.
_LOSSY = re.compile(
    r"tmpfs|ramfs"
    r"|fuse\.(s3fs|rclone|gcsfuse|gcsfs|blobfuse|goofys|geesefs|mountpoint-s3|s3ql)"
)
_told: set[Mount] = set()
"""Mounts that this process has warned of."""


@dataclass(frozen=True)
class Mount:
    """A line of the list of mounts."""

    kind: str
    source: str
    point: str
    options: str
    """Options of its file system, separated by commas."""

    @property
    def is_remote(self) -> bool:
        """True for a network file system, as far as its kind tells."""
        return _REMOTE.match(self.kind) is not None

    @property
    def sets_modes(self) -> bool:
        """True where the modes of files are those of the mount, whatever was asked for."""
        return _SET_MODES.match(self.kind) is not None

    @property
    def loses(self) -> bool:
        """True where acknowledged rows are lost, not only less sure than on a disk."""
        is_lossy = _LOSSY.match(self.kind) is not None
        return self.risk() is not None and (is_lossy or self.kind == "overlay")

    def risk(self) -> str | None:
        """Return what may happen to acknowledged rows here; None where nothing is known of it."""
        if self.kind == "overlay" and re.search(
            r"(^|,)(volatile|fsync=volatile)(,|$)", self.options
        ):
            return _VOLATILE
        if self.is_remote or self.kind in ("tmpfs", "ramfs"):
            return next(risk for kind, risk in _KNOWN if re.match(kind, self.kind))
        return None

    def warn(self, path: str) -> None:
        """Say once for each mount what may happen to what is acknowledged there, by name."""
        if self in _told:
            return
        _told.add(self)
        risk = self.risk()
        if risk is not None:
            _log.warning("%s is on %s: %s", path, self, risk)

    def __str__(self) -> str:
        return f"{self.kind} ({self.source} at {self.point})"


def mount_of(path: str) -> Mount | None:
    """Return the mount of a path, or of where it would be; None without a list of mounts."""
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as lines:
            real = os.path.realpath(path)
            return _mount_in(real, lines, _device_of(real))
    except OSError:
        return None


def is_remote(path: str) -> bool:
    """Return whether a path is on a network file system, as far as the list of mounts tells."""
    mount = mount_of(path)
    return mount is not None and mount.is_remote


def warn_of_mount(path: str) -> None:
    """Say once what may happen to what is acknowledged on the mount of a path, by name."""
    mount = mount_of(path)
    if mount is not None:
        mount.warn(path)


def _device_of(path: str) -> str:
    """Return the device of a path, or of the folder in which it would be, as mountinfo has it."""
    while True:
        try:
            device = os.stat(path).st_dev
            return f"{os.major(device)}:{os.minor(device)}"
        except FileNotFoundError:
            path = os.path.dirname(path)


def _mount_in(path: str, mounts: Iterable[str], device: str) -> Mount | None:
    """Return the mount of ``path``, without symbolic links, in mountinfo.

    A mount may be hidden below a later one: so those of the path's own device come first. Some file
    systems (btrfs) have devices of their own for parts of them, of which there are none.
    """
    path = os.path.join(path, "")
    best, mount = (False, 0), None
    for fields in (line.split() for line in mounts):
        point = _plain(fields[4])
        rank = (fields[2] == device, len(os.path.join(point, "")))
        if path.startswith(os.path.join(point, "")) and rank >= best:
            kind, source, *options = fields[fields.index("-") + 1 :]
            best, mount = rank, Mount(kind, _plain(source), point, ",".join(options))
    return mount


def _plain(field: str) -> str:
    """Return a field of mountinfo with its blanks, which are written there as \\040."""
    return re.sub(r"\\(\d{3})", lambda m: chr(int(m[1], 8)), field)
