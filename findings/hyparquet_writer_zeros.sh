#!/usr/bin/env bash
# hyparquet-writer 0.17.0 (npm) and a column of doubles with both 0 and -0, which Parquet keeps apart. A guess: each comes back as it was
# written, as Float64Array and columns of few rows do.
#
# Seen: once values repeat, the column gets a dictionary, for which 0 and -0 are one value: the first of the two stands for both, so
# all zeros come back as -0 if that came first, and 1 / x changes from infinity to minus infinity. pyarrow 26.0.1 reads the same file so.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit --prefix "$folder" hyparquet-writer@0.17.0 hyparquet@1.31.5
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check pyarrow==26.0.1
node --input-type=module - <<'JAVASCRIPT'
import assert from 'node:assert';
import fs from 'node:fs';
import { parquetReadObjects } from 'hyparquet';
import { parquetWriteBuffer } from 'hyparquet-writer';

const back = async (data) => {
  const file = parquetWriteBuffer({ columnData: [{ name: 'c', data, type: 'DOUBLE' }] });
  fs.writeFileSync('rows.parquet', new Uint8Array(file));
  return (await parquetReadObjects({ file })).map((row) => row.c);
};
const few = [-0, 0, 0.5];
const many = [-0, 0, 0, 0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5];
const seen = [await back(few), await back(many)];
console.log(seen);
assert.deepStrictEqual(seen[0], few);
assert.deepStrictEqual(seen[1], [-0, -0, -0, -0, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5]);
JAVASCRIPT
"$folder/venv/bin/python" - <<'PYTHON'
import pyarrow.parquet as pq

values = pq.read_table("rows.parquet")["c"].to_pylist()
print(values)
assert [repr(value) for value in values[:4]] == ["-0.0"] * 4
PYTHON
