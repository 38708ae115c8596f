#!/usr/bin/env bash
# apache-arrow 21.2.0 (npm) and a dictionary with 64-bit indices, which the format allows and pyarrow 26.0.1 makes of a list
# (`DictionaryArray.from_arrays([0, 1], ...)`). A guess: it is read as one with 32-bit indices, or refused when the file is opened.
#
# Seen: the table opens, its schema and `nullCount` are right, and each `get` raises a TypeError about BigInt.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit --prefix "$folder" apache-arrow@21.2.0
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import pyarrow as pa

words = ["a", "b"]
rows = pa.table({
    "narrow": pa.DictionaryArray.from_arrays(pa.array([0, 1, None], pa.int32()), words),
    "wide": pa.DictionaryArray.from_arrays([0, 1, None], words),
})
assert rows.schema.field("wide").type.index_type == pa.int64()
with pa.ipc.new_stream("rows.arrow", rows.schema) as writer:
    writer.write_table(rows)
PYTHON
node --input-type=module - <<'JAVASCRIPT'
import assert from 'node:assert';
import fs from 'node:fs';
import { tableFromIPC } from 'apache-arrow';

const rows = tableFromIPC(fs.readFileSync('rows.arrow'));
console.log(String(rows.schema), rows.getChild('wide').nullCount);
assert.deepStrictEqual([...rows.getChild('narrow')], ['a', 'b', null]);
assert.strictEqual(rows.getChild('wide').nullCount, 1);
assert.throws(() => rows.getChild('wide').get(0), TypeError);
JAVASCRIPT
