#!/usr/bin/env bash
# daft 0.7.26 and an Arrow table with a column of dictionary-encoded text, as pandas' categories and polars' give it. A guess: it is text
# to Daft, since it has no dictionaries, or is refused, as arrow.uuid is.
#
# Seen: it is a column of Python objects. A filter and `to_pydict` show the words; `to_arrow` and `write_parquet` give pickles in an
# extension type, which other readers take for bytes; a group or a sort by it raises. So it is with string_view and time32.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check daft==0.7.26 pyarrow==25.0.1
export DO_NOT_TRACK=1 DAFT_PROGRESS_BAR=0
"$folder/venv/bin/python" - <<'PYTHON'
import glob
import pickle
import daft
import pyarrow as pa
import pyarrow.parquet as pq

words = pa.array(["a", "b", "a"])
times = pa.array([1, 2, 3], pa.time32("ms"))
rows = daft.from_arrow(pa.table({"plain": words, "coded": words.dictionary_encode(), "view": words.cast(pa.string_view()), "time": times}))
print(daft.__version__, rows.schema())
python = daft.DataType.python()
assert [field.dtype == python for field in rows.schema()] == [False, True, True, True]
assert rows.where(daft.col("coded") == "a").select("coded").to_pydict() == {"coded": ["a", "a"]}
rows.select("plain", "coded").write_parquet("rows")
(name,) = glob.glob("rows/*.parquet")
back = pq.read_table(name)
stored = back["coded"].combine_chunks().storage
print(back.schema, stored[0])
assert back["plain"].to_pylist() == ["a", "b", "a"]
assert stored.type in (pa.binary(), pa.large_binary()) and [pickle.loads(word) for word in stored.to_pylist()] == ["a", "b", "a"]
PYTHON
