#!/usr/bin/env bash
# polars 2.1.0 and an Enum that goes to Arrow and back. A guess: the type comes back, since the dictionary has all categories
# and is marked as ordered.
#
# Seen: a DataFrame's column comes back as Enum, because its Arrow field has metadata of polars; a Series' array, which has no field,
# comes back as Categorical, and so does whatever passed through a library that drops metadata.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check polars==2.1.0 pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import polars

sizes = polars.Series("size", ["small", "large"], dtype=polars.Enum(["small", "large"]))
array, table = sizes.to_arrow(), polars.DataFrame([sizes]).to_arrow()
bare = table.replace_schema_metadata(None)
stripped = bare.cast(bare.schema.set(0, bare.schema.field(0).remove_metadata()))
print(polars.__version__, array.type, table.schema.field("size").metadata)
assert array.type.ordered
assert polars.from_arrow(array).dtype == polars.Categorical
assert isinstance(polars.from_arrow(table).schema["size"], polars.Enum)
assert not isinstance(polars.from_arrow(stripped).schema["size"], polars.Enum)
PYTHON
