#!/usr/bin/env bash
# chdb 4.4.0 (ClickHouse in a process) writes unsigned integers, its most usual ones (`count()` gives UInt64), and DateTime to Avro. Its
# documentation names the types that they get. A guess: a value that the type does not hold is refused, as ClickHouse's `accurateCast`
# does it, and a type that has no Avro type is refused, as intervals are.
#
# Seen: UInt32 is an int and UInt64 a long, and values wrap: 4294967295 and 2^64 - 1 are both -1, where a long would hold the first. A
# DateTime is an int of its seconds without a logical type, negative from 2038-01-19 on, though ClickHouse's go to 2106. chdb itself,
# which is told the type, reads -1 as 4294967295. A DateTime64 of 9 digits is a decimal of 18, not timestamp-nanos.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check chdb==4.4.0 fastavro==1.13.1
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.metadata
import io
import chdb
import fastavro

columns = {
    "u32": "toUInt32(4294967295)",
    "u64": "toUInt64(18446744073709551615)",
    "at": "toDateTime('2038-01-19 03:14:08', 'UTC')",
    "nanos": "toDateTime64('2020-01-01 00:00:00.5', 9, 'UTC')",
}
values = ", ".join(f"{source} AS {name}" for name, source in columns.items())
written = chdb.query(f"SELECT {values} SETTINGS output_format_avro_codec = 'null'", "Avro").bytes()
reader = fastavro.reader(io.BytesIO(written))
types = {field["name"]: field["type"] for field in reader.writer_schema["fields"]}
(row,) = reader
with open("row.avro", "wb") as file:
    file.write(written)
again = chdb.query("SELECT u32, u64 FROM file('row.avro', 'Avro', 'u32 UInt32, u64 UInt64')", "TSV").data().split()
try:
    chdb.query("SELECT accurateCast(toUInt64(18446744073709551615), 'Int64')", "TSV")
    cast = "cast"
except RuntimeError:
    cast = "refused"
try:
    chdb.query("SELECT toIntervalDay(1) AS i", "Avro")
    interval = "written"
except RuntimeError:
    interval = "refused"
print(*[f"{name} {importlib.metadata.version(name)}" for name in ("chdb", "fastavro")], types, row, again, cast, interval, sep="\n")
assert (types["u32"], types["u64"], types["at"]) == ("int", "long", "int")
assert (row["u32"], row["u64"], row["at"]) == (-1, -1, -(2**31))
assert types["nanos"]["logicalType"] == "decimal"
assert again == ["4294967295", "18446744073709551615"] and cast == interval == "refused"
PYTHON
