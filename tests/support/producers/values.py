"""Columns of random values, by kind."""

from __future__ import annotations

import random
import string
from collections.abc import Callable
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any
from uuid import UUID

import pyarrow as pa

ROWS_MAX = 12
WORDS = ["red", "green", "blue"]
NEAR = datetime(2026, 1, 1, 12)
"""A moment that nanoseconds reach, which go from 1677 to 2262."""
Draw = Callable[[random.Random], Any]
Columns = dict[str, tuple[str, list[Any]]]
"""By name: a kind of :data:`KINDS`, and its values."""


def text(draw: random.Random) -> str:
    return "".join(draw.choices(string.ascii_letters + "äß€🚀 \n\0", k=draw.randrange(12)))


def whole(bits: int, *, signed: bool = True) -> Draw:
    low, high = (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1) if signed else (0, 2**bits - 1)
    return lambda draw: draw.choice([low, high, 0, draw.randint(low, high)])


def number(draw: random.Random) -> float:
    return draw.choice([0.0, -0.0, float("inf"), draw.gauss(0, 1e9), 5e-324])


def moment(draw: random.Random) -> datetime:
    return datetime(1970, 1, 1) + timedelta(microseconds=draw.randint(-(2**55), 2**55))


def parts(draw: random.Random) -> list[dict[str, Any] | None]:
    """Structs in a list, some of them null, and some of their fields."""
    rows = [{"a": draw.choice([None, 1, -1]), "b": text(draw)} for _ in range(draw.randrange(4))]
    return [row if draw.random() < 0.8 else None for row in rows]


def counts(draw: random.Random) -> list[tuple[str, int | None]]:
    keys = draw.sample(WORDS, draw.randrange(3))
    return [(key, draw.choice([None, whole(32)(draw)])) for key in keys]


def decimals(digits: int, scale: int) -> Draw:
    most = 10**digits - 1
    return lambda draw: Decimal(draw.choice([most, -most, 0, draw.randint(-most, most)])).scaleb(
        -scale
    )


def shape(draw: random.Random) -> tuple[float, float]:
    return draw.uniform(-180, 180), draw.uniform(-90, 90)


KINDS: dict[str, Draw] = {
    "int8": whole(8),
    "int64": whole(64),
    "uint64": whole(64, signed=False),
    "float": lambda draw: draw.choice([0.0, -0.0, float("-inf"), 1.5, 2.0**-149]),
    "double": number,
    "bool": lambda draw: draw.random() < 0.5,
    "text": text,
    "bytes": lambda draw: draw.randbytes(draw.randrange(9)),
    "fixed": lambda draw: draw.randbytes(3),
    "decimal": lambda draw: Decimal(draw.randint(-(10**17), 10**17)).scaleb(-3),
    "wide": decimals(28, 10),
    "date": lambda draw: date(1, 1, 1) + timedelta(days=draw.randrange(3_000_000)),
    "moment": moment,
    "zoned": lambda draw: moment(draw).replace(tzinfo=timezone.utc),
    "time": lambda draw: time(draw.randrange(24), draw.randrange(60), 5, draw.randrange(10**6)),
    "span": lambda draw: timedelta(microseconds=draw.randint(-(2**50), 2**50)),
    "months": lambda draw: pa.MonthDayNano([draw.randint(-99, 99), draw.randint(-9, 9), 1]),
    "uuid": lambda draw: UUID(bytes=draw.randbytes(16)),
    "list": lambda draw: [whole(32)(draw) for _ in range(draw.randrange(4))],
    "struct": lambda draw: {"a": whole(16)(draw), "b": text(draw)},
    "parts": parts,
    "counts": counts,
    "word": lambda draw: draw.choice(WORDS),
    "shape": shape,
}


def columns(draw: random.Random, kinds: list[str]) -> Columns:
    rows = draw.choice([0, 1, draw.randrange(2, ROWS_MAX)])
    nulls = draw.choice([0, 0, 0.3, 1])
    made = {}
    for place, kind in enumerate(draw.choices(kinds, k=draw.randrange(1, 6))):
        values = [None if draw.random() < nulls else KINDS[kind](draw) for _ in range(rows)]
        made[f"c{place}_{kind}"] = (kind, values)
    return made
