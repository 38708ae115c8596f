#!/usr/bin/env bash
# deltalake 1.6.6 and a table that is partitioned by a column of bytes, which Delta's protocol allows (in the log they are
# escaped, as \u0061). A guess: the bytes come back.
#
# Seen: the escape comes back, six bytes for each one, through the query engine too. A value without bytes comes back as null, or as
# no bytes through the query engine.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check deltalake==1.6.6 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import tempfile
import deltalake
import pyarrow as pa

path = tempfile.mkdtemp()
keys = pa.array([b"a", b"\xff", b""], pa.binary())
deltalake.write_deltalake(path, pa.table({"k": keys, "v": [0, 1, 2]}), partition_by=["k"])
table = deltalake.DeltaTable(path)
rows = table.to_pyarrow_table().sort_by("v")["k"].to_pylist()
engine = deltalake.QueryBuilder().register("t", table).execute("SELECT k FROM t ORDER BY v").read_all()
queried = pa.table(engine)["k"].to_pylist()
print(deltalake.__version__, rows, queried)
assert rows == [b"\\u0061", b"\\u00FF", None]
assert queried == [b"\\u0061", b"\\u00FF", b""]
PYTHON
