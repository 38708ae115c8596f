#!/usr/bin/env bash
# Timestamps and durations just before zero, cast from nanoseconds to milliseconds. A guess: the result is the floor, as the date
# of a timestamp is its day, and libraries that hand arrays to one another agree.
#
# Seen: numpy 2.4.6 and pandas 3.0.0 floor both. pyarrow 26.0.1 cuts both towards zero, so times move forward, past 1970, against
# its own `floor_temporal` and its cast to a date; so does Parquet's `coerce_timestamps`. polars 2.1.0 floors timestamps and cuts durations.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check numpy==2.4.6 pandas==3.0.0 polars==2.1.0 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import io
import numpy
import polars
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

nanoseconds = [-1, -1_500_000, 1_500_000]
times, spans = pa.array(nanoseconds, pa.timestamp("ns")), pa.array(nanoseconds, pa.duration("ns"))
file = io.BytesIO()
pq.write_table(pa.table({"t": times}), file, coerce_timestamps="ms", allow_truncated_timestamps=True)
seen = {
    "numpy timestamps": numpy.array(nanoseconds, "M8[ns]").astype("M8[ms]").astype(int).tolist(),
    "numpy durations": numpy.array(nanoseconds, "m8[ns]").astype("m8[ms]").astype(int).tolist(),
    "pandas timestamps": times.to_pandas().astype("datetime64[ms]").astype("int64").tolist(),
    "polars timestamps": polars.from_arrow(times).cast(polars.Datetime("ms")).to_physical().to_list(),
    "polars durations": polars.from_arrow(spans).cast(polars.Duration("ms")).to_physical().to_list(),
    "pyarrow timestamps": times.cast(pa.timestamp("ms"), safe=False).cast(pa.int64()).to_pylist(),
    "pyarrow durations": spans.cast(pa.duration("ms"), safe=False).cast(pa.int64()).to_pylist(),
    "Parquet of pyarrow": pq.read_table(file)["t"].cast(pa.int64()).to_pylist(),
}
for name, milliseconds in seen.items():
    print(name, milliseconds)
floor, towards_zero = [-1, -2, 1], [0, -1, 1]
cut = {"polars durations", "pyarrow timestamps", "pyarrow durations", "Parquet of pyarrow"}
assert {name for name, milliseconds in seen.items() if milliseconds == towards_zero} == cut
assert all(seen[name] == floor for name in seen.keys() - cut)
assert pc.floor_temporal(times, unit="millisecond").cast(pa.int64()).to_pylist() == [-1_000_000, -2_000_000, 1_000_000]
assert times.cast(pa.date32(), safe=False).cast(pa.int32()).to_pylist() == [-1, -1, 0]
PYTHON
