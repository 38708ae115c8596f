#!/usr/bin/env bash
# vortex-data 0.93.0 and Arrow's own extension types. A guess: they all come back, or those that it does not know are refused.
#
# Seen: arrow.uuid and arrow.json come back as they were; arrow.bool8, arrow.opaque and arrow.fixed_shape_tensor come back as what
# they are stored as, without a word: a table of booleans has become one of small integers.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check vortex-data==0.93.0 pyarrow==26.0.1 numpy
"$folder/venv/bin/python" - <<'PYTHON'
import numpy as np
import pyarrow as pa
import vortex


def column(kind, values):
    return pa.ExtensionArray.from_storage(kind, pa.array(values, kind.storage_type))


rows = pa.table({
    "uuid": column(pa.uuid(), [b"0" * 16, None]),
    "json": column(pa.json_(), ["{}", None]),
    "bool8": column(pa.bool8(), [1, 0]),
    "opaque": column(pa.opaque(pa.int32(), "kind", "vendor"), [1, 2]),
    "tensor": pa.FixedShapeTensorArray.from_numpy_ndarray(np.zeros((2, 3))),
})
vortex.io.write(rows, "rows.vortex")
schema = vortex.open("rows.vortex").to_arrow().read_all().schema
print(schema)
assert schema.field("uuid").type == pa.uuid()
assert schema.field("json").type.extension_name == "arrow.json"
assert schema.field("bool8").type == pa.int8() and schema.field("opaque").type == pa.int32()
assert pa.types.is_fixed_size_list(schema.field("tensor").type)
PYTHON
