"""Orders to the nodes of a lease: pause, resume, switch. docs/format.md §14.

Each order says all that is asked for from here on; the one with the highest number counts.
"""

from __future__ import annotations

import json
import platform
import re
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
from multiprocessing import current_process

from cec_store.errors import CorruptLog, UnsupportedVersion, unknown_version, upgrade_needed
from cec_store.standby.lease_format import check_lease_name
from cec_store.standby.lease_objects import LeaseObjects

VERSION = 1
_ORDER = re.compile(r"([0-9]{20})\.order")


@dataclass(frozen=True)
class Order:
    """One order to nodes; its numbers are 0 where there has been none."""

    number: int = 0
    is_paused: bool = False
    to: str | None = None
    """Node that is to take over from the tenure ``after``."""
    after: int = 0
    even_if_behind: bool = False
    """True if it is to do so however far it is behind."""
    asked_by: str = ""
    token: str = ""

    def names(self, tenure: int) -> str | None:
        """Return the node that is told to take over from this tenure, if one is."""
        return self.to if self.to is not None and self.after == tenure else None


def order_name(number: int) -> str:
    """Return the object's name, within the folder of its lease."""
    return f"{number:020d}.order"


def order_of(name: str) -> int | None:
    """The number in such a name; ``None`` for any other name."""
    match = _ORDER.fullmatch(name)
    return int(match[1]) if match else None


def encode_order(order: Order) -> bytes:
    """Return the bytes of an order's object, as JSON with a version."""
    return json.dumps({"version": VERSION, **asdict(order)}, sort_keys=True).encode()


def decode_order(data: bytes, path: str) -> Order:
    """Return the order that :func:`encode_order` has written.

    Raises:
        CorruptLog: it is nothing of the kind.
        UnsupportedVersion: a later release has written it.
    """
    try:
        fields = json.loads(data)
        version = fields.pop("version")
        if version != VERSION:
            raise upgrade_needed(path, unknown_version(version, VERSION))
        order = Order(**fields)
        if order.to is not None:
            check_lease_name(order.to)
        is_sound = all(type(n) is int and 0 <= n < 2**63 for n in (order.number, order.after))
        is_sound &= all(type(flag) is bool for flag in (order.is_paused, order.even_if_behind))
        is_sound &= all(type(text) is str for text in (order.asked_by, order.token))
    except (ValueError, TypeError, AttributeError, KeyError):
        is_sound = False
    if not is_sound:
        advice = "delete it, and give the order again"
        raise CorruptLog(path, 0, "these are not the bytes of an order to nodes", advice)
    return order


class Orders:
    """The orders of one lease. For one thread."""

    def __init__(self, objects: LeaseObjects) -> None:
        self._objects = objects
        self._newest: Order | None = None

    @property
    def known(self) -> Order:
        """The newest order that was read; one with number 0 before there was one."""
        return self._newest or Order()

    def newest(self) -> Order:
        """Return the order that counts; one with number 0 where there is none.

        Raises:
            CorruptLog, UnsupportedVersion: its bytes are no order that this release reads.
            StorageError: the place cannot be read.
        """
        if self._newest is None:
            self._newest = self._newest_readable()
        while (following := self._read(self._newest.number + 1)) is not None:
            self._newest = following
        return self._newest

    def _newest_readable(self) -> Order:
        """Return the newest order that can be read; what is behind it is read, and told, next."""
        numbers = (order_of(entry.name) for entry in self._objects.store.list())
        for number in sorted((n for n in numbers if n is not None), reverse=True):
            with suppress(CorruptLog, UnsupportedVersion):
                order = self._read(number)
                if order is not None:
                    return order
        return Order()

    def _read(self, number: int) -> Order | None:
        name = order_name(number)
        with suppress(FileNotFoundError):
            data = self._objects.store.read(name)
            order = decode_order(data, f"{self._objects.url}/{name}")
            return replace(order, number=number)
        return None

    def give(self, change: Callable[[Order], Order]) -> Order:
        """Give the order that ``change`` makes of the newest one, and return it.

        ``change`` is called again where somebody else has given one at the same time.

        Raises:
            StorageError: it could not be written.
        """
        asked_by = f"{platform.node()}:{current_process().pid}"
        while True:
            before = self.newest()
            order = replace(
                change(before),
                number=before.number + 1,
                asked_by=asked_by,
                token=secrets.token_hex(16),
            )
            with suppress(FileExistsError):
                self._objects.store.create(order_name(order.number), [encode_order(order)])
                return order
