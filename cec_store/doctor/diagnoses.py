"""Lines of a checkup as values: a fact, how serious it is, and what to do about it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from cec_store.errors import (
    CecError,
    CorruptLog,
    CredentialsRefused,
    NoExclusiveCreate,
    NoSuchBucket,
    NotAQueue,
    StorageError,
    StoreNotInstalled,
    StoreUnreachable,
    Unreadable,
    UnsupportedVersion,
)


class Severity(str, Enum):
    """Urgency of a line."""

    SOUND = "sound"
    NOTE = "note"
    """Something to know: nothing has to be done."""
    FAULT = "fault"
    """Something has to be done."""


SUBJECTS = (
    "python", "java", "spark", "jar", "stores", "settings", "umask", "cache", "clock", "path",
    "file system", "disk", "owners", "provider", "version", "state", "heap", "lease", "writer",
    "consumer", "fleet", "damage", "unreadable",
)  # fmt: skip
"""Subjects that a line may have, in the order in which they are shown."""


@dataclass(frozen=True)
class Diagnosis:
    """One line."""

    subject: str
    """One of :data:`SUBJECTS`."""
    severity: Severity
    what: str
    advice: str = ""
    """Advice on what to do; empty where there is nothing to be done."""
    place: str = ""
    """Path or URL of the place that it is about, where a checkup looks at several."""

    def __post_init__(self) -> None:
        assert self.subject in SUBJECTS, self.subject
        assert self.advice or self.severity is not Severity.FAULT, "a fault says what to do"


@dataclass(frozen=True)
class SettingInForce:
    """A setting, its value, and who has set it."""

    name: str
    value: str
    source: str


@dataclass(frozen=True)
class Checkup:
    """All lines about a machine or a place, and the settings that were looked at."""

    kind: str
    """`machine`, `folder`, `fleet`, or a kind of place."""
    path: str | None
    """Path or URL of the place; ``None`` for the machine."""
    diagnoses: tuple[Diagnosis, ...]
    settings: tuple[SettingInForce, ...] = ()

    @property
    def faults(self) -> list[Diagnosis]:
        """Lines about which something has to be done."""
        return [line for line in self.diagnoses if line.severity is Severity.FAULT]

    @property
    def is_sound(self) -> bool:
        """True if nothing has to be done."""
        return not self.faults


def sound(subject: str, what: str) -> Diagnosis:
    """Return a line about what is as it should be."""
    return Diagnosis(subject, Severity.SOUND, what)


def note(subject: str, what: str, advice: str = "") -> Diagnosis:
    """Return a line about something to know."""
    return Diagnosis(subject, Severity.NOTE, what, advice)


def fault(subject: str, what: str, advice: str) -> Diagnosis:
    """Return a line about something that has to be done."""
    return Diagnosis(subject, Severity.FAULT, what, advice)


_OF_STORES: dict[type[CecError], str] = {
    StoreNotInstalled: "install the package that it names",
    NoSuchBucket: "correct the URL, or let the administrator of the store make the bucket",
    CredentialsRefused: "give credentials where the store's own tools look; docs/stores.md",
    StoreUnreachable: "see to the network, and to the endpoint: --storage-option, or its variable",
    NoExclusiveCreate: "use a store that creates on a condition; docs/stores.md",
}
"""Advice on errors of stores."""


def of_error(error: Exception, path: str) -> Diagnosis:
    """Return the line about an error that ended a check of ``path``."""
    text = str(error)
    verify = f"`cec-store verify {path}` lists all damage and what to do"
    if isinstance(error, CorruptLog):
        return fault("damage", f"{error.path}: byte {error.byte}: {error.reason}", verify)
    if isinstance(error, UnsupportedVersion):
        return fault("version", text, "upgrade cec-store here: a later release wrote this")
    if isinstance(error, Unreadable):
        return fault("unreadable", text, "look again as a user who may read it")
    for kind, advice in _OF_STORES.items():
        if isinstance(error, kind):
            return fault("stores", text, advice)
    if isinstance(error, StorageError) and not isinstance(error, NotAQueue):
        return fault("unreadable", text, "see to what it says, and look again")
    return fault("damage", text, verify)


def in_order(lines: Iterable[Diagnosis]) -> tuple[Diagnosis, ...]:
    """Return the lines by place, each place's by subject."""
    places: dict[str, list[Diagnosis]] = {}
    for line in lines:
        places.setdefault(line.place, []).append(line)
    return tuple(
        line
        for of_place in places.values()
        for line in sorted(of_place, key=lambda line: SUBJECTS.index(line.subject))
    )


def first_of(errors: Iterable[tuple[str, CecError | FileNotFoundError]]) -> str:
    """Return the first error as text, with the number of the others."""
    (name, error), *others = errors
    more = f", and {len(others):,} more" if others else ""
    return f"{name}: {error}{more}" if name else f"{error}{more}"
