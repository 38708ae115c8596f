#!/usr/bin/env bash
# pyarrow 26.0.1: `keys` and `items` of a slice of a map array, and what a map array has of a list array, as which it is stored.
# A guess: the entries of the slice's maps, and `flatten` and `value_lengths` as lists have them.
#
# Seen: `keys` and `items` are those of the whole array, without regard to the slice (its `offsets` say which are its own);
# `flatten` and `value_lengths`, which are methods of a map array too, find no kernel.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import pyarrow as pa

maps = pa.array([[("a", 1)], [("b", 2), ("c", 3)], [("d", 4)]], pa.map_(pa.string(), pa.int64()))
one = maps.slice(1, 1)
print(pa.__version__, one.to_pylist(), one.items.to_pylist(), one.offsets.to_pylist())
assert one.to_pylist() == [[("b", 2), ("c", 3)]]
assert (one.keys.to_pylist(), one.items.to_pylist()) == (["a", "b", "c", "d"], [1, 2, 3, 4])
assert one.offsets.to_pylist() == [1, 3]
lists = pa.array([[1], [2, 3], [4]]).slice(1, 1)
assert (lists.flatten().to_pylist(), lists.value_lengths().to_pylist()) == ([2, 3], [2])
for method in (one.flatten, one.value_lengths):
    try:
        method()
    except pa.ArrowNotImplementedError as error:
        print(error)
    else:
        raise SystemExit(f"{method} of a map array is there now")
PYTHON
