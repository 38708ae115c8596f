"""Checks of the machine beside its programs: umask, cache folder, clock, room."""

from __future__ import annotations

import time
from collections.abc import Iterator
from datetime import datetime, timezone
from pathlib import Path

from cec_store.connectors.spark.setup.environment import Variables
from cec_store.doctor.diagnoses import Diagnosis, fault, note, sound
from cec_store.errors import StorageError
from cec_store.state_logs.sizing import SEGMENT_BYTES
from cec_store.storage.caches import cache_path
from cec_store.storage.disk_room import room_at
from cec_store.storage.owners import may_be_written, this_user, umask

_CACHE = "XDG_CACHE_HOME"
_LITTLE = 0.05
_FILES_LEAST = 1_000
_DAY_S = 86_400.0


def machine_lines(variables: Variables) -> Iterator[Diagnosis]:
    """Yield the lines about this machine, whatever is kept on it."""
    yield from umask_lines(umask())
    yield from _cache(variables)
    yield clock_line(time.time(), Path(__file__).stat().st_mtime, "cec-store's own files")
    yield room_line(str(cache_path(variables)))


def umask_lines(mask: int) -> Iterator[Diagnosis]:
    """Yield what a umask leaves to whom."""
    text = f"umask {mask:04o}"
    if mask & 0o700:
        what = f"{text}: new files may not be used by their own user"
        yield fault("umask", what, "set umask 0022, or 0027, before the program starts")
    elif not mask & 0o002:
        what = f"{text}: everybody on this machine may write to new queues and state"
        yield fault("umask", what, "set umask 0022, or 0027, before the program starts")
    elif mask & 0o070 == 0o070 and mask & 0o007 == 0o007:
        what = f"{text}: {this_user()} alone may read new queues and state"
        advice = "set umask 0027 where a group reads them, such as Spark's user and yours"
        yield note("umask", what, advice)
    else:
        yield sound("umask", text)


def _cache(variables: Variables) -> Iterator[Diagnosis]:
    told = variables.get(_CACHE, "")
    path = cache_path(variables)
    if told and not Path(told).is_absolute():
        what = f"{_CACHE}={told} is no absolute path, and is passed over: {path}"
        yield note("cache", what, f"set {_CACHE} to an absolute path, or unset it")
    elif may_be_written(str(path)):
        yield sound("cache", str(path))
    if not may_be_written(str(path)):
        what = f"{path} may not be written by {this_user()}: no jar can be compiled, and indexes of"
        advice = f"set {_CACHE} to a folder of this user"
        yield fault("cache", f"{what} queues in stores are made anew each time", advice)


def clock_line(now_s: float, seen_s: float, what: str) -> Diagnosis:
    """Return a line on the clock: ``seen_s``: when ``what`` was written, by whatever clock."""
    now = datetime.fromtimestamp(now_s, timezone.utc).strftime("%Y-%m-%dT%H:%M:%SZ")
    if seen_s > now_s + _DAY_S:
        days = (seen_s - now_s) / _DAY_S
        text = f"the clock says {now}, and {what} were written {days:,.0f} days later"
        return fault("clock", text, "set the clock (NTP): retention and lags go by it")
    if seen_s > now_s + 60:
        text = f"the clock says {now}, and {what} were written {seen_s - now_s:,.0f} s later"
        return note("clock", text, "compare this machine's clock with those of the writers")
    return sound("clock", now)


def room_line(path: str) -> Diagnosis:
    """Return a line on the room that is left on the disk of a path."""
    try:
        room = room_at(path)
    except StorageError as error:
        return note("disk", str(error), "look with df")
    if not room.total_bytes:
        return note(
            "disk", f"{path}: its file system does not say how much is free", "see its docs"
        )
    gib = f"{room.free_bytes / 2**30:,.1f} GiB of {room.total_bytes / 2**30:,.1f} GiB free"
    what = f"{path}: {gib}"
    advice = "free some, trim queues (`cec-store trim`), or use a larger disk"
    if room.free_bytes < SEGMENT_BYTES:
        return fault("disk", f"{what}, less than one segment takes", advice)
    if room.total_files and room.free_files < _FILES_LEAST:
        return fault("disk", f"{what}, but {room.free_files:,} files left (inodes)", advice)
    if room.free_bytes < _LITTLE * room.total_bytes:
        return note("disk", what, advice)
    return sound("disk", what)
