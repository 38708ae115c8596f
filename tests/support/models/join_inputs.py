"""Rows of both sides that joins are tried on."""

import random

import numpy as np
import pyarrow as pa

from support.models.reference_operators import make_rows

LEFT = pa.schema({"k": pa.int64(), "s": pa.string(), "v": pa.float64(), "l": pa.int32()})
RIGHT = pa.schema({"r": pa.string(), "v": pa.int64(), "s": pa.string(), "k": pa.int64()})


def make_side(rng: random.Random, source: int, row_count: int, key_count: int = 3):
    schema = (LEFT, RIGHT)[source]
    clock, times = rng.randrange(-20, 20), []
    for _ in range(row_count):
        clock += rng.choice([0, 0, 1, 3, -2])
        times.append(clock - rng.choice([0, 0, 0, 15]))
    makers = {
        "k": lambda: rng.choice([None, *range(key_count)]),
        "s": lambda: rng.choice(["x", "yy", None] if rng.random() < 0.2 else ["x", "yy"]),
        "v": lambda: rng.choice([1, 2, None]),
        "l": lambda: rng.randrange(100),
        "r": lambda: rng.choice(["", None, "long"]),
    }
    columns = {field.name: [makers[field.name]() for _ in times] for field in schema}
    offsets = np.cumsum([rng.choice([1, 1, 2]) for _ in times]) if times else []
    return make_rows(source, schema, columns, times, offsets)
