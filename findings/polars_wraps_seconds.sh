#!/usr/bin/env bash
# polars 2.1.0 reads Arrow's timestamps and durations in seconds, which it has not, as milliseconds. A guess: what does not fit into
# them is refused, as pyarrow 26.0.1 refuses the cast, or is null.
#
# Seen: it wraps, from memory and from IPC: the greatest timestamp, which stands for "never ends" in many tables, is
# the second before 1970 and sorts before all others; 2^62 seconds are no time at all.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check polars==2.1.0 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import datetime
import io
import polars as pl
import pyarrow as pa

ends = pa.array([2**63 - 1, 1_600_000_000]).cast(pa.timestamp("s"))
lengths = pa.array([2**62, 60]).cast(pa.duration("s"))
rows = pa.table({"ends": ends, "lengths": lengths})
rows.validate(full=True)
stream = io.BytesIO()
with pa.ipc.new_stream(stream, rows.schema) as writer:
    writer.write_table(rows)
stream.seek(0)
for seen in (pl.from_arrow(rows), pl.read_ipc_stream(stream)):
    print(seen)
    assert seen.schema == {"ends": pl.Datetime("ms"), "lengths": pl.Duration("ms")}
    assert seen["ends"].to_list() == [datetime.datetime(1969, 12, 31, 23, 59, 59), datetime.datetime(2020, 9, 13, 12, 26, 40)]
    assert seen["lengths"].to_list() == [datetime.timedelta(0), datetime.timedelta(seconds=60)]
try:
    ends.cast(pa.timestamp("ms"))
except pa.ArrowInvalid as error:
    print(error)
else:
    raise SystemExit("pyarrow takes it now")
PYTHON
