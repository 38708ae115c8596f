"""Whether a path is on a network file system, by the list of mounts."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable

_MOUNTS = "/proc/self/mountinfo"
# A FUSE file system may be remote or not, and does not say: taken as remote, but for fuseblk.
_REMOTE = re.compile(r"nfs|cifs|smb|fuse\.|9p|afs|ceph|glusterfs|gpfs|lustre|beegfs|virtiofs")


def is_remote(path: str) -> bool:
    """As far as the list of mounts can tell."""
    try:
        with open(_MOUNTS, encoding="utf-8", errors="surrogateescape") as lines:
            return _is_on_remote_mount(os.path.realpath(path), lines)
    except OSError:
        return False


def _is_on_remote_mount(path: str, mounts: Iterable[str]) -> bool:
    """Whether ``path``, without symbolic links, is below a network mount (lines of mountinfo)."""
    path = os.path.join(path, "")
    longest, kind = 0, ""
    for fields in (line.split() for line in mounts):
        # A blank in a path is written as \\040.
        point = re.sub(r"\\(\d{3})", lambda m: chr(int(m[1], 8)), fields[4])
        point = os.path.join(point, "")
        if path.startswith(point) and len(point) >= longest:
            longest, kind = len(point), fields[fields.index("-") + 1]
    return _REMOTE.match(kind) is not None
