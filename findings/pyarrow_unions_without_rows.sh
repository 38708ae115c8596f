#!/usr/bin/env bash
# pyarrow 26.0.1 and unions. A guess: where `pa.nulls(2, type)` makes a column, a table of no rows can be made as well, by
# `schema.empty_table()` or `RecordBatch.from_pylist([], schema=schema)`.
#
# Seen: both raise ArrowNotImplementedError, whose text is the name of the type and no more; nulls of any number, 0 too,
# are made. So an empty table of any schema is one of `pa.nulls(0, field.type)`.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import pyarrow as pa

print(pa.__version__)
for union in (pa.sparse_union([pa.field("a", pa.int64())]), pa.dense_union([pa.field("a", pa.int64())])):
    schema = pa.schema([("u", union)])
    made = pa.table([pa.nulls(0, union)], schema=schema)
    made.validate(full=True)
    assert made.num_rows == 0
    assert len(pa.nulls(2, union)) == 2
    for make in (schema.empty_table, lambda: pa.RecordBatch.from_pylist([], schema=schema)):
        try:
            make()
        except pa.ArrowNotImplementedError as error:
            print(f"{error!r}")
            assert str(error) in ("sparse_union", "dense_union")
        else:
            raise AssertionError("it was made")
PYTHON
