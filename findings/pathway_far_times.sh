#!/usr/bin/env bash
# pathway 0.33.0, whose times are nanoseconds (1677 to 2262): `dt.from_timestamp` of a second beyond that, such as the year 9999 that
# stands for "never ends". A guess: an error, as its `strptime` raises one for the same time.
#
# Seen: an integer wraps (the year 9999 is 1816), a float stops at 2262-04-11, and a time plus a duration wraps as well, all without an
# error. A window or an interval join then takes the row for one that came long ago.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check pathway==0.33.0 pandas==3.1.1
"$folder/venv/bin/python" - 2>errors <<'PYTHON' || { cat errors; exit 1; }
import pandas
import pathway as pw


def computed(kind, value, expression):
    rows = pw.debug.table_from_rows(pw.schema_from_types(t=kind), [(value,)]).select(t=expression(pw.this.t))
    return str(pw.debug.table_to_pandas(rows, include_id=False)["t"][0])


def from_seconds(column):
    return column.dt.from_timestamp(unit="s")


seen = [
    computed(int, 253402214400, from_seconds),
    computed(float, 253402214400.0, from_seconds),
    computed(pw.DateTimeNaive, pandas.Timestamp("2262-01-01"), lambda t: t + pandas.Timedelta("200D")),
]
print(seen)
assert seen == ["1816-03-29 05:56:08.066277376", "2262-04-11 23:47:16.854775807", "1677-12-29 00:25:26.290448384"]
try:
    computed(str, "9999-12-31", lambda t: t.dt.strptime("%Y-%m-%d", contains_timezone=False))
except ValueError as error:
    print(error)
else:
    raise SystemExit("strptime takes it now")
PYTHON
