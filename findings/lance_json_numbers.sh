#!/usr/bin/env bash
# pylance 14.0.2 and a column of Arrow's JSON type (extension arrow.json, whose storage is text). A guess: the text comes back, or at
# least each number as it was, since JSON's numbers have no limit of size.
#
# Seen: the text is stored decoded and written anew. Names are sorted, spaces go, integers beyond 64 bits come back as floats
# (1234567890123456789012345678 as 1.2345678901234569e+27), and a number beyond the range of a double comes back as null.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check pylance==14.0.2 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import lance
import pyarrow as pa

texts = ['{"b": 1, "a": 2}', "1.10", "1234567890123456789012345678", "1e400", "12345678901234567"]
rows = pa.table({"document": pa.ExtensionArray.from_storage(pa.json_(), pa.array(texts))})
lance.write_dataset(rows, "rows.lance")
found = lance.dataset("rows.lance").to_table().column("document")
print(found.type, found.to_pylist())
assert found.type == pa.json_()
assert found.to_pylist() == [
    '{"a":2,"b":1}', "1.1", "1.2345678901234569e+27", "null", "12345678901234567",
]
PYTHON
