"""Parts that the demos share: the watcher's interface, and the verdict on the output."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa


class Watcher(Protocol):
    """Receiver of a demo's progress."""

    def advance(self, run: str, done: int, total: int) -> None:
        """One of the demo's runs has come so far."""

    def tell(self, text: str) -> None:
        """Something happened."""


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


class DemoReport:
    """A dataclass of what a demo did and found."""

    outputs: tuple[Compared, ...]

    @property
    def equal(self) -> bool:
        """True if every output is as recomputed."""
        return all(output.first_difference is None for output in self.outputs)

    @property
    def output_rows(self) -> int:
        """Rows of all outputs together."""
        return sum(output.rows for output in self.outputs)

    def as_json(self) -> dict[str, Any]:
        """The fields, and what follows from them."""
        report: Any = self
        return {**asdict(report), "equal": self.equal, "output_rows": self.output_rows}


def require_empty(folder: Path) -> None:
    """``FileExistsError`` where anything is in the folder."""
    if folder.exists() and any(folder.iterdir()):
        raise FileExistsError(f"{folder}: not empty; give the demo a folder of its own")
