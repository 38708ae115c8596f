#!/usr/bin/env bash
# pyarrow 26.0.1: `type_codes` and `offsets` of a slice of a union. A guess: they are those of the slice's rows, as `offsets` of a slice of a
# list are.
#
# Seen: they are those of the array's first rows, as many as the slice has, while `to_pylist` reads the right rows. `take` makes an
# array whose codes and offsets are its own.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import pyarrow as pa

codes = pa.array([0, 1, 0], pa.int8())
delays, planes = pa.array([5, 7], pa.int32()), pa.array(["N1"])
dense = pa.UnionArray.from_dense(codes, pa.array([0, 0, 1], pa.int32()), [delays, planes])
wide = [pa.array([5, None, 7], pa.int32()), pa.array([None, "N1", None])]
sparse = pa.UnionArray.from_sparse(codes, wide)
for name, union in (("dense", dense), ("sparse", sparse)):
    part = union.slice(1)
    print(f"{name}: rows {part.to_pylist()}, codes {part.type_codes.to_pylist()}")
    assert part.to_pylist() == ["N1", 7]
    assert part.type_codes.to_pylist() == [0, 1]  # those of rows 1 and 2 are 1 and 0
    assert part.take(pa.array([0, 1])).type_codes.to_pylist() == [1, 0]
part = dense.slice(1)
print(f"dense: offsets {part.offsets.to_pylist()}")
assert part.offsets.to_pylist() == [0, 0]  # those of rows 1 and 2 are 0 and 1
lists = pa.array([[1], [2, 3], [4]]).slice(1)
assert lists.offsets.to_pylist() == [1, 3, 4]
PYTHON
