#!/usr/bin/env bash
# pyarrow 26.0.1: `cast` from list_view to list, which readers that know no views need. A guess: the same lists come out.
#
# Seen: the offsets buffer of the result is one offset short, so the last list is lost (or whatever stands behind the buffer
# decides); `to_pylist` says so without an error, and only `validate` refuses the array.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import pyarrow as pa

views = pa.array([[1, 2], None, [3]], pa.list_view(pa.int64()))
views.validate(full=True)
lists = views.cast(pa.list_(pa.int64()))
print(pa.__version__, views.to_pylist())
assert views.to_pylist() == [[1, 2], None, [3]]
try:
    lists.validate(full=True)
except pa.ArrowInvalid as error:
    print(error)
else:
    raise SystemExit("the cast gives a sound array now")
PYTHON
