"""A queue as a stream of Arrow batches, for whoever has no engine: pandas, polars, DuckDB."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

PARTITION = "_partition"


def with_partition(batch: pa.RecordBatch, number: int) -> pa.RecordBatch:
    """The batch with a column that says which partition it is of."""
    return batch.append_column(PARTITION, pa.array(np.full(batch.num_rows, number, np.int32)))
