"""Checks of a local folder, whatever is in it: its path, file system, room, owners and times."""

from __future__ import annotations

import time
from collections.abc import Iterator

from cec_store.doctor.diagnoses import Diagnosis, fault, note, sound
from cec_store.doctor.machine import clock_line, room_line
from cec_store.storage.local import LocalFolder
from cec_store.storage.mounts import mount_of
from cec_store.storage.owners import ownership_of, this_user
from cec_store.storage.paths import is_url


def folder_lines(folder: LocalFolder, given: str) -> Iterator[Diagnosis]:
    """Yield the lines about a folder; ``given``: its path as it was typed."""
    yield _path(folder.path, given)
    yield _file_system(folder.path)
    modes = folder.note_of_modes()
    if modes is not None:
        advice = "set uid, gid and umask of the mount, so that one user alone may write"
        yield note("owners", modes, advice)
    yield room_line(folder.path)
    yield from _owners(folder.path)


def _path(path: str, given: str) -> Diagnosis:
    if is_url(given) or given.startswith(("/", "file:")):
        return sound("path", path)
    what = f"{given} is relative: {path} from this folder, and another place from another one"
    return note("path", what, "give Spark and cron whole paths")


def _file_system(path: str) -> Diagnosis:
    mount = mount_of(path)
    if mount is None:
        return note("file system", "this system has no list of mounts", "look with `df -T`")
    risk = mount.risk()
    if risk is None:
        return sound("file system", str(mount))
    advice = "keep queues and checkpoints on a disk, in HDFS or in an object store"
    if mount.loses:
        return fault("file system", f"{mount}: {risk}", advice)
    return note("file system", f"{mount}: {risk}", f"know it, or {advice}")


def _owners(path: str) -> Iterator[Diagnosis]:
    here = ownership_of(path)
    yield clock_line(time.time(), here.newest_s, f"files of {path}")
    users = ", ".join(here.owners)
    if here.unreadable is not None:
        what = f"{here.unreadable} may not be read by {this_user()}"
        advice = f"run this as {users}, or give the group the right to read (chmod g+rX)"
        yield fault("unreadable", what, advice)
    elif here.unwritable is not None:
        what = f"belongs to {users}; {this_user()} may read it and not write to it"
        yield note("owners", what, f"start the query or writer as {users}")
    elif len(here.owners) > 1:
        what = f"files belong to several users: {users}"
        advice = f"see that each may write what the other made, or chown -R USER {path}"
        yield note("owners", what, advice)
    else:
        yield sound("owners", f"all belongs to {users}")
