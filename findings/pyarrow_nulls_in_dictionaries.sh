#!/usr/bin/env bash
# pyarrow 26.0.1 and a dictionary array whose null stands in the dictionary, not in the indices, as the format allows. A guess:
# all functions agree on whether a row is null.
#
# Seen: `is_null`, `to_pylist` and `count` say that it is; `null_count` is 0, `drop_null` (of arrays and of tables) keeps the row,
# `count` in a `group_by` counts it, and `to_pandas` raises.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check pyarrow==26.0.1 pandas==3.0.0
"$folder/venv/bin/python" - <<'PYTHON'
import pyarrow as pa
import pyarrow.compute as pc

words = pa.DictionaryArray.from_arrays([0, 1], ["a", None])
words.validate(full=True)
rows = pa.table({"k": [1, 1], "word": words})
grouped = rows.group_by("k").aggregate([("word", "count")]).to_pylist()
print(pa.__version__, words.null_count, words.drop_null().to_pylist(), grouped)
assert words.is_null().to_pylist() == [False, True]
assert pc.count(words).as_py() == 1
assert words.null_count == 0
assert words.drop_null().to_pylist() == ["a", None]
assert rows.drop_null().num_rows == 2
assert grouped == [{"k": 1, "word_count": 2}]
try:
    words.to_pandas()
except ValueError as error:
    print(error)
else:
    raise SystemExit("to_pandas takes it now")
PYTHON
