#!/usr/bin/env bash
# apache-arrow 21.2.0 (npm): `get(i)` and `toArray()[i]` of a column. A guess: the same value.
#
# Seen: a null number is null by `get` and 0 in the array (a null date or text is null in both). A timestamp is milliseconds by
# `get`, a fraction that rounds nanoseconds, and a count of its own unit in the array; a date is milliseconds in both.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit --prefix "$folder" apache-arrow@21.2.0
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import datetime
import pyarrow as pa

rows = pa.table({
    "n": pa.array([1, None], pa.int32()),
    "x": pa.array([1.5, None]),
    "word": ["a", None],
    "day": pa.array([datetime.date(1970, 1, 2), None]),
    "t": pa.array([1_000_000_123_456_789_123, None], pa.timestamp("ns")),
})
with pa.ipc.new_stream("rows.arrow", rows.schema) as writer:
    writer.write_table(rows)
PYTHON
node --input-type=module - <<'JAVASCRIPT'
import assert from 'node:assert';
import fs from 'node:fs';
import { tableFromIPC } from 'apache-arrow';

const rows = tableFromIPC(fs.readFileSync('rows.arrow'));
const seen = Object.fromEntries(rows.schema.names.map((name) => {
  const column = rows.getChild(name);
  return [name, [[column.get(0), column.get(1)], Array.from(column.toArray())]];
}));
console.log(seen);
assert.deepStrictEqual(seen, {
  n: [[1, null], [1, 0]],
  x: [[1.5, null], [1.5, 0]],
  word: [['a', null], ['a', null]],
  day: [[86400000, null], [86400000, null]],
  t: [[1000000123456.7891, null], [1000000123456789123n, 0n]],
});
JAVASCRIPT
