#!/usr/bin/env bash
# lmdb 3.5.6 (npm) and py-lmdb 3.0.0, two bindings of LMDB. A guess: a database that one wrote can be opened by the other, since
# LMDB has one file format.
#
# Seen: py-lmdb refuses it: the npm package brings an LMDB of its own, whose files have format 2, which no release of LMDB reads,
# for plain bytes as keys and values too.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
npm install --silent --no-fund --no-audit --prefix "$folder" lmdb@3.5.6
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check lmdb==3.0.0
node --input-type=module - <<'JAVASCRIPT'
import assert from 'node:assert';
import { open } from 'lmdb';

const database = open({ path: 'database', noSubdir: false, encoding: 'binary', keyEncoding: 'binary' });
await database.put(Buffer.from('k'), Buffer.from('v'));
assert.strictEqual(String(database.get(Buffer.from('k'))), 'v');
await database.close();
JAVASCRIPT
"$folder/venv/bin/python" - <<'PYTHON'
import lmdb

try:
    lmdb.open("database", readonly=True, lock=False)
except lmdb.Error as error:
    print(lmdb.__version__, lmdb.version(), error)
else:
    raise SystemExit("py-lmdb opens it now")
PYTHON
