#!/usr/bin/env bash
# unqlite 1.2.0: floats in the documents of a collection, which are kept in a binary JSON of its own. A guess: a double comes back as it
# was, as integers of 64 bits do, or what cannot be kept is refused.
#
# Seen: it is kept as text of 15 digits, so 0.1 + 0.2 is 0.3, and a time of 1700000000.123456 loses its microseconds. The greatest
# double comes back as infinity, infinity and NaN as 0, 1e-310 as about 1e-306, and 1.0 as the integer 1.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check unqlite==1.2.0
"$folder/venv/bin/python" - <<'PYTHON'
import math
import sys
import unqlite

rows = unqlite.UnQLite(":mem:").collection("rows")
rows.create()
values = [2**53 + 1, 0.1, 0.1 + 0.2, 1700000000.123456, sys.float_info.max, math.inf, math.nan, 1e-310, 1.0]
seen = [rows.fetch(rows.store({"v": value}))["v"] for value in values]
print(seen)
assert seen[:7] == [2**53 + 1, 0.1, 0.3, 1700000000.12346, math.inf, 0, 0]
assert 0.9e-306 < seen[7] < 1.1e-306 and type(seen[8]) is int
PYTHON
