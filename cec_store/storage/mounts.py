"""Whether a path is on a network file system, by the list of mounts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

_MOUNTS = "/proc/self/mountinfo"
# A FUSE file system may be remote or not, and does not say: taken as remote, but for fuseblk. So
# are folders that virtual machines share with their host, and disks that several machines mount.
_REMOTE = re.compile(
    r"nfs|cifs|smb|fuse(\.|$)|9p|afs|ceph|glusterfs|gpfs|lustre|beegfs|virtiofs"
    r"|vboxsf|drvfs|fakeowner|prl_fs|vmhgfs|ocfs2|gfs2"
)


def is_remote(path: str) -> bool:
    """As far as the list of mounts can tell."""
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as lines:
            real = os.path.realpath(path)
            return _is_on_remote_mount(real, lines, _device_of(real))
    except OSError:
        return False


def _device_of(path: str) -> str:
    """Return the device of a path, or of the folder in which it would be, as mountinfo has it."""
    while True:
        try:
            device = os.stat(path).st_dev
            return f"{os.major(device)}:{os.minor(device)}"
        except FileNotFoundError:
            path = os.path.dirname(path)


def _is_on_remote_mount(path: str, mounts: Iterable[str], device: str) -> bool:
    """Return whether ``path``, without symbolic links, is on a network mount in mountinfo.

    A mount may be hidden below a later one: so those of the path's own device come first. Some file
    systems (btrfs) have devices of their own for parts of them, of which there are none.
    """
    path = os.path.join(path, "")
    best, kind = (False, 0), ""
    for fields in (line.split() for line in mounts):
        # A blank in a path is written as \\040.
        point = re.sub(r"\\(\d{3})", lambda m: chr(int(m[1], 8)), fields[4])
        point = os.path.join(point, "")
        rank = (fields[2] == device, len(point))
        if path.startswith(point) and rank >= best:
            best, kind = rank, fields[fields.index("-") + 1]
    return _REMOTE.match(kind) is not None
