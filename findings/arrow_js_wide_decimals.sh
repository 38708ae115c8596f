#!/usr/bin/env bash
# apache-arrow 21.2.0 (npm) and decimals of 256 bits. A guess: they print as decimals of 128 bits do, or are refused.
#
# Seen: every one prints, and goes into JSON, as 0 (negative ones as -0), while `Number()` of the same value is right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit --prefix "$folder" apache-arrow@21.2.0
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check pyarrow==26.0.1
"$folder/venv/bin/python" - <<'PYTHON'
import decimal
import pyarrow as pa

values = [decimal.Decimal("1.50"), decimal.Decimal("-1.50")]
rows = pa.table({"narrow": pa.array(values, pa.decimal128(5, 2)), "wide": pa.array(values, pa.decimal256(50, 2))})
with pa.ipc.new_stream("rows.arrow", rows.schema) as writer:
    writer.write_table(rows)
PYTHON
node --input-type=module - <<'JAVASCRIPT'
import assert from 'node:assert';
import fs from 'node:fs';
import { tableFromIPC } from 'apache-arrow';

const rows = tableFromIPC(fs.readFileSync('rows.arrow'));
const seen = Object.fromEntries(['narrow', 'wide'].map((name) => {
  const values = [0, 1].map((row) => rows.getChild(name).get(row));
  return [name, { text: values.map(String), json: JSON.stringify(values), numbers: values.map(Number) }];
}));
console.log(seen);
assert.deepStrictEqual(seen.narrow, { text: ['150', '-150'], json: JSON.stringify(['"150"', '"-150"']), numbers: [150, -150] });
assert.deepStrictEqual(seen.wide, { text: ['0', '-0'], json: JSON.stringify(['"0"', '"-0"']), numbers: [150, -150] });
JAVASCRIPT
