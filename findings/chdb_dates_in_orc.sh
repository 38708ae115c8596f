#!/usr/bin/env bash
# chdb 4.4.0 (ClickHouse in a process) writes a table with a Date, ClickHouse's usual date (1970 to 2149), to ORC. A guess: it is ORC's
# DATE, with the same days, as in the Parquet and Arrow that it writes; for a DateTime of the same day it is so in ORC too.
#
# Seen: it is a DATE, and its days went through 16 bits with a sign: from 2059-09-19 on they are before 1970, so 2099-12-31 is 1920-07-27
# to pyarrow 26.0.1 and to pyorc 0.12.0, without an error, and the last Date, 2149-06-06, which stands for "never ends", is 1969-12-31.
# chdb reads its own file as pyarrow does. Date32 is right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check chdb==4.4.0 pyarrow==26.0.1 pyorc==0.12.0
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.metadata
import io
import chdb
import pyarrow
import pyarrow.orc
import pyarrow.parquet
import pyorc

days = ["2059-09-18", "2059-09-19", "2099-12-31", "2149-06-06"]
source = f"SELECT arrayJoin({days}) AS text, toDate(text) AS day, toDate32(text) AS wide"


def written(form):
    return chdb.query(source, form).bytes()


def texts(values):
    return [value.isoformat() for value in values]


with open("days.orc", "wb") as file:
    file.write(written("ORC"))
table = pyarrow.orc.read_table("days.orc")
seen = {
    "orc": texts(table["day"].to_pylist()),
    "orc by pyorc": texts(row[1] for row in pyorc.Reader(open("days.orc", "rb"))),
    "orc by chdb": chdb.query("SELECT day FROM file('days.orc')", "TSV").data().split(),
    "date32 in orc": texts(table["wide"].to_pylist()),
    "parquet": texts(pyarrow.parquet.read_table(io.BytesIO(written("Parquet")))["day"].to_pylist()),
    "arrow": texts(pyarrow.ipc.open_file(written("Arrow")).read_all()["day"].to_pylist()),
}
print(*[f"{name} {importlib.metadata.version(name)}" for name in ("chdb", "pyarrow", "pyorc")], table.schema, *seen.items(), sep="\n")
assert table.schema.field("day").type == pyarrow.date32()
wrapped = ["2059-09-18", "1880-04-14", "1920-07-27", "1969-12-31"]
assert seen.pop("orc") == seen.pop("orc by pyorc") == seen.pop("orc by chdb") == wrapped
assert all(values == days for values in seen.values())
PYTHON
