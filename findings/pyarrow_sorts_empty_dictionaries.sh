#!/usr/bin/env bash
# pyarrow 26.0.1: `sort_indices` has no order for float16, string_view and binary_view, and says so of an array without values, too:
# "ArrowNotImplementedError". A guess: asked so, it also says whether a dictionary of these can be sorted.
#
# Seen: a dictionary array without rows, or with nulls alone, is sorted whatever its values are; one with values of these types is
# refused. Whoever asks an empty array for what a column's type can do learns the truth from the first row.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import pyarrow as pa
import pyarrow.compute as pc

assert pa.__version__ == "26.0.1"


def sorts(array):
    try:
        return pc.sort_indices(array).to_pylist()
    except pa.ArrowNotImplementedError:
        return "refused"


seen = {}
for kind, values in {"float16": [1.0, 2.0], "string_view": ["a", "b"], "binary_view": [b"a", b"b"], "string": ["a", "b"]}.items():
    plain = pa.array(values, getattr(pa, kind)())
    coded = pa.DictionaryArray.from_arrays(pa.array([1, 0], pa.int8()), plain)
    nulls = pa.nulls(2, coded.type)
    seen[kind] = [sorts(plain[:0]), sorts(plain), sorts(coded[:0]), sorts(nulls), sorts(coded)]
    print(f"{kind}: plain without rows and with, a dictionary without rows, of nulls, with values: {seen[kind]}")
for kind in ("float16", "string_view", "binary_view"):
    assert seen[kind] == ["refused", "refused", [], [0, 1], "refused"], seen[kind]
assert seen["string"] == [[], [0, 1], [], [0, 1], [1, 0]], seen["string"]
PYTHON
