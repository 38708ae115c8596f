#!/usr/bin/env bash
# pyarrow 26.0.1: `view` reinterprets an array without a copy, here as the very type that it has. A guess: for the same type it
# gives the same array.
#
# Seen: of a list (or large list) of nulls, whose values have no buffer, the result has fewer values than its offsets name: `validate`
# refuses it and `to_pylist` raises. Lists of other types come back as they are.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import pyarrow as pa

for kind in (pa.list_, pa.large_list):
    numbers = pa.array([[1, 2], [3]], kind(pa.int64()))
    assert numbers.view(numbers.type).equals(numbers)
    nulls = pa.array([[None, None], [None]], kind(pa.null()))
    nulls.validate(full=True)
    try:
        nulls.view(nulls.type).validate(full=True)
    except pa.ArrowInvalid as error:
        print(pa.__version__, nulls.type, error)
    else:
        raise SystemExit("view gives a sound array now")
PYTHON
