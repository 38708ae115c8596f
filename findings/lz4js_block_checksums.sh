#!/usr/bin/env bash
# lz4js 0.2.0 (npm) and LZ4 frames with a checksum behind each block, as `lz4 -BX` and the Python package lz4 4.4.5 write them when asked.
# A guess: a flag in the frame's header says that four bytes follow each block, so a reader passes over them, whether it compares them or
# not.
#
# Seen: they are not passed over. What comes out has other bytes, of the right length for one block ("1\n" where "row 1\n" was, zeros at
# the end) and of another length for several, without an error. Frames with a checksum of the whole, or with the size in front, are right.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
cd "$folder"
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check lz4==4.4.5
npm install --silent --no-audit --no-fund --prefix "$folder" lz4js@0.2.0
"$folder/venv/bin/python" - <<'PYTHON'
import lz4.frame

few = b"".join(b"row %d\n" % number for number in range(4))
many = b"".join(b"row %d\n" % number for number in range(100_000))
settings = {"plain": {}, "content": {"content_checksum": True}, "size": {"store_size": True}, "blocks": {"block_checksum": True}}
for name, setting in settings.items():
    for rows, text in (("few", few), ("many", many)):
        frame = lz4.frame.compress(text, block_size=lz4.frame.BLOCKSIZE_MAX64KB, **setting)
        assert lz4.frame.decompress(frame) == text
        open(f"{rows}.{name}", "wb").write(frame)
open("few", "wb").write(few)
open("many", "wb").write(many)
PYTHON
cat > seen.js <<'JS'
const fs = require("fs");
const lz4 = require("lz4js");
console.log(require("lz4js/package.json").version);
for (const rows of ["few", "many"]) {
  const text = fs.readFileSync(rows);
  for (const name of ["plain", "content", "size", "blocks"]) {
    const read = Buffer.from(lz4.decompress(new Uint8Array(fs.readFileSync(`${rows}.${name}`))));
    const longer = read.length === text.length ? "as long" : "of another length";
    console.log(rows, name, read.equals(text) ? "equal" : `other bytes, ${longer}: ${JSON.stringify(read.toString("latin1", 0, 12))}`);
  }
}
JS
node seen.js | tee seen
diff seen - <<'SEEN'
0.2.0
few plain equal
few content equal
few size equal
few blocks other bytes, as long: "0\n\u0000\u0000\u0000\u00001\n\u0000\u0000\u0000\u0000"
many plain equal
many content equal
many size equal
many blocks other bytes, of another length: "0\n\u0000\u0000\u0000\u00001\n\u0000\u0000\u0000\u0000"
SEEN
