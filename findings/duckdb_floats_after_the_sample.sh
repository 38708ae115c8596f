#!/usr/bin/env bash
# DuckDB 2.0.1: `read_json` and `read_csv` of a file in whose first 20,480 lines, by which it finds the types, a column has integers, and in
# which a fraction comes later, as in the log of a counter that becomes a gauge. A guess: the read is refused, since the number is no
# integer; so it is with a text, with 1e30 and with a name that is new, and the error says to enlarge the sample.
#
# Seen: the fraction is rounded without an error: 1.5 is 2, 2.5 is 2 in JSON and 3 in CSV, and -0.4 is 0. In JSON `true` is 1 as well. One row
# earlier the column is a DOUBLE, and all values are right. pyarrow 26.0.1 makes such a column of JSON double, and polars 2.1.0 refuses it
# in JSON and in CSV. So sums over a log change with the row in which its first fraction stands.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check duckdb==2.0.1 polars==2.1.0 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.metadata
import duckdb
import polars
import pyarrow.json


def outcome(read):
    try:
        return read()
    except Exception as error:
        return str(error).splitlines()[0][:90]


def written(name, before, head, row, last):
    with open(name, "w") as file:
        file.write(head + row * before + last)
    return name


def as_json(values, before=20_480):
    return written("rows.jsonl", before, "", '{"n":7}\n', "".join('{"n":%s}\n' % value for value in values))


def as_csv(values, before=20_479):
    return written("rows.csv", before, "n\n", "7\n", "".join(f"{value}\n" for value in values))


def late(path):
    """The type of the column, and the values of the rows that are not 7."""
    rows = duckdb.sql(f"SELECT n FROM '{path}' WHERE n <> 7")
    return str(rows.types[0]), [n for (n,) in rows.fetchall()]


fractions = ("1.5", "2.5", "-0.4")
seen = {
    "JSON": late(as_json(fractions)),
    "JSON, one row earlier": late(as_json(fractions, 20_479)),
    "JSON, true": late(as_json(["true"])),
    "JSON, text": outcome(lambda: late(as_json(['"text"']))),
    "JSON, 1e30": outcome(lambda: late(as_json(["1e30"]))),
    "JSON, new name": outcome(lambda: late(as_json(['7,"m":8']))),
    "CSV": late(as_csv(fractions)),
    "CSV, one row earlier": late(as_csv(fractions, 20_478)),
    "CSV, text": outcome(lambda: late(as_csv(["text"]))),
    "pyarrow": outcome(lambda: pyarrow.json.read_json(as_json(fractions))["n"].to_pylist()[-3:]),
    "polars, JSON": outcome(lambda: polars.read_ndjson(as_json(fractions))["n"].to_list()[-3:]),
    "polars, CSV": outcome(lambda: polars.read_csv(as_csv(fractions))["n"].to_list()[-3:]),
}
print(*[f"{name} {importlib.metadata.version(name)}" for name in ("duckdb", "polars", "pyarrow")], *seen.items(), sep="\n")
assert seen["JSON"] == ("BIGINT", [2, 2, 0]) and seen["JSON, true"] == ("BIGINT", [1])
assert seen["CSV"] == ("BIGINT", [2, 3, 0])
assert seen["JSON, one row earlier"] == seen["CSV, one row earlier"] == ("DOUBLE", [1.5, 2.5, -0.4])
for name in ("JSON, text", "JSON, 1e30", "JSON, new name"):
    assert "JSON transform error" in seen[name]
assert "Error" in seen["CSV, text"]
assert seen["pyarrow"] == [1.5, 2.5, -0.4]
assert "1.5" in seen["polars, JSON"] and "1.5" in seen["polars, CSV"]
PYTHON
