"""Kinds of failures of a file system's calls, and the errors that a store raises for them."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from contextlib import suppress
from email.utils import parsedate_to_datetime
from enum import Enum, auto

from cec_store.errors import (
    CredentialsRefused,
    NoExclusiveCreate,
    NoSuchBucket,
    ReadOnly,
    StorageError,
    StoreUnreachable,
    Unreadable,
)


class Failure(Enum):
    """Why a call failed."""

    ABSENT = auto()
    """No such object."""
    TAKEN = auto()
    """The name of an object to be made."""
    PAST_END = auto()
    """The range to be read begins behind the object."""
    PASSING = auto()
    """No answer, or one that says to come back later. The call may have had its effect."""
    NO_BUCKET = auto()
    NO_CREDENTIALS = auto()
    BAD_CREDENTIALS = auto()
    FORBIDDEN = auto()
    SKEWED_CLOCK = auto()
    """The server takes no requests of this machine's time."""
    UNCONDITIONAL = auto()
    """The server does not know conditional creates."""
    OTHER = auto()


_SECRET = re.compile(r"(?i)\b(delegation|token|sig|signature|password|x-amz-[a-z-]+)=[^&\s'\")]+")
"""A part of a URL that lets in whoever has it, as WebHDFS and signed URLs have them."""
_OF_STATUS = {
    404: Failure.ABSENT,
    401: Failure.BAD_CREDENTIALS,
    403: Failure.FORBIDDEN,
    408: Failure.PASSING,
    409: Failure.PASSING,
    412: Failure.TAKEN,
    416: Failure.PAST_END,
    425: Failure.PASSING,
    429: Failure.PASSING,
    501: Failure.OTHER,
}


def chain_of(error: BaseException) -> Iterator[BaseException]:
    """The error, and what it was raised from."""
    link: BaseException | None = error
    while link is not None:
        yield link
        link = link.__cause__


def failure_of_status(status: int) -> Failure:
    """Return the failure that an HTTP status stands for where nothing else tells more."""
    return _OF_STATUS.get(status, Failure.PASSING if status >= 500 else Failure.OTHER)


def failure_of(error: BaseException) -> Failure:
    """Return the failure that an error of Python's own types stands for; ``OTHER`` for the rest."""
    if isinstance(error, FileNotFoundError):
        return Failure.ABSENT
    if isinstance(error, FileExistsError):
        return Failure.TAKEN
    if isinstance(error, PermissionError):
        return Failure.FORBIDDEN
    # Before Python 3.11 the time-outs of asyncio, and of fsspec, are no TimeoutError.
    is_late = type(error).__name__.endswith("TimeoutError")
    if is_late or isinstance(error, (TimeoutError, ConnectionError)):
        return Failure.PASSING
    return Failure.OTHER


def reason_of(error: BaseException) -> str:
    """Return the text of an error on one line, without what would let its readers in.

    Texts of HTTP libraries have the URL that was asked for, and with it tokens that were given in
    the environment.
    """
    return _SECRET.sub(r"\1=…", " ".join(str(error).split()) or type(error).__name__)


def error_for(failure: Failure, place: str, error: BaseException, *, reading: bool) -> Exception:
    """Return the exception to raise for a failure that the caller does not handle itself.

    ``place`` is the URL that was asked for; ``reading`` is False for a call that writes.
    """
    reason = reason_of(error)
    if failure is Failure.ABSENT:
        return FileNotFoundError(f"{place}: no such object")
    if failure is Failure.PASSING:
        what = "the store cannot be reached, or is too busy; try again, and check the address"
        return StoreUnreachable(f"{place}: {what} and the network ({reason})")
    if failure is Failure.NO_BUCKET:
        what = "there is no such bucket or container; make it, or correct the name"
        return NoSuchBucket(f"{place}: {what} ({reason})")
    if failure is Failure.NO_CREDENTIALS:
        what = "no credentials were found; give them in storage_options, or where the store's own"
        return CredentialsRefused(f"{place}: {what} tools look for them ({reason})")
    if failure is Failure.BAD_CREDENTIALS:
        what = "the store does not accept these credentials; correct or renew them"
        return CredentialsRefused(f"{place}: {what} ({reason})")
    if failure is Failure.SKEWED_CLOCK:
        what = f"this machine's clock is off{_skew_of(error)}, and the store refuses requests of"
        return StorageError(f"{place}: {what} another time; set the clock, by NTP ({reason})")
    if failure is Failure.FORBIDDEN and reading:
        what = "these credentials may not read it, or it is not there and they may not list;"
        return Unreadable(f"{place}: {what} ask for both rights ({reason})")
    if failure is Failure.FORBIDDEN:
        what = "these credentials may not write here; ask for the right to put and delete"
        return ReadOnly(f"{place}: {what} ({reason})")
    if failure is Failure.UNCONDITIONAL:
        return no_exclusive_create(place, reason)
    return StorageError(f"{place}: {reason}")


def _skew_of(error: BaseException) -> str:
    """Return in words how far this machine's clock is from the answer's date; empty without one."""
    for cause in chain_of(error):
        response = getattr(cause, "response", None)
        if isinstance(response, dict):
            date = response.get("ResponseMetadata", {}).get("HTTPHeaders", {}).get("date")
            with suppress(TypeError, ValueError):
                ahead_s = round(time.time() - parsedate_to_datetime(date).timestamp())
                way = "ahead" if ahead_s > 0 else "behind"
                return f" by {abs(ahead_s)} s ({way} of the store's)"
    return ""


def no_exclusive_create(place: str, reason: str) -> NoExclusiveCreate:
    """The error for a store in which two writers could both make the same object."""
    what = "this store cannot make an object only where there is none"
    advice = "use another; with one writer only, and never two, pass single_writer=True"
    return NoExclusiveCreate(f"{place}: {what} ({reason}); {advice}")
