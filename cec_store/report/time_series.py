"""Series over time of what a query's batches took, from the progress file in its checkpoint."""

from __future__ import annotations

from typing import Any

from cec_store.connectors.spark.progress.history import Stretch, gaps_before, spans_s
from cec_store.connectors.spark.progress.progress_file import read_progress
from cec_store.errors import CecError
from cec_store.inspector.places.places import Place

Document = dict[str, Any]


def progress_of(place: Place, notes: set[str]) -> Document | None:
    """Return the series of a checkpoint; ``None`` where there is no progress file.

    One that cannot be read is told among the notes: it is derived, and its loss is no damage.
    """
    try:
        stretches = read_progress(place.folder)
    except (CecError, OSError, ValueError) as error:
        notes.add(str(error))
        return None
    return _series(stretches) if stretches else None


def _series(stretches: list[Stretch]) -> Document:
    return {
        "from_us": [stretch.from_us for stretch in stretches],
        "until_us": [stretch.until_us for stretch in stretches],
        "is_after_gap": gaps_before(stretches),
        "batches": [stretch.batches for stretch in stretches],
        "batch": [stretch.batch for stretch in stretches],
        "batch_s": [stretch.batch_us / stretch.batches / 1e6 for stretch in stretches],
        "batch_max_s": [stretch.batch_max_us / 1e6 for stretch in stretches],
        "commit_s": [
            None if stretch.commit_us is None else stretch.commit_us / stretch.batches / 1e6
            for stretch in stretches
        ],
        "rows_per_s": [
            stretch.rows / span_s
            for stretch, span_s in zip(stretches, spans_s(stretches), strict=True)
        ],
        "watermark_us": [stretch.watermark_us for stretch in stretches],
        "watermark_lag_s": [
            None
            if stretch.watermark_us is None
            else (stretch.until_us - stretch.watermark_us) / 1e6
            for stretch in stretches
        ],
        "memory_bytes": [stretch.memory_bytes for stretch in stretches],
    }
