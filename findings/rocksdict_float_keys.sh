#!/usr/bin/env bash
# rocksdict 0.3.29, which keeps Python keys of any type in RocksDB. A guess: keys of one type are iterated in their order, as
# integers are, negative ones of any length too, so that a range of floats can be read.
#
# Seen: floats are ordered by their bits: negative ones come after all others, NaN included, and the least of them last.
set -euo pipefail
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
python3 -m venv "$folder/venv"
"$folder/venv/bin/python" -m pip install --quiet --disable-pip-version-check rocksdict==0.3.29
"$folder/venv/bin/python" - <<'PYTHON'
import importlib.metadata
import tempfile
import rocksdict

folder = tempfile.mkdtemp()
orders = {}
for name, keys in (("integers", [-300, -1, 0, 2, 10, 2**70]), ("floats", [-2.5, -1.5, 0.0, 1.5, float("inf")])):
    store = rocksdict.Rdict(f"{folder}/{name}")
    for key in reversed(keys):
        store[key] = name
    orders[name] = list(store.keys())
    store.close()
print(importlib.metadata.version("rocksdict"), orders)
assert orders["integers"] == [-300, -1, 0, 2, 10, 2**70]
assert orders["floats"] == [0.0, 1.5, float("inf"), -1.5, -2.5]
PYTHON
