"""Two tables that should be equal, as the demos' verdicts need them."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa


@dataclass(frozen=True)
class Compared:
    """One operator's output, and what it should be."""

    operator: str
    rows: int
    reference_rows: int
    first_difference: int | None
    """Number of the first output row that differs; ``None`` where all are equal."""


def compare(operator: str, output: pa.Table, reference: pa.Table) -> Compared:
    """Row for row, in order, and the columns' names and types too."""
    difference = None
    if not output.equals(reference):
        pairs = zip(output.to_pylist(), reference.to_pylist(), strict=False)
        shorter = min(output.num_rows, reference.num_rows)
        difference = next((n for n, (a, b) in enumerate(pairs) if a != b), shorter)
    return Compared(operator, output.num_rows, reference.num_rows, difference)
