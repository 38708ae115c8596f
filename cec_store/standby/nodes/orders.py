"""Orders to the nodes of a lease: pause, resume, switch. docs/format.md §14.

Each order says all that is asked for from here on; the one with the highest number counts.
"""

from __future__ import annotations

import platform
import re
import secrets
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from multiprocessing import current_process
from typing import Any

from cec_store.errors import CorruptLog, UnsupportedVersion
from cec_store.standby.lease_format import (
    check_lease_name,
    decode_document,
    encode_document,
)
from cec_store.standby.lease_objects import LeaseObjects

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


def decode_order(data: bytes, path: str) -> Order:
    """Return the order of an object's bytes; raises as :func:`decode_document`."""

    def build(fields: dict[str, Any]) -> Order:
        order = Order(**fields)
        if order.to is not None:
            check_lease_name(order.to)
        is_sound = all(type(n) is int and 0 <= n < 2**63 for n in (order.number, order.after))
        is_sound &= all(type(flag) is bool for flag in (order.is_paused, order.even_if_behind))
        if not (is_sound and all(type(text) is str for text in (order.asked_by, order.token))):
            raise ValueError(order)
        return order

    advice = "delete it, and give the order again"
    return decode_document(data, path, build, "an order to nodes", advice)


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
                self._objects.store.create(order_name(order.number), [encode_document(order)])
                return order
